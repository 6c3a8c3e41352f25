//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// withoutPlugin is an OpenCode that nobody prepared.
var withoutPlugin = setup{policy: []string{"MCP_RECONNECT_UNSET=true"}}

// A watching is a running `mcp-reconnect watch --format json`.
type watching struct {
	t      testing.TB
	cmd    *exec.Cmd
	ended  chan struct{} // closed when its standard output is
	mu     sync.Mutex
	events []watch.Event
	lines  strings.Builder // of standard output
	stderr strings.Builder
}

func (w *watching) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.Write(p)
}

// watches starts one, which ends with the test. It has the flags, and variables of its own.
func (a *app) watches(t testing.TB, environ []string, flags ...string) *watching {
	t.Helper()
	w := &watching{t: t, ended: make(chan struct{})}
	w.cmd = exec.Command("mcp-reconnect", append([]string{"watch", "--format", "json", "--data-dir", a.dataDir}, flags...)...)
	w.cmd.Env = append(os.Environ(), environ...)
	w.cmd.Stderr = w
	pipe, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var e watch.Event
			err := json.Unmarshal(lines.Bytes(), &e)
			w.mu.Lock()
			w.lines.WriteString(lines.Text() + "\n")
			w.events = append(w.events, e)
			w.mu.Unlock()
			if err != nil {
				t.Errorf("%v: %s", err, lines.Text())
			}
		}
	}()
	t.Cleanup(func() {
		w.cmd.Process.Signal(os.Interrupt)
		<-w.ended
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("at an interrupt: %v", err)
		}
		if t.Failed() {
			t.Logf("what it printed:\n%s%s", w.lines.String(), w.stderr.String())
		}
	})
	return w
}

// output is everything that it printed so far.
func (w *watching) output() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.String() + w.stderr.String()
}

// count counts the events of which something holds.
func (w *watching) count(holds func(watch.Event) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if holds(e) {
			n++
		}
	}
	return n
}

func (w *watching) eventually(what string, holds func(watch.Event) bool) {
	w.t.Helper()
	eventually(w.t, what, func() bool { return w.count(holds) > 0 })
}

// target waits until the only target is in a state.
func (w *watching) target(state string) {
	w.t.Helper()
	eventually(w.t, "the target is "+state, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range slices.Backward(w.events) {
			if e.Type == watch.TargetChanged {
				return e.To == state
			}
		}
		return false
	})
}

// tools are the times that a server's tools were announced.
func (w *watching) tools(where *world, name string) int {
	return w.count(func(e watch.Event) bool {
		return e.Type == watch.ToolsChanged && e.Directory == where.dir && e.Server == name
	})
}

// isLost is the loss of the connection to OpenCode.
func isLost(e watch.Event) bool { return e.Type == watch.TargetChanged && e.From == watch.Connected }

// to is a change of a server into a state.
func to(where *world, name, state string) func(watch.Event) bool {
	return func(e watch.Event) bool {
		return e.Type == watch.StateChanged && e.Directory == where.dir && e.Server == name && e.To == state
	}
}

