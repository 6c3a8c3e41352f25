package state

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Files returns what is of this package in dir, plugin.Location's StateDir, and what earlier versions left in
// pluginDir, whichever process wrote it; and the directories that may be removed when they are empty, inner ones
// first. No symbolic link is followed.
func Files(pluginDir, dir string) (files, dirs []string, err error) {
	for _, d := range [][2]string{{pluginDir, formerName}, {dir, instancesName}} {
		for _, path := range []string{d[0], filepath.Join(d[0], d[1])} {
			if info, err := os.Lstat(path); err != nil || !info.IsDir() {
				break
			}
			of, errOf := filesIn(path)
			files, err = append(files, of...), errors.Join(err, errOf)
			dirs = append([]string{path}, dirs...)
		}
	}
	return files, dirs, err
}

// temporary is a control file on its way, or what Try makes.
var temporary = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\.(control\.json\.)?[0-9]+\.tmp$`)
})

// filesIn returns state files, also half-written ones, and what tells running plugins what to do.
func filesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var ours []string
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case !entry.Type().IsRegular():
			continue
		case name == controlName:
			if _, err := ReadControl(dir); err != nil {
				continue
			}
		case name == lockName:
			if info, err := entry.Info(); err != nil || info.Size() > 0 {
				continue
			}
		case !fileName().MatchString(name) && !temporary().MatchString(name):
			continue
		}
		ours = append(ours, filepath.Join(dir, name))
	}
	return ours, err
}
