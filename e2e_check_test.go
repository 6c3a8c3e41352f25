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

// TestCheckLive has check start the real OpenCode, with a configuration that it
// takes and with one that it refuses.
func TestCheckLive(t *testing.T) {
	binary := testenv.OpenCode(t, testenv.OpenCodeVersion())
	home := t.TempDir()
	data := filepath.Join(home, "da ta#%41ü")
	t.Setenv("TMPDIR", t.TempDir())
	const inVariable, inFile = `eval $(mcp-reconnect env --shell sh)`, `mcp-reconnect install`
	for name, tt := range map[string]struct {
		how     string
		content string
		status  int
		want    string
	}{
		"a file that names it": {inFile, "", 0, "named in ~/.config/opencode/opencode.json, "},
		"one that it takes":    {inVariable, `{"mcp":{"never":{"type":"local","command":["touch","` + home + `/started"]}}}`, 0, "ok (0 errors, 0 warnings): "},
		"one that it refuses":  {inVariable, `{"provider":"sk-5ecret"}`, 1, "[live-refused]"},
	} {
		cmd := exec.Command("sh", "-c", tt.how+` && exec mcp-reconnect check --live --opencode "$0"`, binary)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=", "MCP_RECONNECT_DATA_DIR="+data, "OPENCODE_CONFIG_CONTENT="+tt.content)
		out, _ := cmd.CombinedOutput()
		os.RemoveAll(filepath.Join(home, ".config"))
		if text := string(out); cmd.ProcessState.ExitCode() != tt.status || !strings.Contains(text, tt.want) || strings.Contains(text, "5ecret") {
			t.Errorf("%s: %v\n%s", name, cmd.ProcessState, text)
		}
	}
	for _, pattern := range []string{filepath.Join(data, "mcp-reconnect-state/instances/*"), filepath.Join(os.TempDir(), "mcp-reconnect-*"), filepath.Join(home, "started")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}
