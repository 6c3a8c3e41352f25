package command

import (
	"os"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// hintOthers names other data directories' mcp-reconnects, which OpenCode would load beside ours: those in the
// merged text, and in the person's own files. Only somebody at a terminal waits for that.
func (t target) hintOthers(merged string, s System) {
	if !s.StderrTerminal || t.unset {
		return
	}
	around, err := s.surrounding()
	if err != nil {
		return
	}
	said := map[string]bool{}
	hint := func(place, path, command string) {
		data, ok := plugin.DataDirOf(path)
		if ok && !said[command+data] && !sameFile(data, t.dataDir) {
			said[command+data] = true
			s.hint("a second mcp-reconnect is named in %s, and would be loaded as well; to take it out: "+command,
				oneline.Text(around.Short(place)), oneline.Text(oneline.Word(data)))
		}
	}
	listing, _ := configmerge.List(merged, t.entry)
	for _, entry := range listing.Entries {
		if path, ok := plugin.Recognize(configfile.Absolute(entry.Spec, around.Dir)); ok && !entry.Ours {
			hint("the variable", path, "evaluate what mcp-reconnect env --unset --data-dir %s prints")
		}
	}
	files := configfile.List(around.PersonalSources(), t.entry)
	for _, f := range files {
		for _, entry := range f.Listing.Entries {
			_, hidden := f.HiddenBy(files, entry.Version2)
			if path, ok := plugin.Recognize(f.Resolve(entry.Spec)); ok && !entry.Ours && !hidden {
				hint(f.Name, path, "mcp-reconnect uninstall --data-dir %s")
			}
		}
	}
}

// sameFile reports whether two names are of one thing on disk.
func sameFile(a, b string) bool {
	info1, err1 := os.Stat(a)
	info2, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(info1, info2)
}
