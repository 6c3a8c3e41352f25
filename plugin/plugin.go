// Package plugin holds the reconnect policy and puts the rendered plugin where
// OpenCode finds it: atomically, readable by its owner alone, under a file: URL.
// It never follows a symbolic link at one of its names, never overwrites a file
// that is not its own, and never looks at flags or environment variables.
package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// Version is the version of this product, of the plugin it renders as well.
const Version = "0.1.0"

const (
	dirName     = "mcp-reconnect"
	stateName   = "mcp-reconnect-state"
	pluginName  = "plugin.js" // for OpenCode 1
	serverName  = "server.js" // for OpenCode 2, which looks for this name in a directory
	packageName = "package.json"
)

// packageJSON makes the directory a module for OpenCode 1, which resolves a
// directory through "main"; OpenCode 2 does not read it. Its start doubles as the file's marker of ours.
const packageJSON = packageMarker + `,"version":"` + Version + `","private":true,"type":"module","main":"./` + pluginName + `"}` + "\n"

const packageMarker = `{"name":"mcp-reconnect"`

// A Location is where the plugin stands, or will stand, on disk.
type Location struct {
	Dir      string // absolute path of the plugin's directory, <data>/mcp-reconnect
	StateDir string // of what changes while OpenCode runs, <data>/mcp-reconnect-state: see package state
	Entry    string // file: URL of Dir: what belongs in OpenCode's plugin list
	FileURL  string // file: URL of plugin.js, for hosts that want a file
	pathname string // Dir as pathOf gives it, for comparing
}

// Locate returns where the plugin stands below a data directory, which may be
// relative. It refuses a path from which no OpenCode loads a plugin
// ("?", and "\" on Unix: measured), and touches nothing.
func Locate(dataDir string) (Location, error) {
	if dataDir == "" {
		return Location{}, errors.New("the data directory has no name")
	}
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return Location{}, fmt.Errorf("finding the data directory: %w", err)
	}
	for _, c := range `?\` {
		if strings.ContainsRune(abs, c) && (c != filepath.Separator) {
			return Location{}, fmt.Errorf("the data directory %q has %q in its path: OpenCode cannot load a plugin from there", abs, c)
		}
	}
	l := Location{Dir: filepath.Join(abs, dirName), StateDir: filepath.Join(abs, stateName)}
	if l.Entry, err = FileURL(l.Dir); err != nil {
		return Location{}, fmt.Errorf("the data directory: %w", err)
	}
	if l.FileURL, err = FileURL(filepath.Join(l.Dir, pluginName)); err != nil {
		return Location{}, fmt.Errorf("the data directory: %w", err)
	}
	l.pathname, _ = pathOf(l.Entry, runtime.GOOS == "windows")
	return l, nil
}

// Means reports whether an entry of a plugin list names the plugin at l, in
// whatever spelling: as a URL or a path, of the directory or of a script of ours in it.
func (l Location) Means(entry string) bool {
	name, ok := pathOf(entry, runtime.GOOS == "windows")
	if !ok || l.pathname == "" {
		return false
	}
	return name == l.pathname || name == l.pathname+"/"+pluginName || name == l.pathname+"/"+serverName
}

// DataDirOf returns the data directory of a script that Recognize found, unless it stands
// somewhere else than mcp-reconnect puts it.
func DataDirOf(script string) (dataDir string, ok bool) {
	dir := filepath.Dir(script)
	return filepath.Dir(dir), filepath.Base(dir) == dirName
}

// Render returns plugin.js, which is for OpenCode 1, for a policy. The same policy
// gives the same bytes.
func Render(p Policy) ([]byte, error) { return first(render(p, template.OpenCode1)) }

// RenderServer returns server.js, which is for OpenCode 2, as Render does plugin.js.
// It is experimental: no OpenCode 2 has run it.
func RenderServer(p Policy) ([]byte, error) { return first(render(p, template.OpenCode2)) }

func first(renderings []template.Rendering, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return renderings[0].Bytes(), nil
}

// render returns the script for each host.
func render(p Policy, hosts ...template.Host) ([]template.Rendering, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	renderings, err := template.Render(template.Data{Version: Version, Settings: p.rendered()}, hosts...)
	if err != nil {
		return nil, fmt.Errorf("rendering the plugin: %w", err)
	}
	return renderings, nil
}
