//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// patience is how long a test waits for what must come: no measure of speed.
const patience = 3 * time.Minute

// A setup says what OpenCode a test needs.
type setup struct {
	version  string   // empty: the one that the tests use
	policy   []string // variables of mcp-reconnect, such as MCP_RECONNECT_MAX_DELAY=1s
	password string   // OPENCODE_SERVER_PASSWORD
	installs bool     // by `mcp-reconnect install`: OpenCode is started without the variable
}

// An app is a real OpenCode, which the plugin was put into by evaluating what
// `mcp-reconnect env` printed. Scenarios that happen in directories of their own
// share one.
type app struct {
	ctx context.Context

	server  *opencode.Server
	options opencode.Options // of the server
	model   *opencode.Model
	prompts atomic.Int64 // that scenarios sent
	root    string       // holds every directory of its worlds
	dataDir string       // mcp-reconnect's
	environ []string     // what mcp-reconnect was run with

	installed string // pluginFiles, as env left them
}

// pluginFiles tells of all that is in the plugin's directory, and when it changed last.
// OpenCode 2 activates every plugin anew when it does.
func (a *app) pluginFiles(t testing.TB) string {
	t.Helper()
	var files strings.Builder
	err := filepath.WalkDir(filepath.Join(a.dataDir, "mcp-reconnect"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintln(&files, path, info.Mode(), info.ModTime())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without a plugin there stays none
		t.Error(err)
	}
	return files.String()
}

// launch starts an OpenCode, which ends with the test.
func launch(t testing.TB, s setup) *app {
	t.Helper()
	if s.version == "" {
		s.version = testenv.OpenCodeVersion()
	}
	binary := testenv.OpenCode(t, s.version)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	a := &app{ctx: ctx, model: opencode.NewModel(), root: t.TempDir()}
	t.Cleanup(a.model.Close)
	t.Cleanup(cancel)

	home, start := a.mkdir(t, "home"), a.mkdir(t, "start")
	a.dataDir = filepath.Join(home, "da ta#%41ü") // every character that a URL may trip over
	a.environ = append([]string{
		"OPENCODE_CONFIG_CONTENT=" + a.content(t),
		"MCP_RECONNECT_DATA_DIR=" + a.dataDir,
	}, s.policy...)
	a.options = opencode.Options{
		// The umask is the worst for files that are nobody else's.
		Command:   []string{"sh", "-c", `umask 000; eval $(mcp-reconnect env --shell sh) && exec "$0" "$@"`, binary},
		Home:      home,
		ConfigDir: configDir(t, s.version),
		Dir:       start,
		Environ:   a.environ,
		Password:  s.password,
	}
	if s.installs {
		a.installs(t, s.version)
	}
	var err error
	if a.server, err = opencode.Start(ctx, a.options); err != nil {
		t.Fatal(err)
	}
	a.installed = a.pluginFiles(t)
	t.Cleanup(func() {
		if now := a.pluginFiles(t); now != a.installed {
			t.Errorf("while OpenCode ran, the plugin's directory changed from\n%s\nto\n%s", a.installed, now)
		}
	})
	t.Cleanup(func() {
		early := false
		select {
		case <-a.server.Ended():
			early = true
		default:
		}
		a.stop()
		if t.Failed() {
			t.Logf("what OpenCode printed (it ended before the test did: %t):\n%s", early, a.server.Log())
		}
	})
	return a
}

// stop ends OpenCode and everything it started.
func (a *app) stop() {
	a.server.Stop()
	<-a.server.Ended()
}

// content is what a user of the model has in OPENCODE_CONFIG_CONTENT.
func (a *app) content(t testing.TB) string {
	t.Helper()
	config, err := json.Marshal(map[string]any{"provider": a.model.Provider()})
	if err != nil {
		t.Fatal(err)
	}
	return string(config)
}

// merged is what mcp-reconnect makes of OPENCODE_CONFIG_CONTENT.
func merged(t testing.TB, environ []string, flags ...string) string {
	t.Helper()
	cmd := exec.Command("mcp-reconnect", append([]string{"env", "--format", "json"}, flags...)...)
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var variables map[string]string
	if err := json.Unmarshal(out, &variables); err != nil {
		t.Fatal(err)
	}
	return variables["OPENCODE_CONFIG_CONTENT"]
}

// configDir is where OpenCode installs a package of its own from npm at its
// first start; kept in the user's cache, that happens once for each version.
func configDir(t testing.TB, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "mcp-reconnect-test", "config@"+version)
}

