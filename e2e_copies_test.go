//go:build unix

package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// loadedThreeTimes: somebody's own configuration lists the plugin as well, once
// in another spelling and once as a copy of the file (rule 6).
func loadedThreeTimes(t *testing.T, a *app) {
	w := a.project(t)
	spelled := a.pluginURL(t)
	copied, calls := copyPlugin(t, w, spelled)
	w.write(map[string]any{
		"mcp":    mcp{"shared": w.stdio("shared")},
		"plugin": []string{spelled, copied},
	})
	w.prompt("hello")
	var config struct{ Plugin []any }
	if err := w.server.Call(w.ctx, "GET", "/config", w.dir, nil, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugin) != 3 {
		t.Fatalf("OpenCode's list has %q", config.Plugin)
	}
	if _, err := os.Stat(calls); err != nil {
		t.Fatalf("OpenCode did not call the copy: %v", err)
	}
	w.recovers("shared")
	w.eventually("the log says so", func() bool { return w.logged("shared is back (") > 0 })
	w.recovers("shared")
	w.eventually("the log says so", func() bool { return w.logged("shared is back (") > 1 })
	if n := w.logged("shared is back ("); n != 2 {
		t.Errorf("the log says so %d times", n)
	}
	if n := w.logged("is active in", w.dir); n != 1 {
		t.Errorf("%d copies act", n)
	}
}

// pluginURL is the URL of the plugin's file, where a launch put the one of its directory.
func (a *app) pluginURL(t *testing.T) string {
	t.Helper()
	var config struct{ Plugin []string }
	if err := json.Unmarshal([]byte(merged(t, a.environ, "--entry", "file")), &config); err != nil {
		t.Fatal(err)
	}
	return config.Plugin[0]
}

// copyPlugin copies the plugin's file and returns the copy's URL, and a file
// that exists once the copy was called.
func copyPlugin(t *testing.T, w *world, from string) (copied, calls string) {
	t.Helper()
	parsed, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(parsed.Path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(text), "export default async function mcpReconnect(input) {\n")
	if !ok {
		t.Fatal("the plugin's function is not where this test looks for it")
	}
	calls = w.file("copy", "called")
	path := filepath.Join(w.mcpDir, "copy.js")
	function := "import { writeFileSync } from \"node:fs\"\nexport default async function mcpReconnect(input) {\n" +
		"  writeFileSync(" + strconv.Quote(calls) + ", \"\")\n"
	if err := os.WriteFile(path, []byte(before+function+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path, calls
}
