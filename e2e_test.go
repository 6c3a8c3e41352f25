//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKilledServerIsConnectedAgain(t *testing.T) {
	// Without polls that could find it: the event has to do.
	w := launch(t, setup{policy: []string{"MCP_RECONNECT_POLL_INTERVAL=24h"}}).project(t).stdios("a", "b")
	unused := make([]*world, 12)
	for n := range unused { // rule 2: these are opened, and not used
		unused[n] = w.project(t).stdios("a", "b")
		unused[n].post("/session")
	}
	w.prompt("hello")
	for range 3 {
		w.wants("a", "connected")
		w.wants("b", "connected")
		w.recovers("a")
	}
	if n := w.starts("b"); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	for _, u := range unused {
		if n := u.starts("a") + u.starts("b"); n != 0 {
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
	if w.logged("a is back (") == 0 {
		t.Error("rule 17: OpenCode's log does not say that a is back")
	}
}

// TestWithoutThePlugin shows that these tests can fail: OpenCode alone leaves the
// server failed. It waits ten times as long as the plugin takes to bring one back;
// on a slow machine that shows less, and fails no sooner.
func TestWithoutThePlugin(t *testing.T) {
	w := launch(t, setup{policy: []string{"MCP_RECONNECT_UNSET=true"}}).project(t).stdios("a")
	w.prompt("hello")
	w.kill("a")
	w.eventually("the death is noticed", func() bool { return w.state("a") == "failed" })
	for range 3 {
		time.Sleep(time.Second)
		w.prompt("hello again")
	}
	w.wants("a", "failed")
	if n := w.starts("a"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}