// mkdir creates a directory in root. It outlives a subtest: OpenCode goes on in it.
func (a *app) mkdir(t testing.TB, pattern string) string {
	t.Helper()
	dir, err := os.MkdirTemp(a.root, pattern+"-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// logged counts the lines of OpenCode's log that contain all the texts.
func (a *app) logged(texts ...string) int {
	n := 0
	for line := range strings.Lines(a.server.Log()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

// A world is a project directory in an app, with MCP servers of its own.
type world struct {
	*app
	t      testing.TB
	dir    string
	mcpDir string // where the servers are steered and tell of themselves: see testdata/servers
}

// mcp is the "mcp" part of a configuration.
type mcp map[string]map[string]any

// project creates a world without servers.
func (a *app) project(t testing.TB) *world {
	t.Helper()
	return &world{app: a, t: t, dir: a.mkdir(t, "project"), mcpDir: a.mkdir(t, "mcp")}
}

// configure writes the project's configuration, before OpenCode is asked for anything in it.
func (w *world) configure(servers mcp) *world {
	w.t.Helper()
	w.write(map[string]any{"mcp": servers})
	return w
}

func (w *world) write(config map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "opencode.json"), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// stdio is the configuration of testdata/servers/mcp.mjs.
func (w *world) stdio(name string) map[string]any {
	w.t.Helper()
	return map[string]any{
		"type":        "local",
		"command":     []string{testenv.Program(w.t, "node"), script(w.t, "mcp.mjs"), name},
		"environment": map[string]string{"MCP_TEST_DIR": w.mcpDir},
	}
}

// stdios configures such servers.
func (w *world) stdios(names ...string) *world {
	w.t.Helper()
	servers := mcp{}
	for _, name := range names {
		servers[name] = w.stdio(name)
	}
	return w.configure(servers)
}

// with adds an option to a server's configuration.
func with(server map[string]any, option string, value any) map[string]any {
	server[option] = value
	return server
}

func script(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata/servers", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A remote is an MCP server that is reached over HTTP: testdata/servers/mcp-http.mjs,
// or the reference server.
type remote struct {
	*testbed.Listener
	w    *world
	name string
	path string // of its URL
}

// listener reserves an address. Nothing listens there before serve.
func (w *world) listener(name, path string) *remote {
	w.t.Helper()
	l, err := testbed.NewListener()
	if err != nil {
		w.t.Fatal(err)
	}
	l.Command = []string{testenv.Program(w.t, "node"), script(w.t, "mcp-http.mjs"), name, l.Port}
	l.Environ = []string{"MCP_TEST_DIR=" + w.mcpDir}
	return &remote{Listener: l, w: w, name: name, path: path}
}

// remote speaks streamable HTTP.
func (w *world) remote(name string) *remote {
	w.t.Helper()
	return w.listener(name, "/mcp")
}

// oldRemote speaks HTTP+SSE, which came before streamable HTTP.
func (w *world) oldRemote(name string) *remote {
	w.t.Helper()
	r := w.listener(name, "/sse")
	r.Command = append(r.Command, "sse")
	return r
}

// reference is the MCP project's own server: "streamableHttp" at /mcp, "sse" at /sse.
func (w *world) reference(name, transport, path string) *remote {
	w.t.Helper()
	r := w.listener(name, path)
	r.Command = []string{r.Command[0], testenv.ReferenceServer(w.t), transport}
	r.Output = nil // where it tells of every request
	return r
}

// http is the configuration of a remote.
func (r *remote) http() map[string]any {
	return map[string]any{"type": "remote", "url": r.URL(r.path)}
}

// serve starts the server and waits until it listens.
func (r *remote) serve() {
	r.w.t.Helper()
	r.w.t.Cleanup(r.Kill)
	ctx, cancel := context.WithTimeout(r.w.ctx, patience)
	defer cancel()
	if err := r.Serve(ctx); err != nil {
		r.w.t.Fatal(err)
	}
}

// restart leaves no client of the server its session.
func (r *remote) restart() {
	r.w.t.Helper()
	r.Kill()
	r.serve()
}

// requests counts the requests that the server got, of a JSON-RPC method if one is given.
func (r *remote) requests(method string) int {
	r.w.t.Helper()
	n := 0
	for _, line := range r.w.lines(r.name, "log") {
		if strings.HasSuffix(line, method) {
			n++
		}
	}
	return n
}

func (w *world) file(name, ending string) string { return filepath.Join(w.mcpDir, name+"."+ending) }

func (w *world) mark(name, ending string) {
	w.t.Helper()
	w.steer(name, ending, "")
}

// steer writes a file that steers a server: see testdata/servers.
func (w *world) steer(name, ending, content string) {
	w.t.Helper()
	// Renamed into its place: the server must not read a half of it.
	tmp := w.file(name, ending+".new")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(tmp, w.file(name, ending)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) unmark(name, ending string) {
	w.t.Helper()
	if err := os.Remove(w.file(name, ending)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) lines(name, ending string) []string {
	w.t.Helper()
	text, err := os.ReadFile(w.file(name, ending))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:strings.Count(string(text), "\n")]
}

// pids returns the process id of each start of a server.
func (w *world) pids(name string) []int {
	w.t.Helper()
	var pids []int
	for _, line := range w.lines(name, "log") {
		pid, _, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			w.t.Fatal(err)
		}
		pids = append(pids, n)
	}
	return pids
}

func (w *world) starts(name string) int {
	w.t.Helper()
	return len(w.pids(name))
}

func (w *world) kill(name string) {
	w.t.Helper()
	pids := w.pids(name)
	if len(pids) == 0 {
		w.t.Fatalf("%s was never started", name)
	}
	if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
}

// An answer is what became of a prompt.
type answer struct {
	offered []string // the tools in the first request that the prompt made of the model
	calls   []opencode.Call
}

// said is what the model's calls of tools returned, and why they failed.
func (a answer) said() string {
	var said []string
	for _, call := range a.calls {
		said = append(said, call.State.Output+call.State.Error)
	}
	return strings.Join(said, "\n")
}

func (w *world) prompt(text string) answer {
	w.t.Helper()
	// Scenarios share a model: the mark tells their prompts apart.
	mark := fmt.Sprintf("#%d: ", w.prompts.Add(1))
	calls, err := w.server.Prompt(w.ctx, w.dir, mark+text)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, request := range w.model.Requests() {
		if strings.Contains(request.Prompt, mark) {
			return answer{offered: request.Tools, calls: calls}
		}
	}
	w.t.Fatalf("the prompt %q did not reach the model", text)
	return answer{}
}

// post makes a request as a client of OpenCode does, such as a UI at a click.
func (w *world) post(path string) {
	w.t.Helper()
	if err := w.server.Call(w.ctx, "POST", path, w.dir, struct{}{}, nil); err != nil {
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

// wants fails the test if a server is not in a state now.
func (w *world) wants(name, state string) {
	w.t.Helper()
	if got := w.state(name); got != state {
		w.t.Fatalf("%s is %s, want %s", name, got, state)
	}
}

// ended says whether the last start of a server is over.
func (w *world) ended(name string) bool {
	w.t.Helper()
	pids := w.pids(name)
	return syscall.Kill(pids[len(pids)-1], 0) == syscall.ESRCH
}

// eventually waits until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	eventually(w.t, what, holds)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func (w *world) connects(name string) {
	w.t.Helper()
	w.eventually(name+" is connected", func() bool { return w.state(name) == "connected" })
}

// recovers kills a connected server and waits until a new process of it is
// connected. Of another server it shows that the plugin had its chance to act.
func (w *world) recovers(name string) {
	w.t.Helper()
	before := w.starts(name)
	w.kill(name)
	w.eventually(name+" is connected by a new process", func() bool {
		return w.starts(name) == before+1 && w.state(name) == "connected"
	})
}
