//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestInterruptedQuestion: an interrupt while run asks OpenCode for its version ends both.
// On a slow machine it may come when the question is over, and shows nothing.
func TestInterruptedQuestion(t *testing.T) {
	dir := t.TempDir()
	program, asked := filepath.Join(dir, "opencode"), filepath.Join(dir, "asked")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ -e "+asked+" ] || trap '' INT\necho $$ >"+asked+"\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	term := openTerminal(t, dir, append(os.Environ(), "MCP_RECONNECT_DATA_DIR="+dir, "OPENCODE_CONFIG_CONTENT="), "mcp-reconnect", "run", "--", program)
	pid := 0
	eventually(t, "it asks", func() bool {
		text, _ := os.ReadFile(asked)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	term.ask("send-keys", "C-c")
	eventually(t, "both end", func() bool { return term.ended() && syscall.Kill(pid, 0) == syscall.ESRCH })
}

// TestTerminalUI: a person starts OpenCode in a terminal, where a server fails.
// It comes back before anybody prompts, and the screen shows nothing of it.
func TestTerminalUI(t *testing.T) { terminalUI(t, testenv.OpenCodeVersion()) }

// A terminal is a screen in which a program runs.
type terminal struct {
	t      *testing.T
	tmux   string
	socket string
	pid    int
}

// openTerminal starts a program in a screen of its own, which ends with the test.
func openTerminal(t *testing.T, dir string, environ []string, argv ...string) *terminal {
	t.Helper()
	term := &terminal{t: t, tmux: testenv.Program(t, "tmux"), socket: filepath.Join(t.TempDir(), "s")}
	cmd := exec.Command(term.tmux, append([]string{"-S", term.socket, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"}, argv...)...)
	cmd.Dir, cmd.Env = dir, environ
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var err error
	if term.pid, err = strconv.Atoi(strings.TrimSpace(term.ask("list-panes", "-F", "#{pane_pid}"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && !term.ended() {
			t.Logf("the screen:\n%s", term.screen())
		}
		syscall.Kill(-term.pid, syscall.SIGKILL)
		eventually(t, "the program ends", term.ended)
	})
	return term
}

func (term *terminal) ask(args ...string) string {
	term.t.Helper()
	out, err := exec.Command(term.tmux, append([]string{"-S", term.socket}, args...)...).Output()
	if err != nil {
		term.t.Fatalf("tmux %s: %v", args[0], err)
	}
	return string(out)
}

func (term *terminal) screen() string { term.t.Helper(); return term.ask("capture-pane", "-p") }

func (term *terminal) ended() bool { return syscall.Kill(term.pid, 0) == syscall.ESRCH }

// TestStatusWatchesAtATerminal: the screen shows what is, and nothing of what was.
func TestStatusWatchesAtATerminal(t *testing.T) {
	data := t.TempDir()
	term := openTerminal(t, data, append(os.Environ(), "MCP_RECONNECT_DATA_DIR="+data), "mcp-reconnect", "status", "--watch")
	shows := func(text string) {
		t.Helper()
		eventually(t, "the screen shows "+text, func() bool { return strings.Contains(term.screen(), text) })
	}
	shows("no running OpenCode")
	state := func(phase string) {
		t.Helper()
		if err := saveState(data, `{"directory": "/one", "servers": [{"name": "github", "status": "failed", "phase": "`+phase+`"}]}`); err != nil {
			t.Fatal(err)
		}
	}
	state("waiting")
	shows("github  waiting")
	state("parked")
	shows("github  parked")
	if screen := term.screen(); strings.Contains(screen, "waiting") || strings.Contains(screen, "no running") || strings.Count(screen, "DIRECTORY") != 1 {
		t.Errorf("the screen:\n%s", screen)
	}
	term.ask("send-keys", "C-c")
	eventually(t, "it ends", term.ended)
}

func terminalUI(t *testing.T, version string) {
	t.Helper()
	binary := testenv.OpenCode(t, version)
	a := &app{root: t.TempDir()}
	w := a.project(t).stdios("late", "healthy")
	w.mark("late", "down")
	home := a.mkdir(t, "home")
	environ := append(opencode.Environ(home, configDir(t, version)),
		"MCP_RECONNECT_DATA_DIR="+home, "MCP_RECONNECT_MAX_DELAY=1s")
	term := openTerminal(t, w.dir, environ, "sh", "-c", `eval $(mcp-reconnect env --shell sh) && exec "$0"`, binary)

	w.eventually("OpenCode shows its prompt", func() bool { return strings.Contains(term.screen(), "Ask anything") })
	w.eventually("the plugin tries", func() bool { return w.starts("late") >= 3 })
	w.unmark("late", "down")
	w.eventually("it is connected", func() bool { return len(w.lines("late", "tools")) > 0 })
	if n := w.starts("healthy"); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	if shown := term.screen(); strings.Contains(shown, "mcp-reconnect") || strings.Contains(shown, "is back") {
		t.Error("the screen shows something of ours")
	}
}
