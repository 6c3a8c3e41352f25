package configfile_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
)

// TestChoose: our entry goes where OpenCode reads it, and hides nobody else's.
func TestChoose(t *testing.T) {
	const list, other, list2, broken = `{"plugin":["x"]}`, `{"model":"x"}`, `{"plugins":["x"]}`, `{`
	for name, tt := range map[string]struct {
		files   map[string]string
		want    string
		decided bool
	}{
		"none":                     {nil, "opencode.json", false},
		"one":                      {map[string]string{"config.json": other}, "config.json", false},
		"the one that counts most": {map[string]string{"config.json": other, "opencode.json": other}, "opencode.json", false},
		"all":                      {map[string]string{"config.json": other, "opencode.json": other, "opencode.jsonc": other}, "opencode.jsonc", false},
		"the one with a list":      {map[string]string{"config.json": list, "opencode.jsonc": other}, "config.json", true},
		"the last list":            {map[string]string{"config.json": list, "opencode.json": list, "opencode.jsonc": other}, "opencode.json", true},
		"an empty list":            {map[string]string{"opencode.json": list, "opencode.jsonc": `{"plugin":[]}`}, "opencode.jsonc", true},
		"a list of OpenCode 2":     {map[string]string{"opencode.json": list2, "opencode.jsonc": other}, "opencode.json", false},
		"a list of each":           {map[string]string{"opencode.json": list, "opencode.jsonc": list2}, "opencode.json", true},
		"an empty file":            {map[string]string{"opencode.jsonc": ""}, "opencode.jsonc", false},
		"one that cannot be read":  {map[string]string{"opencode.json": list, "opencode.jsonc": broken}, "opencode.json", true},
	} {
		home := t.TempDir()
		for name, text := range tt.files {
			write(t, filepath.Join(home, ".config/opencode", name), text, 0o600)
		}
		files := configfile.List(configfile.Surrounding{Home: home}.GlobalSources(), configmerge.Entry{URL: "file:///x"})
		chosen, decided := configfile.Choose(files)
		if filepath.Base(chosen.Path) != tt.want || decided != tt.decided {
			t.Errorf("%s: %s, %t", name, chosen.Path, decided)
		}
	}
}

func TestSources(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "home/project/.git/x"), "", 0o600)
	s := configfile.Surrounding{
		Environ: []string{"OPENCODE_CONFIG=own.json", "OPENCODE_CONFIG_DIR=" + filepath.Join(root, "dir"), "XDG_CONFIG_HOME="},
		Dir:     filepath.Join(root, "home/project/below"), Home: filepath.Join(root, "home"),
	}
	scopes := map[configfile.Scope]string{configfile.Global: "global", configfile.Own: "own", configfile.Project: "project"}
	var got []string
	for _, source := range s.Sources() {
		rest, err := filepath.Rel(root, source.Path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, scopes[source.Scope]+" "+filepath.ToSlash(rest))
	}
	want := []string{
		"global home/.config/opencode/config.json", "global home/.config/opencode/opencode.json", "global home/.config/opencode/opencode.jsonc",
		"own home/project/below/own.json",
		"project home/project/below/opencode.json", "project home/project/below/opencode.jsonc", "project home/project/opencode.json", "project home/project/opencode.jsonc",
		"project home/project/below/.opencode/opencode.json", "project home/project/below/.opencode/opencode.jsonc",
		"project home/project/.opencode/opencode.json", "project home/project/.opencode/opencode.jsonc",
		"own home/.opencode/opencode.json", "own home/.opencode/opencode.jsonc", "own dir/opencode.json", "own dir/opencode.jsonc",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := len(s.PersonalSources()); n != 8 {
		t.Errorf("%d are the person's own", n)
	}
	s.Dir = s.Home // whose .opencode is the person's, and the project's
	for _, source := range s.Sources() {
		if source.Path == filepath.Join(s.Home, ".opencode/opencode.json") && source.Scope != configfile.Own {
			t.Error("the home's own directory is a project's")
		}
	}
}

func TestShort(t *testing.T) {
	sep := string(filepath.Separator)
	s := configfile.Surrounding{Home: sep + filepath.Join("home", "ann")}
	for path, want := range map[string]string{
		sep + filepath.Join("home", "ann", "x"): "~" + sep + "x",
		sep + filepath.Join("home", "anna"):     sep + filepath.Join("home", "anna"),
		s.Home:                                  s.Home,
		"$OPENCODE_CONFIG":                      "$OPENCODE_CONFIG",
	} {
		if got := s.Short(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := (configfile.Surrounding{Home: sep}).Short(sep + "x"); got != sep+"x" {
		t.Error(got)
	}
}
