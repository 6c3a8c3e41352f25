// Package configfile knows where OpenCode's configuration files are, and reads and replaces one
// so that nobody's edit is lost. It never repeats what is in a file, which holds API keys, and
// it parses no more of it than package configmerge does.
package configfile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A Surrounding is what decides where OpenCode looks for its configuration.
type Surrounding struct {
	Environ []string
	Dir     string // where OpenCode is started
	Home    string // the person's home directory, or ""
}

// A Place is a file or a directory of OpenCode's configuration. Its Name is what people are
// told: for what a variable names, the variable, whose value may be a configuration by mistake.
type Place struct{ Path, Name string }

// Join returns the place of something below this one.
func (p Place) Join(elements ...string) Place {
	rest := filepath.Join(elements...)
	return Place{filepath.Join(p.Path, rest), filepath.Join(p.Name, rest)}
}

// A Source is a configuration file that OpenCode reads if it is there.
type Source struct {
	Place
	Scope Scope
}

// A Scope says whose a file is, and how its plugin list counts.
type Scope int

const (
	// Global files are the person's: of their plugin lists, the last one counts alone (measured, 1.2.27 and 1.18.33).
	// The lists of all other files are added to it.
	Global  Scope = iota
	Own           // of the person as well
	Project       // of the directory that OpenCode is started in
)

// Getenv returns a variable, and whether it is set: OpenCode minds the difference.
func (s Surrounding) Getenv(name string) (value string, set bool) {
	for _, entry := range s.Environ {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value, true
		}
	}
	return "", false
}

// Global returns OpenCode's global directory: the same on every system.
func (s Surrounding) Global() Place {
	config, _ := s.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(s.Home, ".config")
	}
	dir := s.resolve(filepath.Join(config, "opencode"))
	return Place{dir, dir}
}

// GlobalSources returns the files of the global directory. Of what is said twice, the later file counts.
func (s Surrounding) GlobalSources() []Source {
	return in(Global, s.Global(), "config.json", "opencode.json", "opencode.jsonc")
}

// Sources returns the configuration files that OpenCode reads beside the variable (1.18.33), in its order.
func (s Surrounding) Sources() []Source {
	sources := s.GlobalSources()
	if file, _ := s.Getenv("OPENCODE_CONFIG"); file != "" {
		sources = append(sources, Source{Place{s.resolve(file), "$OPENCODE_CONFIG"}, Own})
	}
	if s.readsProject() {
		for _, dir := range upwards(s.Dir) {
			sources = append(sources, in(Project, Place{dir, dir}, "opencode.json", "opencode.jsonc")...)
		}
	}
	for _, dir := range s.directories() {
		sources = append(sources, in(dir.Scope, dir.Place, "opencode.json", "opencode.jsonc")...)
	}
	return sources
}

// PersonalSources returns those of the files that are the person's own, and no project's.
func (s Surrounding) PersonalSources() []Source {
	var personal []Source
	for _, source := range s.Sources() {
		if source.Scope != Project {
			personal = append(personal, source)
		}
	}
	return personal
}

// PluginDirs returns the directories from whose plugin directories OpenCode loads by itself.
func (s Surrounding) PluginDirs() []Place {
	dirs := []Place{s.Global()}
	for _, dir := range s.directories() {
		dirs = append(dirs, dir.Place)
	}
	return dirs
}

// directories returns the directories that have plugins of their own and configuration files,
// beside the global one.
func (s Surrounding) directories() []Source {
	var dirs []Source
	if s.readsProject() {
		for _, dir := range upwards(s.Dir) {
			dirs = append(dirs, Source{Place{dir, dir}.Join(".opencode"), Project})
		}
	}
	add := func(dir Place) {
		for n := range dirs {
			if dirs[n].Path == dir.Path {
				dirs[n].Scope = Own // it is both
				return
			}
		}
		dirs = append(dirs, Source{dir, Own})
	}
	if s.Home != "" {
		add(Place{s.Home, s.Home}.Join(".opencode"))
	}
	if value, _ := s.Getenv("OPENCODE_CONFIG_DIR"); value != "" {
		if dir := s.resolve(value); dir != s.Global().Path {
			add(Place{dir, "$OPENCODE_CONFIG_DIR"})
		}
	}
	return dirs
}

func (s Surrounding) readsProject() bool {
	value, _ := s.Getenv("OPENCODE_DISABLE_PROJECT_CONFIG")
	return value != "1" && !strings.EqualFold(value, "true")
}

func in(scope Scope, dir Place, names ...string) []Source {
	var sources []Source
	for _, name := range names {
		sources = append(sources, Source{dir.Join(name), scope})
	}
	return sources
}

// resolve makes a path absolute that OpenCode takes from where it is started.
func (s Surrounding) resolve(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.Dir, path)
}

// Short returns a path as people write it, with ~ for the home directory.
func (s Surrounding) Short(path string) string {
	if s.Home == "" || s.Home == string(filepath.Separator) {
		return path
	}
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(s.Home, string(filepath.Separator))); ok && rest != "" && os.IsPathSeparator(rest[0]) {
		return "~" + rest
	}
	return path
}

// upwards returns dir and the directories above it, up to the first that a Git work tree starts in.
func upwards(dir string) []string {
	var dirs []string
	for dir != "" {
		dirs = append(dirs, dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return dirs
}
