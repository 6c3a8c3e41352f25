//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestTerminalUI: a person starts OpenCode in a terminal, where a server fails.
// It comes back before anybody prompts, and the screen shows nothing of it.
func TestTerminalUI(t *testing.T) { terminalUI(t, testenv.OpenCodeVersion()) }

func terminalUI(t *testing.T, version string) {
	t.Helper()
	tmux := testenv.Program(t, "tmux")
	binary := testenv.OpenCode(t, version)
	a := &app{root: t.TempDir()}
	w := a.project(t).stdios("late", "healthy")
	w.mark("late", "down")
	home := a.mkdir(t, "home")
	socket := filepath.Join(a.mkdir(t, "tmux"), "s")

	cmd := exec.Command(tmux, "-S", socket, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40",
		"sh", "-c", `eval $(mcp-reconnect env --shell sh) && exec "$0"`, binary)
	cmd.Dir = w.dir
	cmd.Env = append(opencode.Environ(home, configDir(t, version)),
		"MCP_RECONNECT_DATA_DIR="+home, "MCP_RECONNECT_MAX_DELAY=1s")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ask := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(tmux, append([]string{"-S", socket}, args...)...).Output()
		if err != nil {
			t.Fatalf("tmux %s: %v", args[0], err)
		}
		return string(out)
	}
	screen := func() string { t.Helper(); return ask("capture-pane", "-p") }
	pid, err := strconv.Atoi(strings.TrimSpace(ask("list-panes", "-F", "#{pane_pid}")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", screen())
		}
		syscall.Kill(-pid, syscall.SIGKILL)
		w.eventually("OpenCode ends", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	})

	w.eventually("OpenCode shows its prompt", func() bool { return strings.Contains(screen(), "Ask anything") })
	w.eventually("the plugin tries", func() bool { return w.starts("late") >= 3 })
	w.unmark("late", "down")
	w.eventually("it is connected", func() bool { return len(w.lines("late", "tools")) > 0 })
	if n := w.starts("healthy"); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	if shown := screen(); strings.Contains(shown, "mcp-reconnect") || strings.Contains(shown, "is back") {
		t.Error("the screen shows something of ours")
	}
}
