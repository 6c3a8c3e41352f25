//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestRestartedAgainAndAgain: a server that its author restarts is back at once each
// time (rule 12). A second try of one outage would come in ten minutes.
func TestRestartedAgainAndAgain(t *testing.T) {
	w := launch(t, setup{policy: []string{
		"MCP_RECONNECT_INITIAL_DELAY=10m",
		"MCP_RECONNECT_MAX_DELAY=10m",
		"MCP_RECONNECT_STABLE_AFTER=9s",
		"MCP_RECONNECT_POLL_INTERVAL=10m",
	}}).project(t).stdios("a")
	w.prompt("hello")
	for range 3 {
		w.recovers("a")
		time.Sleep(4 * time.Second) // three kills in 15 s; a try is forgotten after a sixth of stable-after
	}
}

// proven has no poll: what tells it that a server is dead is a call. What is down
// for a while is tried often, and a prompt waits for a restart on a slow machine, too.
var proven = setup{policy: []string{
	"MCP_RECONNECT_INITIAL_DELAY=200ms",
	"MCP_RECONNECT_MAX_DELAY=1s",
	"MCP_RECONNECT_MAX_ATTEMPTS=1000",
	"MCP_RECONNECT_POLL_INTERVAL=10m",
	"MCP_RECONNECT_HOLD_PROMPT=1m",
}}

// TestDeadAndCalledConnected has the servers whose connection is dead and that OpenCode
// calls connected for ever (rule 20), and those that it must not be taken for.
func TestDeadAndCalledConnected(t *testing.T) {
	runAll(t, launch(t, proven), []scenario{
		{"the old session is answered with 400", func(t *testing.T, a *app) { restarted(t, a, (*world).remote, "session", "400") }},
		{"the old session is answered with an error in a 200", func(t *testing.T, a *app) { restarted(t, a, (*world).remote, "session", "200") }},
		{"it has other tools, and refuses the old one", func(t *testing.T, a *app) { restarted(t, a, (*world).remote, "session", "404") }},
		{"it has other tools, and returns an error for the old one", func(t *testing.T, a *app) { restarted(t, a, (*world).remote, "unknown", "") }},
		{"the old HTTP+SSE, behind a proxy", oldTransport},
		{"it is down for a while", downForAWhile},
		{"the reference server, streamable HTTP", func(t *testing.T, a *app) { reference(t, a, "streamableHttp", "/mcp") }},
		{"the reference server, HTTP+SSE", func(t *testing.T, a *app) { reference(t, a, "sse", "/sse") }},
		{"the reference server, stdio", referenceStdio},
		{"two calls prove it at the same time", provenTwice},
		{"a stdio server has other tools", outdated},
		{"a healthy server's tool fails", healthyFailures},
		{"a server asks for a sign-in", signInLater},
		{"retry --force", forced},
	})
}

// healed asks for a call that must fail and then for one that must not. Between the two
// prompts is nothing: the second one waits for what is being reconnected (rule 21).
func (w *world) healed(name, old, tool string) {
	w.t.Helper()
	old, tool = name+"_"+old, name+"_"+tool
	if got := w.prompt("call " + old); !slices.Contains(got.offered, old) || len(got.calls) != 1 || strings.Contains(got.said(), "hello") {
		w.t.Fatalf("the connection of %s is not dead: %+v", name, got.calls)
	}
	w.works(name, tool)
}

// works asks for a call that must not fail, of a tool that the prompt's first request offers.
func (w *world) works(name, tool string) {
	w.t.Helper()
	got := w.prompt("call " + tool)
	if !slices.Contains(got.offered, tool) {
		w.t.Errorf("the first request of the prompt offers %q", got.offered)
	}
	if said := got.said(); !strings.Contains(said, "hello") {
		w.t.Errorf("%s returned %q", tool, said)
	}
}

// restarted: a remote server comes back with another tool and without its sessions.
func restarted(t *testing.T, a *app, kind func(*world, string) *remote, ending, content string) {
	w := a.project(t)
	name := fmt.Sprintf("web%s%s", ending, content)
	r := kind(w, name)
	w.steer(name, ending, content)
	r.serve()
	w.configure(mcp{name: r.http(), "neighbour": w.stdio("neighbour")})
	w.works(name, name+"_echo")

	w.steer(name, "tool", "other")
	r.restart()
	w.wants(name, "connected")
	w.healed(name, "echo", "other")
	if got := w.prompt("hello"); slices.Contains(got.offered, name+"_echo") {
		t.Errorf("the tool of the old process is still offered: %q", got.offered)
	}
	if n := w.starts("neighbour"); n != 1 {
		t.Errorf("the healthy neighbour was started %d times", n)
	}
	w.eventually("the log says that it is back", func() bool { return w.logged(name+" is back (") == 1 })
}

