package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Earlier versions kept their state in the plugin's own directory, plugin.Location's Dir. A
// plugin that an OpenCode has loaded stays what it is until that is restarted.

const formerName = "state"

// Former returns the ids of the processes that have loaded such an earlier plugin from
// pluginDir: what is told in its new place does not reach them.
func Former(pluginDir string) (pids []int) {
	found, _ := former(pluginDir, func(string) error { return nil })
	for _, i := range found.List {
		if len(pids) == 0 || pids[len(pids)-1] != i.Pid {
			pids = append(pids, i.Pid)
		}
	}
	return pids
}

// TakeOver removes what earlier versions left in pluginDir, unless one of them runs. A
// pause goes on in dir, plugin.Location's StateDir, if nothing was said there yet. What
// cannot be removed stays, and is of no concern.
func TakeOver(pluginDir, dir string) {
	if !hasFormer(pluginDir) {
		return
	}
	found, err := former(pluginDir, os.Remove)
	if err != nil || len(found.List)+found.Newer+found.Elsewhere > 0 {
		return
	}
	control, err := ReadControl(pluginDir)
	if err != nil {
		return // it is somebody else's
	}
	if _, err := os.Lstat(filepath.Join(dir, controlName)); control.Paused && errors.Is(err, fs.ErrNotExist) {
		if _, err := SetPaused(dir, true); err != nil {
			return
		}
	}
	ours, _ := filesIn(pluginDir)
	states := filepath.Join(pluginDir, formerName)
	if there, _ := isDir(states); there { // a file is none of ours
		ours = append(ours, states) // which goes if it is empty
	}
	for _, path := range ours {
		os.Remove(path)
	}
}

// hasFormer reports whether there is anything that TakeOver could remove: mostly there is
// nothing, and each start of env asks.
func hasFormer(pluginDir string) bool {
	for _, name := range []string{controlName, lockName, formerName} {
		if _, err := os.Lstat(filepath.Join(pluginDir, name)); err == nil {
			return true
		}
	}
	return false
}

func former(pluginDir string, remove func(path string) error) (Instances, error) {
	states := filepath.Join(pluginDir, formerName)
	if ok, err := isDir(states); !ok || err != nil {
		return Instances{}, nil // a file or a link there is none of ours
	}
	return readFiles(states, remove)
}