// restart kills OpenCode and starts it again at the same port.
func (a *app) restart(t testing.TB) {
	t.Helper()
	a.server.Stop()
	<-a.server.Ended()
	o := a.options
	o.Port = a.server.Port
	server, err := opencode.Start(a.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	a.server = server
}

func TestWatch(t *testing.T) {
	a := launch(t, withoutPlugin)
	v, w, unused := a.project(t).stdios("a"), a.project(t), a.project(t).stdios("a")
	w.mark("late", "down")
	w.configure(mcp{"a": w.stdio("a"), "late": w.stdio("late"), "off": with(w.stdio("off"), "enabled", false)})
	unused.post("/session")
	out := a.watches(t, nil, "--url", a.server.URL, "--initial-delay", "200ms", "--max-delay", "1s", "--max-attempts", "1000")
	out.target(watch.Connected)

	v.prompt("hello")
	w.prompt("hello")
	out.eventually("a is connected in one directory", to(v, "a", "connected"))
	out.eventually("a is connected in the other one", to(w, "a", "connected"))
	out.eventually("it tries the late one", to(w, "late", "trying"))
	out.eventually("one is off", to(w, "off", "disabled"))
	if n := out.tools(w, "a"); n != 0 {
		t.Errorf("the tools of a were announced %d times before anything happened to it", n)
	}

	// A crash. Its namesake is left alone.
	starts := w.starts("a")
	w.kill("a")
	out.eventually("its death is told", to(w, "a", "waiting"))
	eventually(t, "its tools are back", func() bool { return out.tools(w, "a") > 0 })
	w.wants("a", "connected")
	if n := w.starts("a"); n != starts+1 || v.starts("a") != 1 {
		t.Errorf("started %d times, its namesake %d times", n-starts, v.starts("a")-1)
	}

	// A slow start.
	w.unmark("late", "down")
	eventually(t, "the tools of the late one are there", func() bool { return out.tools(w, "late") > 0 })
	w.wants("late", "connected")
	w.wants("off", "disabled")

	// OpenCode itself is killed, and comes back with a server that fails. Nothing is
	// asked before the directory is in use again.
	w.mark("a", "down")
	starts = w.starts("a")
	before := out.tools(w, "a")
	lost := out.count(isLost)
	a.restart(t)
	eventually(t, "it is lost", func() bool { return out.count(isLost) > lost })
	out.target(watch.Connected)
	if n := w.starts("a"); n != starts {
		t.Errorf("started %d times in a directory that is not open", n-starts)
	}
	w.prompt("hello again")
	out.eventually("its failure is told", func(e watch.Event) bool { return to(w, "a", "waiting")(e) && e.From == "" })
	if n := out.tools(w, "a"); n != before {
		t.Errorf("its tools were announced %d times while it is down", n-before)
	}

	// Seen and steered like a plugin.
	if s := a.seen(t); len(s.Processes) != 1 || !s.Processes[0].Watched || s.Processes[0].URL != a.server.URL || s.Processes[0].Pid != out.cmd.Process.Pid {
		t.Errorf("status says %+v", s)
	}
	if got, status := w.reconnect(t, "retry", "--wait", patience.String(), "a"); status != 1 || !strings.Contains(got, w.dir+"\ta\tstill failed\t") {
		t.Errorf("retry: exit status %d: %s", status, got)
	}
	if got, _ := w.reconnect(t, "pause"); got != "reconnecting paused; directories in use: 1\n" {
		t.Errorf("pause: %s", got)
	}
	w.eventually("no try of it is under way", func() bool { return w.phase("a") == "dormant" })
	starts = w.starts("a")
	w.unmark("a", "down")
	w.prompt("hello, paused")
	w.wants("a", "failed")
	if got, _ := w.reconnect(t, "resume"); got != "reconnecting resumed; directories in use: 1\n" {
		t.Errorf("resume: %s", got)
	}
	eventually(t, "its tools are back", func() bool { return out.tools(w, "a") > before })
	if n := w.starts("a"); n != starts+1 {
		t.Errorf("during the pause and after it was started %d times", n-starts)
	}
	if got, status := w.reconnect(t, "retry", "--wait", patience.String()); status != 0 {
		t.Errorf("retry: exit status %d: %s", status, got)
	}
	w.wants("a", "connected")
	if n := unused.starts("a"); n != 0 {
		t.Errorf("%d processes were started in a directory that nobody uses", n)
	}
}

// TestWatchLooksWhereItIsTold: nobody prompts, and a directory that somebody names is tried all the same.
func TestWatchLooksWhereItIsTold(t *testing.T) {
	a := launch(t, withoutPlugin)
	v, w, unused := a.project(t), a.project(t), a.project(t).stdios("a")
	for _, project := range []*world{v, w} {
		project.mark("late", "down")
		project.configure(mcp{"late": project.stdio("late")})
		project.wants("late", "failed") // as a desktop's panel sees it
	}
	unused.post("/session")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	out := a.watches(t, nil, "--url", a.server.URL, "--listen", address, "--start", "mcp")
	out.target(watch.Connected)
	eventually(t, "status knows the watch", func() bool {
		s := a.seen(t)
		return len(s.Processes) == 1 && s.Processes[0].Watched && s.Processes[0].URL == a.server.URL && len(s.Processes[0].Instances) == 0
	})
	retry := func(body string, status int, want string) {
		t.Helper()
		res, err := http.Post("http://"+address+"/retry", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); err != nil || res.StatusCode != status || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %s, %v", body, res.Status, got, err)
		}
	}
	retry("", 404, "no directory is in use")
	retry(`{"directories":["`+v.dir+`/none"]}`, 404, "no directory on this machine")

	v.unmark("late", "down")
	retry(`{"directories":["`+v.dir+`"]}`, 202, `{"matched":[{"url":"`+a.server.URL+`","directory":"`+v.dir+`","servers":["late"]}]}`)
	v.eventually("it is back", func() bool { return v.state("late") == "connected" })
	retry(`{"directories":["`+v.dir+`"],"servers":["early"]}`, 404, `there is no server "early"; `+v.dir+` has late`)
	out.eventually("its tools are told of", func(e watch.Event) bool {
		return e.Type == watch.ToolsChanged && e.Directory == v.dir && e.Server == "late"
	})

	w.unmark("late", "down")
	if got, status := w.reconnect(t, "retry", "--wait", patience.String(), "--directory", w.dir); status != 0 || !strings.Contains(got, w.dir+"\tlate\tconnected") {
		t.Errorf("retry: exit status %d: %s", status, got)
	}
	w.wants("late", "connected")
	if n := unused.starts("a"); n != 0 {
		t.Errorf("%d processes were started in a directory that nobody named", n)
	}
}

