//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// patience is how long a test waits for what must come: no measure of speed.
const patience = time.Minute

// A world is a real OpenCode with real MCP servers, which the plugin was put
// into by evaluating what `mcp-reconnect env` printed.
type world struct {
	t      *testing.T
	ctx    context.Context
	server *opencode.Server
	model  *opencode.Model
	dir    string // a project
	mcpDir string // see testdata/servers/mcp.mjs
}

// start starts OpenCode with the named MCP servers, of which those in down
// cannot start. The flags are those of mcp-reconnect, as variables.
func start(t *testing.T, servers, down []string, flags ...string) *world {
	t.Helper()
	binary := testenv.OpenCode(t, testenv.OpenCodeVersion())
	node := testenv.Program(t, "node")
	script, err := filepath.Abs("testdata/servers/mcp.mjs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	w := &world{t: t, ctx: ctx, model: opencode.NewModel(), dir: t.TempDir(), mcpDir: t.TempDir()}
	t.Cleanup(w.model.Close)
	t.Cleanup(cancel)

	mcp := map[string]any{}
	for _, name := range servers {
		mcp[name] = map[string]any{
			"type":        "local",
			"command":     []string{node, script, name},
			"environment": map[string]string{"MCP_TEST_DIR": w.mcpDir},
		}
	}
	for _, name := range down {
		w.mark(name, "down")
	}
	config, err := json.Marshal(map[string]any{"provider": w.model.Provider(), "mcp": mcp})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	environ := append([]string{
		"OPENCODE_CONFIG_CONTENT=" + string(config),
		"MCP_RECONNECT_DATA_DIR=" + filepath.Join(home, "da ta#%41ü"), // every character that a URL may trip over
	}, flags...)
	w.server, err = opencode.Start(ctx, opencode.Options{
		Command:   []string{"sh", "-c", `eval $(mcp-reconnect env --shell sh) && exec "$0" "$@"`, binary},
		Home:      home,
		ConfigDir: configDir(t),
		Dir:       w.dir,
		Environ:   environ,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.server.Stop()
		if t.Failed() {
			t.Logf("what OpenCode printed:\n%s", w.server.Log())
		}
	})
	return w
}

// configDir is where OpenCode installs a package of its own from npm at its
// first start; kept in the user's cache, that happens once.
func configDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "mcp-reconnect-test", "config@"+testenv.OpenCodeVersion())
}

func (w *world) file(name, ending string) string { return filepath.Join(w.mcpDir, name+"."+ending) }

func (w *world) mark(name, ending string) {
	w.t.Helper()
	if err := os.WriteFile(w.file(name, ending), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) unmark(name, ending string) {
	w.t.Helper()
	if err := os.Remove(w.file(name, ending)); err != nil {
		w.t.Fatal(err)
	}
}

// starts returns the process ids of a server's starts in a directory.
func (w *world) starts(name, dir string) []int {
	w.t.Helper()
	text, err := os.ReadFile(w.file(name, "log"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(text)) {
		pid, where, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if where == dir {
			n, err := strconv.Atoi(pid)
			if err != nil {
				w.t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

func (w *world) kill(name string) {
	w.t.Helper()
	pids := w.starts(name, w.dir)
	if len(pids) == 0 {
		w.t.Fatalf("%s was never started", name)
	}
	if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) prompt(text string) {
	w.t.Helper()
	if err := w.server.Prompt(w.ctx, w.dir, text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) state(name string) string {
	w.t.Helper()
	status, err := w.server.MCP(w.ctx, w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return status[name].Status
}

// eventually waits until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func TestKilledServerIsConnectedAgain(t *testing.T) {
	w := start(t, []string{"a", "b"}, nil)
	unused := make([]string, 12)
	for n := range unused { // rule 2: these are opened, and not used
		unused[n] = filepath.Join(t.TempDir(), fmt.Sprint("project-", n))
		if err := os.Mkdir(unused[n], 0o700); err != nil {
			t.Fatal(err)
		}
		if err := w.server.Call(w.ctx, "POST", "/session", unused[n], struct{}{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.prompt("hello")
	for round := range 3 {
		if a, b := w.state("a"), w.state("b"); a != "connected" || b != "connected" {
			t.Fatalf("round %d: a is %s, b is %s", round, a, b)
		}
		w.kill("a")
		w.eventually("a is connected by a new process", func() bool {
			return len(w.starts("a", w.dir)) == round+2 && w.state("a") == "connected"
		})
	}
	if n := len(w.starts("b", w.dir)); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	for _, dir := range unused {
		if n := len(w.starts("a", dir)) + len(w.starts("b", dir)); n != 0 {
			t.Errorf("%d processes were started in an unused directory", n)
		}
	}

	// What came back can be used: the model is offered its tool, and calls it.
	w.prompt("call a_echo")
	if !slices.Contains(w.model.Tools(), "a_echo") {
		t.Errorf("the model is offered %q", w.model.Tools())
	}
	if said := strings.Join(w.model.Said(), "\n"); !strings.Contains(said, "a says hello") {
		t.Errorf("the tool returned %q", said)
	}
	if !strings.Contains(w.server.Log(), "a is back (") {
		t.Error("rule 17: OpenCode's log does not say that a is back")
	}
}

// TestServerThatComesUpLate is the case that no event announces: the only server
// fails at start, and later could start.
func TestServerThatComesUpLate(t *testing.T) {
	w := start(t, []string{"late"}, []string{"late"}, "MCP_RECONNECT_MAX_DELAY=1s")
	w.prompt("hello")
	w.eventually("the plugin tries", func() bool { return len(w.starts("late", w.dir)) >= 3 })
	if state := w.state("late"); state != "failed" {
		t.Fatalf("it is %s while it cannot start", state)
	}
	w.unmark("late", "down")
	w.eventually("it is connected", func() bool { return w.state("late") == "connected" })
	w.prompt("call late_echo")
	if said := strings.Join(w.model.Said(), "\n"); !strings.Contains(said, "late says hello") {
		t.Errorf("the tool returned %q", said)
	}
}

// TestWithoutThePlugin shows that these tests can fail: OpenCode alone leaves the
// server failed, for as long as the plugin would need several times over.
func TestWithoutThePlugin(t *testing.T) {
	w := start(t, []string{"a"}, nil, "MCP_RECONNECT_UNSET=true")
	w.prompt("hello")
	w.kill("a")
	w.eventually("the death is noticed", func() bool { return w.state("a") == "failed" })
	for range 2 {
		w.prompt("hello again")
	}
	if n := len(w.starts("a", w.dir)); n != 1 || w.state("a") != "failed" {
		t.Errorf("started %d times, and is %s", n, w.state("a"))
	}
}
