package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// TestFiles: what may be removed is ours, and nothing else is.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	pluginDir, dir := filepath.Join(root, "mcp-reconnect"), filepath.Join(root, "mcp-reconnect-state")
	write := func(name, content string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.SetPaused(dir, true); err != nil {
		t.Fatal(err)
	}
	if err := state.NewRecord(dir, "http://127.0.0.1:1", "/p").Save(state.Instance{}); err != nil {
		t.Fatal(err)
	}
	ours := []string{
		"mcp-reconnect/control.json", "mcp-reconnect/control.lock", "mcp-reconnect/state/4242-0123456789abcdef.json",
		"mcp-reconnect/state/.4242-0123456789abcdef.tmp",
	}
	for _, name := range ours {
		write(name, "")
	}
	write("mcp-reconnect/control.json", `{"paused":false}`)
	for _, name := range []string{"mcp-reconnect/plugin.js", "mcp-reconnect/state/notes.txt", "mcp-reconnect-state/notes.txt", "4242-0123456789abcdef.json", "control.json"} {
		write(name, "hello")
	}
	files, dirs, err := state.Files(pluginDir, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(ours, "mcp-reconnect-state/control.json", "mcp-reconnect-state/control.lock") {
		if !slices.Contains(files, filepath.Join(root, name)) {
			t.Errorf("%s is not among %q", name, files)
		}
	}
	if len(files) != len(ours)+3 {
		t.Errorf("%d of %q", len(files), files)
	}
	for n, outer := range dirs {
		for _, inner := range dirs[n+1:] {
			if filepath.Dir(inner) == outer {
				t.Errorf("%s is behind %s, in which it is", inner, outer)
			}
		}
	}
	write("mcp-reconnect-state/control.json", "hello")
	write("mcp-reconnect-state/control.lock", "hello")
	if files, _, _ := state.Files(pluginDir, dir); len(files) != len(ours)+1 {
		t.Errorf("somebody else's files are among %q", files)
	}
	if files, _, err := state.Files(filepath.Join(root, "none"), filepath.Join(root, "control.json")); len(files) > 0 || err != nil {
		t.Errorf("%q, %v", files, err)
	}
}
