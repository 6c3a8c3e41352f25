//go:build unix

package main

import (
	"strings"
	"testing"
)

// quick tries often and never gives up: for servers that come back.
var quick = setup{policy: []string{
	"MCP_RECONNECT_INITIAL_DELAY=200ms",
	"MCP_RECONNECT_MAX_DELAY=1s",
	"MCP_RECONNECT_MAX_ATTEMPTS=1000",
	"MCP_RECONNECT_POLL_INTERVAL=1s",
	"MCP_RECONNECT_CONNECT_TIMEOUT=1s",
}}

// TestRecovery has the ways in which a server can be gone and come back.
func TestRecovery(t *testing.T) {
	runAll(t, launch(t, quick), []scenario{
		{"a slow start beside a healthy server", slowStart},
		{"a failure that no event announces", silentFailure},
		{"all failed at start", allFailedAtStart},
		{"waiting for a sign-in", waitingForSignIn},
		{"hung neighbours", hungNeighbours},
		{"two directories with servers of one name", twoDirectories},
		{"a remote server comes up late", lateRemote},
		{"the plugin is loaded three times", loadedThreeTimes},
	})
}

// A scenario happens in directories of its own.
type scenario struct {
	name string
	run  func(*testing.T, *app)
}

// runAll runs scenarios at the same time in one OpenCode.
func runAll(t *testing.T, a *app, scenarios []scenario) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, a)
		})
	}
}

func slowStart(t *testing.T, a *app) {
	w := a.project(t)
	w.mark("slow", "hang")
	w.configure(mcp{"healthy": w.stdio("healthy"), "slow": with(w.stdio("slow"), "timeout", 1000)})
	w.wants("healthy", "connected") // as a UI that shows the status: it starts them, and is no use (rule 2)
	w.wants("slow", "failed")

	elsewhere := a.project(t).stdios("other")
	elsewhere.prompt("hello")
	elsewhere.recovers("other")
	if n := w.starts("slow"); n != 1 {
		t.Errorf("started %d times in a directory that is not in use", n)
	}

	w.prompt("hello")
	w.eventually("the plugin tries", func() bool { return w.starts("slow") >= 3 })
	w.wants("slow", "failed")
	w.unmark("slow", "hang")
	w.connects("slow")
	if n := w.starts("healthy"); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	w.prompt("call slow_echo")
	if said := strings.Join(w.model.Said(), "\n"); !strings.Contains(said, "slow says hello") {
		t.Errorf("the tool returned %q", said)
	}
}

// silentFailure: somebody switches a server on which then cannot start. OpenCode
// publishes nothing, and nobody prompts, so the poll alone can see it.
func silentFailure(t *testing.T, a *app) {
	w := a.project(t)
	w.mark("silent", "down")
	w.configure(mcp{"silent": with(w.stdio("silent"), "enabled", false)})
	w.prompt("hello")
	w.post("/mcp/silent/connect")
	w.wants("silent", "failed")
	w.unmark("silent", "down")
	w.connects("silent")
}

func allFailedAtStart(t *testing.T, a *app) {
	w := a.project(t)
	down := []string{"first", "second", "third"}
	servers := mcp{"off": with(w.stdio("off"), "enabled", false)}
	for _, name := range down {
		w.mark(name, "down")
		servers[name] = w.stdio(name)
	}
	w.mark("private", "auth")
	private := w.remote("private")
	private.serve()
	servers["private"] = private.http()
	w.configure(servers)

	w.prompt("hello")
	w.wants("private", "needs_auth")
	asked := private.requests("")
	for _, name := range down {
		w.eventually("the plugin tries "+name, func() bool { return w.starts(name) >= 3 })
		w.wants(name, "failed")
	}
	for _, name := range down {
		w.unmark(name, "down")
	}
	for _, name := range down {
		w.connects(name)
	}
	w.wants("off", "disabled")
	if n := w.starts("off"); n != 0 {
		t.Errorf("the disabled server was started %d times", n)
	}
	w.wants("private", "needs_auth")
	if n := private.requests(""); n != asked {
		t.Errorf("the server that waits for a sign-in got %d more requests", n-asked)
	}
}

func waitingForSignIn(t *testing.T, a *app) {
	w := a.project(t)
	w.mark("locked", "auth")
	locked := w.remote("locked")
	locked.serve()
	w.configure(mcp{"locked": locked.http(), "neighbour": w.stdio("neighbour")})
	w.prompt("hello")
	w.wants("locked", "needs_auth")
	asked := locked.requests("")
	if asked == 0 {
		t.Error("OpenCode itself never asked the server")
	}
	w.recovers("neighbour")
	w.prompt("hello again")
	w.recovers("neighbour")
	w.wants("locked", "needs_auth")
	if n := locked.requests(""); n != asked {
		t.Errorf("it got %d more requests", n-asked)
	}
}

// hungNeighbours: as many connects as the budget has slots answer nothing.
func hungNeighbours(t *testing.T, a *app) {
	w := a.project(t)
	hung := []string{"hung1", "hung2", "hung3", "hung4"}
	servers := mcp{"lively": w.stdio("lively")}
	for _, name := range hung {
		servers[name] = with(w.stdio(name), "timeout", patience.Milliseconds())
	}
	w.configure(servers)
	w.prompt("hello")
	for _, name := range hung {
		w.wants(name, "connected")
		w.mark(name, "hang")
		w.kill(name)
	}
	for _, name := range hung {
		w.eventually("the plugin tries "+name, func() bool { return w.starts(name) == 2 })
	}
	w.recovers("lively")
	w.recovers("lively")
	for _, name := range hung {
		if n := w.starts(name); n != 2 { // rule 5: at most one connect per server
			t.Errorf("%s was started %d times", name, n)
		}
		w.unmark(name, "hang")
		w.kill(name) // the connect settles
	}
	for _, name := range hung {
		w.connects(name)
	}
}

func twoDirectories(t *testing.T, a *app) {
	one, two := a.project(t).stdios("same"), a.project(t).stdios("same")
	one.prompt("hello")
	two.prompt("hello")
	one.recovers("same")
	if n := two.starts("same"); n != 1 {
		t.Errorf("the other directory's was started %d times", n)
	}
	two.recovers("same")
	if n := one.starts("same"); n != 2 {
		t.Errorf("the first directory's was started %d times", n)
	}
}

func lateRemote(t *testing.T, a *app) {
	w := a.project(t)
	r := w.remote("web")
	w.configure(mcp{"web": r.http(), "local": w.stdio("local")})
	w.prompt("hello")
	w.wants("web", "failed")
	r.serve()
	w.connects("web")
	answered := func() int { return strings.Count(strings.Join(w.model.Said(), "\n"), "web says hello") }
	w.prompt("call web_echo")
	if answered() != 1 {
		t.Errorf("the tools returned %q", w.model.Said())
	}

	// Gone while OpenCode calls it connected: none of our business (rule 1).
	sessions := r.requests("initialize")
	r.Kill()
	w.recovers("local")
	w.wants("web", "connected")
	r.serve()
	w.recovers("local")
	if n := r.requests("initialize"); n != sessions {
		t.Errorf("it was connected %d times while its status was connected", n-sessions)
	}
	w.prompt("call web_echo")
	if answered() != 2 {
		t.Errorf("OpenCode did not open a new session: the tools returned %q", w.model.Said())
	}
}