// oldTransport: a proxy answers 502 when the client reopens its stream, after which it
// never does again.
func oldTransport(t *testing.T, a *app) {
	w := a.project(t)
	r := w.oldRemote("old")
	r.serve()
	w.configure(mcp{"old": r.http()})
	w.works("old", "old_echo")

	opened := r.requests("/sse")
	w.steer("old", "tool", "other")
	w.steer("old", "page", "502")
	r.restart()
	w.eventually("the client reopens its stream", func() bool { return r.requests("/sse") > opened })
	w.unmark("old", "page")
	w.healed("old", "echo", "other")
}

func downForAWhile(t *testing.T, a *app) {
	w := a.project(t)
	r := w.remote("gone")
	w.steer("gone", "session", "400")
	r.serve()
	w.configure(mcp{"gone": r.http()})
	w.works("gone", "gone_echo")

	r.Kill()
	w.wants("gone", "connected")
	if said := w.prompt("call gone_echo").said(); said == "" || strings.Contains(said, "hello") {
		t.Fatalf("a server that is gone says %q", said)
	}
	w.eventually("its failure is seen", func() bool { return w.state("gone") == "failed" })
	if got := w.prompt("hello"); slices.Contains(got.offered, "gone_echo") {
		t.Errorf("the tool of a dead server is offered: %q", got.offered)
	}
	w.steer("gone", "tool", "other")
	r.serve()
	w.connects("gone")
	w.works("gone", "gone_other")
}

// reference: the MCP project's own server is restarted. With HTTP+SSE the client may reopen
// its stream before the first call, or a moment after it.
func reference(t *testing.T, a *app, transport, path string) {
	w := a.project(t)
	r := w.reference(transport, transport, path)
	r.serve()
	w.configure(mcp{transport: with(r.http(), "timeout", 5000)})
	w.works(transport, transport+"_echo")
	for range 2 {
		r.restart()
		w.wants(transport, "connected")
		if said := w.prompt("call " + transport + "_echo").said(); transport == "streamableHttp" && strings.Contains(said, "hello") {
			t.Errorf("its connection is not dead: %q", said)
		}
		w.works(transport, transport+"_echo")
	}
}

func referenceStdio(t *testing.T, a *app) {
	w := a.project(t)
	w.configure(mcp{"reference": {
		"type": "local",
		"command": []string{"sh", "-c", `echo "$$ $PWD" >>"$MCP_TEST_DIR/reference.log" && exec "$@"`, "sh",
			testenv.Program(t, "node"), testenv.ReferenceServer(t), "stdio"},
		"environment": map[string]string{"MCP_TEST_DIR": w.mcpDir},
	}})
	w.works("reference", "reference_echo")
	for n := range 2 {
		w.kill("reference")
		w.eventually("its death is noticed or over", func() bool { return w.state("reference") == "failed" || w.starts("reference") == n+2 })
		w.works("reference", "reference_echo")
		if starts := w.starts("reference"); starts != n+2 {
			t.Errorf("it was started %d times", starts)
		}
	}
}

// provenTwice: one proof, one reconnect, however many calls tell it.
func provenTwice(t *testing.T, a *app) {
	w := a.project(t)
	r := w.remote("twice")
	w.steer("twice", "session", "400")
	r.serve()
	w.configure(mcp{"twice": r.http(), "neighbour": w.stdio("neighbour")})
	w.works("twice", "twice_echo")
	r.restart()
	sessions := r.requests("initialize")
	if got := w.prompt("call twice_echo and twice_echo"); len(got.calls) != 2 || strings.Contains(got.said(), "hello") {
		t.Fatalf("its connection is not dead: %+v", got.calls)
	}
	w.works("twice", "twice_echo")
	w.recovers("neighbour")
	w.works("twice", "twice_echo")
	if n := r.requests("initialize") - sessions; n != 1 {
		t.Errorf("it was connected %d times", n)
	}
}

