//go:build unix

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

func TestInspect(t *testing.T) {
	edit := func(name string, change func(text string) string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(change(string(text))), 0o600))
		}
	}
	replace := func(name, old, new string) func(t *testing.T, dir string) {
		return edit(name, func(text string) string { return strings.Replace(text, old, new, 1) })
	}
	chmod := func(name string, mode os.FileMode) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, name), mode)) }
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, name))) }
	}
	link := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			elsewhere := filepath.Join(t.TempDir(), "x")
			must(t, os.Rename(filepath.Join(dir, name), elsewhere))
			must(t, os.Symlink(elsewhere, filepath.Join(dir, name)))
		}
	}
	js, err := Render(DefaultPolicy())
	must(t, err)
	above, _, _ := strings.Cut(string(js), "maxAttempts")
	settings := 1 + strings.Count(above, "\n")
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  []Flaw // paths from the directory on
	}{
		{"as installed", func(*testing.T, string) {}, nil},
		{"no directory", remove("."), []Flaw{{Kind: Missing, Path: "."}}},
		{"a file for a directory", func(t *testing.T, dir string) { remove(".")(t, dir); must(t, os.WriteFile(dir, nil, 0o600)) },
			[]Flaw{{Kind: Foreign, Path: "."}}},
		{"a link for a directory", link("."), []Flaw{{Kind: Symlink, Path: "."}}},
		{"no plugin.js", remove("plugin.js"), []Flaw{{Kind: Missing, Path: "plugin.js"}}},
		{"no server.js, as before OpenCode 2", remove("server.js"), []Flaw{{Kind: Missing, Path: "server.js"}}},
		{"no package.json", remove("package.json"), []Flaw{{Kind: Missing, Path: "package.json"}}},
		{"a link for a file", link("plugin.js"), []Flaw{{Kind: Symlink, Path: "plugin.js"}}},
		{"a directory for a file", func(t *testing.T, dir string) {
			remove("plugin.js")(t, dir)
			must(t, os.Mkdir(filepath.Join(dir, "plugin.js"), 0o700))
		}, []Flaw{{Kind: Foreign, Path: "plugin.js"}}},
		{"somebody else's", edit("plugin.js", func(string) string { return "export default 1\n" }), []Flaw{{Kind: Foreign, Path: "plugin.js"}}},
		{"readable for all", chmod(".", 0o755), []Flaw{{Kind: Mode, Path: ".", Detail: "0755 instead of 0700"}}},
		{"writable for the group", chmod("plugin.js", 0o620), []Flaw{{Kind: Mode, Path: "plugin.js", Detail: "0620 instead of 0600", Grave: true}}},
		{"a server.js for all to read", chmod("server.js", 0o644), []Flaw{{Kind: Mode, Path: "server.js", Detail: "0644 instead of 0600"}}},
		{"an edited server.js", replace("server.js", "\n", "\nevil()\n"), []Flaw{{Kind: Differs, Path: "server.js", Line: 2, Detail: "it was edited"}}},
		{"another version", replace("plugin.js", "mcp-reconnect "+Version, "mcp-reconnect 0.0.9"),
			[]Flaw{{Kind: Differs, Path: "plugin.js", Line: 1, Detail: "it is of version 0.0.9, and this is " + Version}}},
		{"a version that cannot be shown", replace("plugin.js", "mcp-reconnect "+Version, "mcp-reconnect \x1b"),
			[]Flaw{{Kind: Differs, Path: "plugin.js", Line: 1, Detail: "it is of version unknown, and this is " + Version}}},
		{"another version's package.json", replace("package.json", Version, "0.0.9"),
			[]Flaw{{Kind: Differs, Path: "package.json", Line: 1, Detail: "it is of version 0.0.9, and this is " + Version}}},
		{"an edited package.json", replace("package.json", "module", "commonjs"),
			[]Flaw{{Kind: Differs, Path: "package.json", Line: 1, Detail: "it was edited"}}},
		{"another policy", replace("plugin.js", `"maxAttempts": 10`, `"maxAttempts": 3`),
			[]Flaw{{Kind: Differs, Path: "plugin.js", Line: settings, Detail: "it was rendered for another policy, or its settings were edited: max-attempts"}}},
		{"settings that are none", replace("plugin.js", `"maxAttempts": 10`, `secret()`),
			[]Flaw{{Kind: Differs, Path: "plugin.js", Line: settings, Detail: "its settings were edited"}}},
		{"an edit", replace("plugin.js", "\n", "\nevil()\n"), []Flaw{{Kind: Differs, Path: "plugin.js", Line: 2, Detail: "it was edited"}}},
		{"cut off", edit("plugin.js", func(text string) string { return text[:strings.Index(text, "\n")] }),
			[]Flaw{{Kind: Differs, Path: "plugin.js", Line: 1, Detail: "it was edited"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := t.TempDir()
			dir := install(t, data).Dir
			tt.spoil(t, dir)
			before := listing(t, data)
			got, err := Inspect(data, DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			for n := range got {
				got[n].Path, err = filepath.Rel(dir, got[n].Path)
				must(t, err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if listing(t, data) != before {
				t.Error("something changed on disk")
			}
		})
	}
}

func TestInspectFindsAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root can give a file away")
	}
	data := t.TempDir()
	dir := install(t, data).Dir
	must(t, os.Chown(dir, 4242, -1))
	got, err := Inspect(data, DefaultPolicy())
	if diff := cmp.Diff([]Flaw{{Kind: Owner, Path: dir, Grave: true}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestRenderedSettingsAreFound ties CutSettings to what is rendered.
func TestRenderedSettingsAreFound(t *testing.T) {
	older := DefaultPolicy()
	older.Only, older.Skip, older.Log = []string{"const SETTINGS = *"}, []string{"x"}, "none"
	was, err := Render(older)
	must(t, err)
	is, err := Render(DefaultPolicy())
	must(t, err)
	if got := cause(was, is); !strings.HasSuffix(got, ": log, only, skip") {
		t.Error(got)
	}
}

func TestRecognize(t *testing.T) {
	data := t.TempDir()
	l := install(t, data).Location
	for _, entry := range []string{l.Entry, l.FileURL, l.Dir, l.Dir + "/plugin.js", strings.ToUpper(l.Entry[:4]) + l.Entry[4:]} {
		if path, ok := Recognize(entry); !ok || path != filepath.Join(l.Dir, "plugin.js") {
			t.Errorf("%s: %q, %t", entry, path, ok)
		}
	}
	other := filepath.Join(data, "other")
	must(t, os.Mkdir(other, 0o700))
	must(t, os.WriteFile(filepath.Join(other, "plugin.js"), []byte("export default 1"), 0o600))
	for _, entry := range []string{"mcp-reconnect", "", other, data, l.Dir + "/package.json", "file:///nowhere/mcp-reconnect", "https://" + l.Dir} {
		if path, ok := Recognize(entry); ok {
			t.Errorf("%s: %q", entry, path)
		}
	}
}
