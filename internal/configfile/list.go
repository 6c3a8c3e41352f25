package configfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
)

// A Listed is a configuration file with what its plugin lists hold.
type Listed struct {
	Source
	*File
	Listing configmerge.Listing
	// Err says why the file cannot be read or parsed. It does not repeat the path, which may be no path.
	Err error
}

// List opens files, which need not exist, and looks for an entry in them.
func List(sources []Source, e configmerge.Entry) []Listed {
	var files []Listed
	for _, source := range sources {
		f := Listed{Source: source}
		f.File, f.Err = Open(source.Path)
		var named *fs.PathError
		switch {
		case errors.As(f.Err, &named):
			f.Err = named.Err
		case f.Err == nil:
			f.Listing, f.Err = configmerge.List(f.Text, f.Entry(e))
		}
		files = append(files, f)
	}
	return files
}

// Entry returns the entry as the file may spell it: a relative path starts at the file's directory, also
// where the file is a symbolic link (measured).
func (f Listed) Entry(e configmerge.Entry) configmerge.Entry {
	means := e.Means
	if means != nil {
		e.Means = func(spec string) bool { return means(f.Resolve(spec)) }
	}
	return e
}

// Resolve makes an entry of a plugin list absolute that is relative to the directory of the file.
func (f Listed) Resolve(spec string) string { return Absolute(spec, filepath.Dir(f.Path)) }

// Absolute is Resolve for a file in dir.
func Absolute(spec, dir string) string {
	if strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../") {
		return filepath.Join(dir, filepath.FromSlash(spec))
	}
	return spec
}

// HiddenBy returns the file whose plugin list OpenCode reads instead of that of f, if there is one. Version2
// says that the list "plugins" is meant.
func (f Listed) HiddenBy(files []Listed, version2 bool) (other Listed, ok bool) {
	if f.Scope != Global {
		return other, false
	}
	for _, g := range slices.Backward(files) {
		if g.Scope == Global && g.hasList(version2) {
			return g, g.Path != f.Path
		}
	}
	return other, false
}

func (f Listed) hasList(version2 bool) bool {
	at := f.Listing.Plugin
	if version2 {
		at = f.Listing.Plugins
	}
	return at != configmerge.Position{}
}

// Choose returns which of the global files takes our entry: the one whose plugin list OpenCode reads, or else
// the one that counts most, or else a new opencode.json. Decided says that there is such a list: in any other
// file an entry would not be read, or would hide that list.
func Choose(global []Listed) (file Listed, decided bool) {
	for _, version2 := range []bool{false, true} {
		for _, f := range slices.Backward(global) {
			if f.hasList(version2) {
				return f, !version2
			}
		}
	}
	for _, f := range slices.Backward(global) {
		if f.Exists {
			return f, false
		}
	}
	n := slices.IndexFunc(global, func(f Listed) bool { return filepath.Base(f.Path) == "opencode.json" })
	return global[n], false
}
