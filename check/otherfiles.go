package check

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A place is a file or a directory of OpenCode's configuration. Its name is what
// people are told: for what a variable names, the variable, whose value may be a
// configuration by mistake.
type place struct{ path, name string }

func (p place) join(elements ...string) place {
	rest := filepath.Join(elements...)
	return place{filepath.Join(p.path, rest), filepath.Join(p.name, rest)}
}

// places returns the configuration files that OpenCode 1.18.33 reads beside the
// variable, and the directories from which it loads plugins by itself.
func (c *checker) places() (files, dirs []place) {
	config, _ := c.getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(c.Home, ".config") // on every system
	}
	global := place{filepath.Join(config, "opencode"), filepath.Join(config, "opencode")}
	files = append(files, global.join("config.json"), global.join("opencode.json"), global.join("opencode.jsonc"))
	dirs = append(dirs, global)
	if file, _ := c.getenv("OPENCODE_CONFIG"); file != "" {
		files = append(files, place{c.resolve(file), "$OPENCODE_CONFIG"})
	}

	// What has plugins of its own and configuration files; the global one had its turn.
	var own []place
	if value, _ := c.getenv("OPENCODE_DISABLE_PROJECT_CONFIG"); value != "1" && !strings.EqualFold(value, "true") {
		for _, dir := range upwards(c.Dir) {
			project := place{dir, dir}
			files = append(files, project.join("opencode.json"), project.join("opencode.jsonc"))
			own = append(own, project.join(".opencode"))
		}
	}
	if home := (place{c.Home, c.Home}).join(".opencode"); c.Home != "" && !contains(own, home.path) {
		own = append(own, home)
	}
	if value, _ := c.getenv("OPENCODE_CONFIG_DIR"); value != "" {
		if dir := c.resolve(value); dir != global.path && !contains(own, dir) {
			own = append(own, place{dir, "$OPENCODE_CONFIG_DIR"})
		}
	}
	for _, dir := range own {
		files = append(files, dir.join("opencode.json"), dir.join("opencode.jsonc"))
	}
	return files, append(dirs, own...)
}

// resolve makes a path absolute that OpenCode takes from where it is started.
func (c *checker) resolve(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.Dir, path)
}

func contains(places []place, path string) bool {
	for _, p := range places {
		if p.path == path {
			return true
		}
	}
	return false
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

// checkOtherFiles looks for the plugin in the rest of OpenCode's configuration. It
// is loaded twice from there only if it is in our list as well.
func (c *checker) checkOtherFiles(listed bool) {
	files, dirs := c.places()
	for _, file := range files {
		c.checkOtherFile(file, listed)
	}
	for _, dir := range dirs {
		for _, pattern := range []string{"plugin/*.js", "plugin/*.ts", "plugins/*.js", "plugins/*.ts"} {
			names, _ := filepath.Glob(escapeGlob(dir.path) + string(filepath.Separator) + filepath.FromSlash(pattern))
			for _, name := range names {
				if _, ok := plugin.Recognize(name); ok && listed {
					rest, _ := filepath.Rel(dir.path, name)
					c.add(LoadedTwice, Error, "OpenCode loads this mcp-reconnect by itself").Filename = dir.join(rest).name
				}
			}
		}
	}
	for _, name := range []string{"opencode.json", "opencode.jsonc"} {
		path := filepath.Join(c.managedDir(), name)
		if _, err := os.Stat(path); err == nil {
			c.add(ConfigManaged, Info, "there is a managed configuration").Filename = path
		}
	}
}

// managedDir is where administrators put configuration (OpenCode 1.18.33).
func (c *checker) managedDir() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/opencode"
	case "windows":
		if data, _ := c.getenv("ProgramData"); data != "" {
			return filepath.Join(data, "opencode")
		}
		return `C:\ProgramData\opencode`
	}
	return "/etc/opencode"
}

func (c *checker) checkOtherFile(file place, listed bool) {
	unread := func(summary string) *Diagnostic {
		d := c.add(ConfigUnread, Info, summary)
		d.Filename = file.name
		return d
	}
	content, err := readRegular(file.path)
	var named *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && content == "":
		return
	case errors.As(err, &named):
		unread("the file cannot be read: " + named.Err.Error())
		return
	case err != nil:
		unread("the file cannot be read: " + err.Error())
		return
	}
	dir := filepath.Dir(file.path)
	means := func(spec string) bool { return c.location.Means(absolute(spec, dir)) }
	l, err := configmerge.List(content, configmerge.Entry{URL: c.entryURL(), Means: means})
	var syntax *configmerge.SyntaxError
	if errors.As(err, &syntax) {
		d := unread("the file cannot be parsed: " + syntax.Msg)
		d.Line, d.Column = syntax.Line, syntax.Column
	}
	if err != nil || !listed {
		return
	}
	for _, entry := range l.Entries {
		if entry.Version2 && c.is1() {
			continue
		}
		severity, summary := Error, "the plugin is named here as well, in another spelling"
		switch _, recognized := plugin.Recognize(absolute(entry.Spec, dir)); {
		case entry.Spec == c.location.Entry:
			// OpenCode loads one URL from two places once.
			severity, summary = Warning, "the plugin is named here as well"
		case entry.Ours:
		case recognized:
			summary = "a second mcp-reconnect is named here, from another data directory"
		default:
			continue
		}
		d := c.add(LoadedTwice, severity, summary)
		d.Filename, d.Line, d.Column = file.name, entry.Line, entry.Column
	}
}

// entryURL is our URL, or one that nothing else has where there is none.
func (c *checker) entryURL() string {
	if c.location.Entry == "" {
		return "file:///"
	}
	return c.location.Entry
}

// readRegular reads a file, unless reading it could take for ever.
func readRegular(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const limit = 16 << 20
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(content) > limit {
		err = errors.New("it is too large")
	}
	return string(content), err
}

// escapeGlob makes a path match itself alone.
func escapeGlob(path string) string {
	if runtime.GOOS == "windows" {
		return path // Glob has no escapes there
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
