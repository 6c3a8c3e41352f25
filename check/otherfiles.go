package check

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// readOtherFiles reads OpenCode's configuration files beside the variable.
func (c *checker) readOtherFiles() {
	c.others = configfile.List(c.around.Sources(), configmerge.Entry{URL: c.entryURL(), Means: c.location.Means})
	for _, f := range c.others {
		var syntax *configmerge.SyntaxError
		switch {
		case errors.As(f.Err, &syntax):
			d := c.add(ConfigUnread, Info, "the file cannot be parsed: "+syntax.Msg)
			d.Filename, d.Line, d.Column = f.Name, syntax.Line, syntax.Column
		case f.Err != nil:
			c.add(ConfigUnread, Info, "the file cannot be read: "+f.Err.Error()).Filename = f.Name
		}
	}
}

// namedInFiles returns the files by which OpenCode loads the plugin.
func (c *checker) namedInFiles() (paths []string) {
	for _, f := range c.others {
		for _, entry := range f.Listing.Entries {
			if _, hidden := f.HiddenBy(c.others, entry.Version2); entry.Ours && !hidden && !(entry.Version2 && c.is1()) {
				paths = append(paths, f.Name)
				break
			}
		}
	}
	return paths
}

// checkOtherFiles looks for the plugin in the rest of OpenCode's configuration. It
// is loaded twice from there only if it is in our list as well.
func (c *checker) checkOtherFiles(listed bool) {
	for _, file := range c.others {
		c.checkOtherFile(file, listed)
	}
	for _, dir := range c.around.PluginDirs() {
		for _, pattern := range []string{"plugin/*.js", "plugin/*.ts", "plugins/*.js", "plugins/*.ts"} {
			names, _ := filepath.Glob(escapeGlob(dir.Path) + string(filepath.Separator) + filepath.FromSlash(pattern))
			for _, name := range names {
				if _, ok := plugin.Recognize(name); ok && listed {
					rest, _ := filepath.Rel(dir.Path, name)
					c.add(LoadedTwice, Error, "OpenCode loads this mcp-reconnect by itself").Filename = dir.Join(rest).Name
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
		if data, _ := c.around.Getenv("ProgramData"); data != "" {
			return filepath.Join(data, "opencode")
		}
		return `C:\ProgramData\opencode`
	}
	return "/etc/opencode"
}

// checkOtherFile looks for entries by which the plugin is loaded once more, or not at all.
func (c *checker) checkOtherFile(file configfile.Listed, listed bool) {
	for _, entry := range file.Listing.Entries {
		if entry.Version2 && c.is1() {
			continue
		}
		path, recognized := plugin.Recognize(file.Resolve(entry.Spec))
		other, hidden := file.HiddenBy(c.others, entry.Version2)
		var d *Diagnostic
		switch {
		case hidden && entry.Ours && !listed:
			d = c.add(EntryMissing, Error, "the plugin is named here, where OpenCode does not look: it reads the list in "+other.Name+" alone")
			d.Detail = "run mcp-reconnect install, which puts it there"
		case hidden || !listed:
			continue
		case entry.Ours && len(c.specs) == 0:
			c.specs = []string{entry.Spec}
			if d = c.checkForm(entry); d == nil {
				continue
			}
		case entry.Ours && slices.Contains(c.specs, entry.Spec):
			continue // OpenCode loads one URL from two places once
		case entry.Ours:
			d = c.add(LoadedTwice, Error, "the plugin is named here as well, in another spelling")
			d.Detail = "run mcp-reconnect install, which leaves one of them, or take this one out"
		case recognized:
			d = c.add(LoadedTwice, Error, "a second mcp-reconnect is named here, from another data directory")
			d.Detail = c.takesOut(path, file)
		default:
			continue
		}
		d.Filename, d.Line, d.Column = file.Name, entry.Line, entry.Column
	}
}

// takesOut returns the advice how to take out an entry of another data directory's mcp-reconnect.
func (c *checker) takesOut(path string, f configfile.Listed) string {
	data, ok := plugin.DataDirOf(path)
	switch {
	case !ok:
		return advice[LoadedTwice]
	case f.Path == "":
		return "take it out: evaluate what mcp-reconnect env --unset --data-dir " + oneline.Word(data) + " prints"
	case f.Scope == configfile.Project:
		return "take it out: mcp-reconnect uninstall --config " + oneline.Word(f.Path) + " --data-dir " + oneline.Word(data)
	}
	return "take it out: mcp-reconnect uninstall --data-dir " + oneline.Word(data)
}

// entryURL is our URL, or one that nothing else has where there is none.
func (c *checker) entryURL() string {
	if c.location.Entry == "" {
		return "file:///"
	}
	return c.location.Entry
}

// escapeGlob makes a path match itself alone.
func escapeGlob(path string) string {
	if runtime.GOOS == "windows" {
		return path // Glob has no escapes there
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
