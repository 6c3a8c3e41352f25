//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestRecipes runs the launchers that the README shows, with an opencode that
// prints its environment and arguments, and checks that the README shows them.
func TestRecipes(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	stub := "#!/bin/sh\necho \"$OPENCODE_CONFIG_CONTENT $*\"\nexit $STATUS\n"
	if err := os.WriteFile(filepath.Join(bin, "opencode"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file    string
		command []string
	}{
		{"launch.sh", []string{"sh"}},
		{"launch.mjs", []string{testenv.Program(t, "node")}},
		{"launch/main.go", []string{"go", "run"}},
	} {
		path := filepath.Join("testdata/recipes", tt.file)
		recipe, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), string(recipe)) {
			t.Errorf("the README does not show %s as it is", path)
		}
		data := t.TempDir()
		cmd := exec.Command(tt.command[0], append(tt.command[1:], path)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
			"XDG_DATA_HOME="+data, "MCP_RECONNECT_DATA_DIR=", `OPENCODE_CONFIG_CONTENT={"model":"m"}`, "STATUS=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 { // the stub's; go run knows no other
			t.Errorf("%s: %v: %s", tt.file, err, out)
			continue
		}
		text := string(out)
		if !strings.Contains(text, `"m"`) || !strings.Contains(text, data+`/mcp-reconnect"`) || !strings.Contains(text, "serve --port 4242") {
			t.Errorf("%s: opencode got %s", tt.file, text)
		}
		if _, err := os.Stat(filepath.Join(data, "mcp-reconnect", "plugin.js")); err != nil {
			t.Error(err)
		}
	}
}