// percent makes two projects, of which the one's directory is the other's if it is decoded
// once more, as OpenCode does with one that is asked for.
func percent(t *testing.T, a *app) (v, w *world) {
	t.Helper()
	v, w = a.project(t), a.project(t)
	v.dir, w.dir = filepath.Join(v.dir, "a%20b"), filepath.Join(v.dir, "a b")
	for _, where := range []*world{v, w} {
		if err := os.Mkdir(where.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		where.stdios("a")
	}
	return v, w
}

// survives kills a in v. No prompt is needed: OpenCode itself runs that one in w.
func survives(t *testing.T, v, w *world) {
	t.Helper()
	v.connects("a")
	for range 2 {
		v.recovers("a")
	}
	if n := w.starts("a"); n != 0 {
		t.Errorf("its namesake in another directory was started %d times", n)
	}
}

// TestEscapesADirectory (rule 4): what is asked in one directory does not go to another one.
func TestEscapesADirectory(t *testing.T) {
	v, w := percent(t, launch(t, quick))
	survives(t, v, w)
}

func TestWatchEscapesADirectory(t *testing.T) {
	a := launch(t, withoutPlugin)
	v, w := percent(t, a)
	out := a.watches(t, nil, "--url", a.server.URL)
	out.target(watch.Connected)
	survives(t, v, w)
	out.eventually("its tools are back", func(e watch.Event) bool { return e.Type == watch.ToolsChanged && e.Directory == v.dir })
}

func TestWatchWithPassword(t *testing.T) {
	s := withoutPlugin
	s.password = "hunter2-s3cret"
	a := launch(t, s)
	w := a.project(t).stdios("a")

	wrong := a.watches(t, []string{"OPENCODE_SERVER_PASSWORD=wrong-5ecret"}, "--url", a.server.URL)
	wrong.target(watch.Unauthorized)
	none := a.watches(t, nil, "--url", a.server.URL)
	none.target(watch.Unauthorized)
	if text := wrong.output(); !strings.Contains(text, "OPENCODE_SERVER_PASSWORD") || strings.Contains(text, "5ecret") {
		t.Error(text)
	}

	file := filepath.Join(a.mkdir(t, "secret"), "password")
	if err := os.WriteFile(file, []byte(s.password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	right := a.watches(t, []string{"OPENCODE_SERVER_PASSWORD=wrong-5ecret"}, "--url", a.server.URL, "--password-file", file)
	right.target(watch.Connected)
	w.prompt("hello")
	right.eventually("a is connected", to(w, "a", "connected"))
	w.kill("a")
	eventually(t, "its tools are back", func() bool { return right.tools(w, "a") > 0 })
	if text := right.output() + strings.Join(right.cmd.Args, " "); strings.Contains(text, s.password) {
		t.Errorf("the password is told: %s", text)
	}
}

// TestWatchBesideThePlugin: the plugin does the work, and both tell of it.
func TestWatchBesideThePlugin(t *testing.T) {
	a := launch(t, quick)
	w := a.project(t).stdios("a")
	out := a.watches(t, nil, "--url", strings.Replace(a.server.URL, "127.0.0.1", "localhost", 1), "--poll-interval", "1s")
	out.target(watch.Connected)
	w.prompt("hello")
	out.eventually("a is connected", to(w, "a", "connected"))
	for n := range 3 {
		w.recovers("a")
		eventually(t, "its tools are announced", func() bool { return out.tools(w, "a") > n })
	}
	if n := w.starts("a"); n != 4 {
		t.Errorf("started %d times", n)
	}
	if n := out.count(to(w, "a", "trying")); n != 0 {
		t.Errorf("watch tried %d times by itself", n)
	}
}