// outdated: a restart of a stdio server may lose what it holds, and so it is somebody's decision.
func outdated(t *testing.T, a *app) {
	w := a.project(t).stdios("stale", "neighbour")
	w.works("stale", "stale_echo")
	w.steer("stale", "tool", "other")
	for range 2 {
		if said := w.prompt("call stale_echo").said(); !strings.Contains(said, "not found") {
			t.Fatalf("it still has its tool: %q", said)
		}
	}
	w.eventually("status says so", func() bool { return w.phase("stale") == "outdated" })
	w.recovers("neighbour")
	if n := w.starts("stale"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if n := w.logged("stale: OpenCode offers tools that the server no longer has"); n != 1 {
		t.Errorf("the log says %d times that it is outdated", n)
	}

	out, status := w.reconnect(t, "retry", "--force", "stale", "--directory", w.dir)
	if status != 0 || !strings.Contains(out, "\tstale\tconnected\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.works("stale", "stale_other")
	if n := w.starts("stale"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
	w.eventually("status says that it is back", func() bool { return w.phase("stale") == "up" })
}

// healthyFailures: what a tool says of itself, a slow one, and what a server says of its
// load prove nothing.
func healthyFailures(t *testing.T, a *app) {
	w := a.project(t)
	web := w.remote("web")
	web.serve()
	w.configure(mcp{
		"web":       with(web.http(), "timeout", 5000),
		"stdio":     with(w.stdio("stdio"), "timeout", 5000),
		"neighbour": w.stdio("neighbour"),
	})
	w.works("web", "web_echo")
	w.works("stdio", "stdio_echo")
	sessions := web.requests("initialize")
	for _, failure := range []struct{ ending, content, want string }{
		{"fails", "no such file", "no such file"},
		{"fails", "fetch failed: connect ECONNREFUSED 10.0.0.1:443", "ECONNREFUSED"},
		{"refuses", "-32602 Input validation error: Invalid arguments for tool echo", "-32602"},
		{"refuses", "-32603 Internal error", "-32603"},
		{"busy", "", "timed out"},
		{"page", "403", "Forbidden"},    // of remote servers alone
		{"page", "429", "Too Many Req"}, // too
	} {
		for _, name := range []string{"web", "stdio"} {
			if name == "stdio" && failure.ending == "page" {
				continue
			}
			w.steer(name, failure.ending, failure.content)
			if said := w.prompt("call " + name + "_echo").said(); !strings.Contains(said, failure.want) {
				t.Errorf("with %s %q %s says %q", failure.ending, failure.content, name, said)
			}
			w.unmark(name, failure.ending)
		}
	}
	w.recovers("neighbour") // the plugin had its chance to act
	w.works("web", "web_echo")
	w.works("stdio", "stdio_echo")
	if http, stdio := web.requests("initialize")-sessions, w.starts("stdio")-1; http != 0 || stdio != 0 {
		t.Errorf("healthy servers were connected %d and %d times", http, stdio)
	}
}

// signInLater: a 401 is for the user.
func signInLater(t *testing.T, a *app) {
	w := a.project(t)
	r := w.remote("expired")
	r.serve()
	w.configure(mcp{"expired": r.http(), "neighbour": w.stdio("neighbour")})
	w.works("expired", "expired_echo")
	w.mark("expired", "auth")
	sessions := r.requests("initialize")
	if said := w.prompt("call expired_echo").said(); said == "" || strings.Contains(said, "hello") {
		t.Fatalf("it does not ask for a sign-in: %q", said)
	}
	w.recovers("neighbour")
	w.prompt("hello")
	if n := r.requests("initialize") - sessions; n != 0 {
		t.Errorf("it was connected %d times", n)
	}
}

// forced: the way out for what no call has proven.
func forced(t *testing.T, a *app) {
	w := a.project(t)
	r := w.remote("quiet")
	w.steer("quiet", "session", "400")
	r.serve()
	w.configure(mcp{"quiet": r.http(), "steady": w.stdio("steady"), "off": with(w.stdio("off"), "enabled", false)})
	w.works("quiet", "quiet_echo")
	w.steer("quiet", "tool", "other")
	r.restart()

	// Without --force it leaves alone what is connected.
	sessions := r.requests("initialize")
	w.reconnect(t, "retry", "quiet", "--directory", w.dir)
	if n := r.requests("initialize") - sessions; n != 0 {
		t.Errorf("without --force it was connected %d times", n)
	}
	out, status := w.reconnect(t, "retry", "--force", "quiet", "steady", "off", "--directory", w.dir)
	if !strings.Contains(out, "\tquiet\tconnected\t") || !strings.Contains(out, "\tsteady\tconnected\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.works("quiet", "quiet_other")
	w.works("steady", "steady_echo")
	if n := w.starts("steady"); n != 2 {
		t.Errorf("the healthy one was started %d times", n)
	}
	w.wants("off", "disabled")
	if n := w.starts("off"); n != 0 {
		t.Errorf("the disabled one was started %d times", n)
	}
}

// TestRestartDeadOff: with --restart-dead off nothing that is connected is touched.
func TestRestartDeadOff(t *testing.T) {
	w := launch(t, setup{policy: append(slices.Clone(proven.policy), "MCP_RECONNECT_RESTART_DEAD=off")}).project(t)
	r := w.remote("web")
	w.steer("web", "session", "400")
	r.serve()
	w.configure(mcp{"web": r.http(), "neighbour": w.stdio("neighbour")})
	w.works("web", "web_echo")
	r.restart()
	sessions := r.requests("initialize")
	for range 2 {
		if said := w.prompt("call web_echo").said(); !strings.Contains(said, "session") {
			t.Errorf("its connection is not dead: %q", said)
		}
		w.recovers("neighbour")
	}
	if n := r.requests("initialize") - sessions; n != 0 {
		t.Errorf("it was connected %d times", n)
	}
}
