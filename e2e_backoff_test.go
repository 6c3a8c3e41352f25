//go:build unix

package main

import (
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// slow has one try every four seconds after the first, and gives up: for what
// happens between two tries, and for servers that never come back.
var slow = setup{policy: []string{
	"MCP_RECONNECT_INITIAL_DELAY=4s",
	"MCP_RECONNECT_MAX_DELAY=4s",
	"MCP_RECONNECT_JITTER=0",
	"MCP_RECONNECT_MAX_ATTEMPTS=4",
}}

// TestBackoff has what happens to a server while it is not being tried.
func TestBackoff(t *testing.T) {
	runAll(t, launch(t, slow), []scenario{
		{"the user switches the server off and on", switchedOffAndOn},
		{"the user restarts the server", restartedByHand},
		{"the instance is disposed of", disposed},
		{"a server that dies again and again", flapping},
		{"a command that does not exist", missing},
	})
}

// backingOff makes a world with a server that was tried once, in vain, and will be
// again in four seconds, and with its twin, whose tries tell when that was.
func backingOff(t *testing.T, a *app, name string) *world {
	t.Helper()
	w := a.project(t).stdios(name, "twin")
	w.mark(name, "down")
	w.mark("twin", "down")
	w.prompt("hello")
	w.tried(2, name, "twin")
	return w
}

// tried waits until servers were started n times and the plugin knows what came of it.
func (w *world) tried(n int, names ...string) {
	w.t.Helper()
	w.eventually("they were tried", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			starts, line := w.starts(name), w.line(name)
			return starts < n || line == nil || line[3] != "waiting" || line[4] != strconv.Itoa(starts-1)
		})
	})
}

// outwait waits until the twin was tried twice more.
func (w *world) outwait() {
	w.t.Helper()
	w.eventually("the twin is tried twice more", func() bool { return w.starts("twin") >= 4 })
}

func switchedOff(t *testing.T, a *app) { stayOff(t, a) }

// Switched on again it is a server like any other.
func switchedOffAndOn(t *testing.T, a *app) {
	w := stayOff(t, a)
	w.post("/mcp/unwanted/connect")
	w.wants("unwanted", "connected")
	w.recovers("unwanted")
}

func stayOff(t *testing.T, a *app) *world {
	t.Helper()
	w := backingOff(t, a, "unwanted")
	w.post("/mcp/unwanted/disconnect")
	w.wants("unwanted", "disabled")
	before := w.starts("unwanted")
	w.unmark("unwanted", "down")
	w.outwait()
	w.wants("unwanted", "disabled")
	if n := w.starts("unwanted"); n != before {
		t.Errorf("it was started %d times more", n-before)
	}
	return w
}

func restartedByHand(t *testing.T, a *app) {
	w := backingOff(t, a, "restarted")
	w.unmark("restarted", "down")
	w.post("/mcp/restarted/connect")
	w.wants("restarted", "connected")
	w.outwait()
	w.wants("restarted", "connected")
	if n := w.starts("restarted"); n != 3 {
		t.Errorf("it was started %d times", n)
	}
	w.recovers("restarted")
}

func disposed(t *testing.T, a *app) {
	w := backingOff(t, a, "gone")
	// Where an event tells of it (up to OpenCode 1.15.13), a copy that is younger
	// than a second takes it for the end of its predecessor.
	w.tried(3, "gone", "twin")
	w.post("/instance/dispose")
	other := backingOff(t, a, "other") // until then, what was under way at that moment has ended
	gone, twin := w.starts("gone"), w.starts("twin")
	other.outwait()
	if gone, twin := w.starts("gone")-gone, w.starts("twin")-twin; gone != 0 || twin != 0 {
		t.Errorf("after disposal %d and %d were started", gone, twin)
	}

	w.prompt("hello again") // makes a new instance
	w.eventually("OpenCode and then the plugin try", func() bool { return w.starts("gone") >= gone+2 })
	w.unmark("gone", "down")
	w.connects("gone")
}

func flapping(t *testing.T, a *app) {
	w := a.project(t).stdios("flapping", "steady")
	w.mark("flapping", "flap")
	w.prompt("hello")
	given := func() int { return w.logged("flapping is still failed after") }
	w.eventually("it is parked", func() bool { return given() > 0 })
	w.recovers("steady")
	starts := w.starts("flapping")
	if starts != 6 { // OpenCode's own, as many as there are tries, and one for what their short lives took back (rule 12)
		t.Errorf("it was started %d times", starts)
	}

	w.prompt("hello again") // rule 13: wakes it, once a minute
	w.eventually("it is tried once more", func() bool { return w.starts("flapping") == starts+1 && w.ended("flapping") })
	w.prompt("and again")
	w.recovers("steady")
	if n := w.starts("flapping") - starts; n > 2 { // the second one wakes it when the minute is over
		t.Errorf("after two prompts it was started %d times more", n)
	}
	if given() != 1 {
		t.Errorf("the log says %d times that it is parked", given())
	}
}

func missing(t *testing.T, a *app) {
	w := a.project(t)
	w.configure(mcp{
		"missing": {"type": "local", "command": []string{"/no/such/program"}},
		"steady":  w.stdio("steady"),
	})
	w.prompt("hello")
	w.eventually("it is parked", func() bool { return w.logged("missing is still failed after 3 tries") == 1 })
	w.recovers("steady")
	if n := w.logged("server unavailable", "key=missing"); n != 4 { // OpenCode's own try, and three of ours (rule 15)
		t.Errorf("OpenCode tried it %d times", n)
	}
}

// TestTermination: with a try due in an hour, OpenCode ends at a signal as ever,
// and starts nothing more. It has a password, too.
func TestTermination(t *testing.T) {
	w := launch(t, setup{
		password: "it's a secret",
		policy:   []string{"MCP_RECONNECT_INITIAL_DELAY=1h", "MCP_RECONNECT_MAX_DELAY=1h"},
	}).project(t).stdios("a", "b")
	w.prompt("hello")
	w.recovers("a")
	w.recovers("b")
	w.kill("a") // within stable-after: the second try of this outage
	w.eventually("the death is noticed", func() bool { return w.state("a") == "failed" })

	if err := syscall.Kill(w.server.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.server.Ended():
	case <-time.After(patience):
		t.Fatal("OpenCode goes on")
	}
	w.eventually("its servers end", func() bool { return w.ended("a") && w.ended("b") })
	if a, b := w.starts("a"), w.starts("b"); a != 2 || b != 2 {
		t.Errorf("started %d and %d times", a, b)
	}
}
