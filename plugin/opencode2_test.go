package plugin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// simulate2 starts a process of OpenCode 2 whose plugin has the default policy with a change.
func simulate2(t *testing.T, change func(*Policy)) *simulation {
	t.Helper()
	policy := DefaultPolicy()
	policy.Jitter = 0
	if change != nil {
		change(&policy)
	}
	s := newProcess(t, policy)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history:\n%s", strings.Join(s.history, "\n"))
		}
	})
	return s
}

func (l *location) mustBe(want string, names ...string) {
	l.sim.t.Helper()
	for _, name := range names {
		if got := l.servers[name].state; got != want {
			l.sim.violated("%s is %s at %v, want %s", name, got, l.sim.since(), want)
		}
	}
}

func TestOpenCode2CrashedServerIsBack(t *testing.T) {
	s := simulate2(t, nil)
	l := s.open("/p", "a", "b")
	s.pass(10 * second)
	l.mustBe("connected", "a", "b")
	l.crash("a")
	s.pass(100*ms + 2*500*ms + 100*ms + 10*ms) // first-delay, two reloads, its start
	l.mustBe("connected", "a")
	if l.reloads != 2 || len(l.servers["b"].tried) != 0 {
		t.Errorf("%d reloads, and %d tries of a healthy neighbour", l.reloads, len(l.servers["b"].tried))
	}
	s.pass(minute)
	l.close()
}

func TestOpenCode2FailedAtStartComesBackWithoutAPrompt(t *testing.T) { // start=auto: a read of the status starts nothing
	s := simulate2(t, nil)
	l := s.open("/p", "a", "b", "c")
	for _, name := range l.names() {
		l.servers[name].up = false
	}
	s.pass(10 * second)
	l.mustBe("failed", "a", "b", "c")
	for _, name := range l.names() {
		l.servers[name].up = true
	}
	s.pass(31 * second)
	l.mustBe("connected", "a", "b", "c")
}

func TestOpenCode2Start(t *testing.T) { // rule 2
	for start, reads := range map[string][3]bool{ // after: loading, a prompt elsewhere, a prompt, which the model follows by an event of a server
		"auto": {true, true, true}, "load": {true, true, true}, "use": {false, false, true}, "mcp": {false, false, false},
	} {
		s := simulate2(t, func(p *Policy) { p.Start = start })
		l := &location{sim: s, dir: "/p", servers: map[string]*server2{}, listTakes: ms, debounce: ms}
		s.locations = append(s.locations, l)
		l.setup(s.load2())
		other := &location{sim: s, dir: "/other"}
		for n, happens := range []func(){func() {}, other.prompt, l.prompt} {
			happens()
			s.pass(second)
			if (l.reads > 0) != reads[n] {
				t.Errorf("start=%s: %d reads after step %d", start, l.reads, n)
			}
		}
		l.event("mcp.status.changed", object{"server": "a"})
		s.pass(2 * second)
		if l.reads == 0 {
			t.Errorf("start=%s: no read after an event of a server", start)
		}
		l.close()
	}
}

func TestOpenCode2RestsWhenIdle(t *testing.T) { // idle-after
	s := simulate2(t, nil)
	l := s.open("/p", "a")
	l.servers["a"].up = false
	s.pass(31 * minute)
	reads, reloads := l.reads, l.reloads
	s.pass(24 * time.Hour)
	if l.reads != reads || l.reloads != reloads || s.pluginTimers() != 0 {
		t.Errorf("%d reads, %d reloads in a day without a prompt, and %d timers", l.reads-reads, l.reloads-reloads, s.pluginTimers())
	}
	l.servers["a"].up = true
	l.prompt()
	s.pass(5 * second)
	l.mustBe("connected", "a")
}

func TestOpenCode2OnlyFailedIsActedOn(t *testing.T) { // rule 1
	for _, state := range []string{"needs_auth", "disabled", "pending", "something_new"} {
		s := simulate2(t, nil)
		l := s.open("/p", "a")
		s.pass(second)
		l.become(l.servers["a"], state, "")
		s.pass(time.Hour)
		if l.reloads != 0 {
			t.Errorf("%s: %d reloads", state, l.reloads)
		}
	}
}

// TestOpenCode2SomebodyElseWasFaster: what becomes of the server between the read of its
// status and the reload stands.
func TestOpenCode2SomebodyElseWasFaster(t *testing.T) { // rule 3
	for _, state := range []string{"disabled", "connected", "needs_auth"} {
		s := simulate2(t, nil)
		l := s.open("/p", "a")
		s.pass(second)
		l.crash("a")
		s.pass(300 * ms) // the reload is asked for, and not yet begun
		if l.reloads != 1 {
			t.Fatalf("%d reloads", l.reloads)
		}
		l.servers["a"].byUser = state == "disabled"
		l.become(l.servers["a"], state, "")
		s.pass(time.Hour)
		l.mustBe(state, "a")
		if n := len(l.servers["a"].tried); n != 0 {
			t.Errorf("%s: %d tries", state, n)
		}
	}
}

func TestOpenCode2PendingIsBeingConnected(t *testing.T) {
	s := simulate2(t, nil)
	l := s.open("/p", "a")
	a := l.servers["a"]
	s.pass(second)
	a.hangs = true // the host waits for 30 s
	l.start(a, func() {})
	s.pass(29 * second)
	if l.mustBe("pending", "a"); l.reloads != 0 {
		t.Errorf("%d reloads of a server that is being connected", l.reloads)
	}
	s.pass(5 * second)
	if l.mustBe("pending", "a"); len(a.tried) != 1 {
		t.Errorf("%d tries", len(a.tried))
	}
	a.hangs = false
	s.pass(minute)
	l.mustBe("connected", "a")
}

// TestOpenCode2LateConnectIsOurs: what is pending when our reload has ended is still our try.
func TestOpenCode2LateConnectIsOurs(t *testing.T) { // rules 11, 12
	s := simulate2(t, nil)
	l := s.open("/p", "a")
	s.pass(second)
	l.servers["a"].up = false
	l.crash("a")
	s.pass(1200 * ms) // the first reload is over
	l.misbehaves = "rejects"
	s.pass(second)
	l.misbehaves = ""
	l.become(l.servers["a"], "pending", "")
	s.pass(2 * second)
	l.become(l.servers["a"], "connected", "")
	s.pass(2 * second)
	if got := l.saved("a"); got.Phase != "up" || got.Tries == 0 {
		t.Errorf("%+v, want it up after our tries", got)
	}
}

// TestOpenCode2NothingStaysDisabled breaks a restart in each of its halves, in each way.
func TestOpenCode2NothingStaysDisabled(t *testing.T) {
	for _, how := range []string{"throws", "rejects", "hangs", "unloaded", "reloaded", "another copy", "closed"} {
		for half, wait := range map[string]time.Duration{"before the reload": 150 * ms, "in the first reload": 400 * ms, "in the second": 900 * ms, "in its start": 1250 * ms} {
			s := simulate2(t, nil)
			l := s.open("/p", "a")
			s.pass(second)
			l.crash("a")
			switch how {
			case "throws", "rejects", "hangs":
				s.pass(100 * ms)
				l.misbehaves = how
				s.pass(wait)
				l.misbehaves = ""
				s.pass(3 * minute)
			default:
				s.pass(wait)
				old := l.copies[0]
				switch how {
				case "unloaded":
					l.unload(old)
				case "reloaded":
					l.unload(old)
					l.setup(s.load2())
				case "another copy":
					l.setup(s.load2())
				case "closed":
					l.close()
				}
				s.pass(3 * minute)
			}
			if l.servers["a"].applied && how != "closed" {
				t.Errorf("%s %s: still disabled", how, half)
			}
			if how != "unloaded" && how != "closed" && l.servers["a"].state != "connected" {
				t.Errorf("%s %s: %s", how, half, l.servers["a"].state)
			}
			for len(l.copies) > 0 {
				l.unload(l.copies[0])
			}
			s.pass(2 * minute)
			if n := s.pluginTimers(); n != 0 {
				t.Errorf("%s %s: %d timers are left", how, half, n)
			}
			if left := s.run(`globalThis[Symbol.for("mcp-reconnect/2")]`); !goja.IsUndefined(left) {
				t.Errorf("%s %s: the registry is left", how, half)
			}
		}
	}
}

// TestOpenCode2TransformThatIsNotThereIsSurvived: a server may have been removed from the
// configuration while it is disabled for a moment.
func TestOpenCode2ServerThatVanishesIsSurvived(t *testing.T) { // the model minds a transform that throws
	s := simulate2(t, nil)
	l := s.open("/p", "a", "b")
	s.pass(second)
	l.crash("a")
	s.pass(300 * ms)
	delete(l.servers, "a")
	s.pass(minute)
	l.crash("b")
	s.pass(5 * second)
	l.mustBe("connected", "b")
}

func TestOpenCode2CopiesActAsOne(t *testing.T) { // rule 6; B23
	for name, load := range map[string]func(s *simulation, l *location){
		"hot reload, the new one first": func(s *simulation, l *location) { old := l.copies[0]; l.setup(s.load2()); l.unload(old) },
		"hot reload, the old one first": func(s *simulation, l *location) { l.unload(l.copies[0]); l.setup(s.load2()) },
		"the same id twice":             func(s *simulation, l *location) { l.setup(s.load2()) },
		"many times": func(s *simulation, l *location) {
			for range 20 {
				l.setup(s.load2())
				s.pass(70 * ms)
			}
		},
	} {
		s := simulate2(t, nil)
		l := s.open("/p", "a")
		s.pass(second)
		load(s, l)
		if n := s.run(`globalThis[Symbol.for("mcp-reconnect/2")].residents.size`).ToInteger(); n != 1 {
			t.Errorf("%s: %d engines", name, n)
		}
		s.pass(minute)
		l.crash("a")
		s.pass(2 * second)
		if l.mustBe("connected", "a"); l.reloads != 2 {
			t.Errorf("%s: %d reloads for one crash", name, l.reloads)
		}
		l.close()
	}
}

// TestOpenCode2NewCopyWaitsForWhatTheOldBegan: the model minds reloads that overlap.
func TestOpenCode2NewCopyWaitsForWhatTheOldBegan(t *testing.T) { // rules 5, 6
	for wait := 150 * ms; wait < 3*second; wait += 150 * ms {
		s := simulate2(t, nil)
		l := s.open("/p", "a", "b")
		s.pass(second)
		l.servers["a"].takes = second
		l.crash("a")
		s.pass(wait)
		l.setup(s.load2())
		l.crash("b")
		s.pass(10 * second)
		l.mustBe("connected", "a", "b")
	}
}

// TestBothScriptsInOneProcessActAsOne: the newest owns the directory, whichever it is.
func TestBothScriptsInOneProcessActAsOne(t *testing.T) {
	for _, last := range []string{"plugin.js", "server.js"} {
		s := simulate(t, nil)
		var i *instance
		var l *location
		load := map[string]func(){"plugin.js": func() { i = s.load("/p", "a") }, "server.js": func() { l = s.open("/p", "b") }}
		for _, file := range []string{"plugin.js", "server.js"} {
			if file != last {
				load[file]()
			}
		}
		s.pass(100 * ms)
		load[last]()
		if n := s.run(`globalThis[Symbol.for("mcp-reconnect/2")].residents.size`).ToInteger(); n != 1 {
			t.Errorf("%s last: %d engines", last, n)
		}
		i.prompt()
		l.prompt()
		s.pass(10 * second)
		calls, reads := i.calls, l.reads
		if last == "server.js" && calls != 0 {
			t.Errorf("the plugin for OpenCode 1 made %d calls", calls)
		}
		i.prompt()
		l.prompt()
		s.pass(minute)
		if (i.calls > calls) != (last == "plugin.js") || (l.reads > reads) != (last == "server.js") {
			t.Errorf("%s last: %d calls, %d reads", last, i.calls-calls, l.reads-reads)
		}
	}
}

func TestOpenCode2RestartsAreSerialized(t *testing.T) { // the model minds reloads that overlap
	s := simulate2(t, nil)
	var names []string
	for n := range 8 {
		names = append(names, fmt.Sprint("server-", n))
	}
	l := s.open("/p", names...)
	s.pass(second)
	for _, name := range names {
		l.crash(name)
	}
	s.pass(8*(1100*ms) + 500*ms)
	l.mustBe("connected", names...)
	if l.reloads != 16 {
		t.Errorf("%d reloads for eight servers", l.reloads)
	}
}

func TestOpenCode2PauseHoldsWhatWaits(t *testing.T) { // rule 19
	s := simulate2(t, nil)
	l := s.open("/p", "a", "b")
	s.pass(second)
	l.servers["a"].hangs = true
	l.crash("a")
	l.crash("b")
	s.pass(2 * second)
	s.files.write("control.json", `{"paused":true}`)
	s.pausedAt = s.now
	s.pass(5 * minute)
	l.mustBe("failed", "b")
	s.pausedAt = time.Time{}
	l.servers["a"].hangs = false
	s.files.write("control.json", `{"paused":false}`)
	s.pass(5 * second)
	l.mustBe("connected", "a", "b")
}

func TestOpenCode2EventsThatBreakAreSubscribedToAgain(t *testing.T) {
	s := simulate2(t, nil)
	l := s.open("/p", "a")
	s.pass(second)
	l.copies[0].streams[0].fail()
	s.pass(31 * second)
	if n := len(l.copies[0].streams); n != 2 {
		t.Fatalf("%d subscriptions", n)
	}
	for _, event := range []any{nil, 1, "x", object{}, object{"type": nil}, object{"type": "mcp.foo"}, object{"type": "mcp.status.changed", "data": 3}, object{"location": nil}, object{"location": object{"directory": 3}}} {
		s.publish(event)
	}
	l.crash("a")
	s.pass(2 * second)
	l.mustBe("connected", "a")
	if n := len(l.copies[0].streams); n != 2 {
		t.Errorf("%d subscriptions after odd events", n)
	}
}

func TestOpenCode2NoAnswerIsNoFailure(t *testing.T) { // rule 16
	for _, how := range []string{"throws", "rejects", "nonsense"} {
		s := simulate2(t, nil)
		l := s.open("/p", "a")
		s.pass(second)
		l.misbehaves = how
		l.crash("a")
		s.pass(5 * minute)
		if l.reloads != 0 {
			t.Errorf("%s: %d reloads", how, l.reloads)
		}
		l.misbehaves = ""
		s.pass(40 * second)
		l.mustBe("connected", "a")
	}
}

// TestOpenCode2TakenOverBetweenReloads: nothing stays disabled, whoever takes the directory over between the two
// reloads, and whatever becomes of the second one.
func TestOpenCode2TakenOverBetweenReloads(t *testing.T) {
	for _, how := range []string{"throws", "rejects"} {
		for who, takesOver := range map[string]func(*simulation, *location){
			"a second copy": func(s *simulation, l *location) { l.setup(s.load2()) },
			"a rival": func(s *simulation, l *location) {
				s.run(`globalThis.__openchamberMcpReconnectCoordinator = {}`)
				l.prompt()
			},
		} {
			s := simulate2(t, nil)
			l := s.open("/p", "a")
			s.pass(second)
			l.crash("a")
			s.pass(300 * ms)
			if l.reloads != 1 {
				t.Fatalf("%d reloads", l.reloads)
			}
			takesOver(s, l)
			l.misbehaves = how
			s.pass(2 * second)
			if !l.servers["a"].applied {
				t.Fatal("the reload was not between the two")
			}
			l.misbehaves = ""
			s.pass(10 * minute)
			if server := l.servers["a"]; server.applied || server.state != "connected" {
				t.Errorf("%s, and a reload %s: it is %s", who, how, server.state)
			}
		}
	}
}

// TestOpenCode2AsksForNothingAfterTheCleanup: OpenCode reloads by itself then.
func TestOpenCode2AsksForNothingAfterTheCleanup(t *testing.T) {
	s := simulate2(t, nil)
	l := s.open("/p", "a")
	s.pass(second)
	l.crash("a")
	s.pass(300 * ms)
	l.misbehaves = "rejects" // the second reload, and those that ask again
	s.pass(minute)
	l.misbehaves = ""
	before := l.reloads
	l.unload(l.copies[0])
	s.pass(minute)
	if n := l.reloads - before; n != 0 {
		t.Errorf("%d reloads", n)
	}
}

// TestOpenCode2OwnRestartIsNoUse: what a restart publishes does not keep a directory in use.
func TestOpenCode2OwnRestartIsNoUse(t *testing.T) {
	for n := range 60 {
		s := simulate2(t, nil)
		l := s.open("/p", "a")
		s.pass(second)
		l.servers["a"].hangs = true
		l.prompt()
		s.pass(time.Duration(n) * 5 * second)
		l.crash("a")
		s.pass(40 * minute)
		reads := l.reads
		s.pass(20 * minute)
		if l.reads != reads {
			t.Errorf("crashed after %v: idle, and %d reads", time.Duration(n)*5*second, l.reads-reads)
		}
	}
}

// TestOpenCode2OddContext: setup and its cleanup survive a host that is not as its source says.
func TestOpenCode2OddContext(t *testing.T) {
	s := simulate2(t, nil)
	setup, _ := goja.AssertFunction(s.load2().ToObject(s.vm).Get("setup"))
	for _, ctx := range []string{`undefined`, `({})`, `({location: {}, mcp: {transform: async () => {}}})`} {
		if p := s.call(setup, s.run(ctx)); p.State() != goja.PromiseStateFulfilled || !goja.IsUndefined(p.Result()) {
			t.Errorf("%s: %v, %v", ctx, p.State(), p.Result())
		}
	}
	for _, end := range []string{"return() {}", "return() { throw 1 }", "async return() { throw 1 }", ""} {
		p := s.call(setup, s.run(`({
			location: {directory: "/p"}, mcp: {transform: async () => {}, list: async () => ({data: []})},
			event: {subscribe: () => ({[Symbol.asyncIterator]: () => ({next: () => new Promise(() => {}), `+end+`})})},
		})`))
		cleanup, ok := goja.AssertFunction(p.Result())
		if !ok {
			t.Fatalf("%s: %v", end, p.Result())
		}
		if _, err := cleanup(goja.Undefined()); err != nil {
			t.Errorf("%s: %v", end, err)
		}
	}
}

func TestOpenCode2SetupWithoutTransformDoesNothing(t *testing.T) {
	s := simulate2(t, nil)
	setup, _ := goja.AssertFunction(s.load2().ToObject(s.vm).Get("setup"))
	for _, ctx := range []string{`({location: {directory: "/p"}})`, `({location: {directory: "/p"}, mcp: {transform: async () => { throw 1 }}})`} {
		if p := s.call(setup, s.run(ctx)); p.State() != goja.PromiseStateFulfilled || !goja.IsUndefined(p.Result()) {
			t.Errorf("%s: %v", ctx, p.Result())
		}
	}
	if n := s.pluginTimers(); n != 0 {
		t.Errorf("%d timers", n)
	}
}

// saved returns what the plugin says of a server.
func (l *location) saved(name string) savedServer {
	i := &instance{sim: l.sim, dir: l.dir}
	return i.saved().server(name)
}

// TestOpenCode2InNode runs server.js in another engine: a server is restarted once, the
// cleanup ends everything, and nothing keeps the process alive (rules 7 and 8).
func TestOpenCode2InNode(t *testing.T) {
	node := testenv.Program(t, "node")
	js, err := RenderServer(DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("server.mjs", string(js))
	write("main.mjs", `
		import plugin from "./server.mjs"
		const config = { type: "local" }
		let transform, status = "failed", ended = false, reloads = 0
		const ctx = {
			location: { directory: "/p" },
			mcp: {
				list: async () => ({ data: [{ name: "a", status: { status } }] }),
				transform: async (callback) => ((transform = callback), { dispose: async () => {} }),
				reload: async () => {
					reloads++
					const next = { ...config }
					transform({ update: (name, update) => update(next) })
					status = next.disabled ? "disabled" : "connected"
				},
			},
			event: {
				async *subscribe() {
					try {
						yield { type: "mcp.status.changed", data: { server: "a" }, location: { directory: "/p" } }
						await new Promise((resolve) => setTimeout(resolve, 300))
					} finally {
						ended = true
					}
				},
			},
		}
		const cleanup = await plugin.setup(ctx)
		await new Promise((resolve) => setTimeout(resolve, 1000))
		console.log(Object.keys(plugin).join(), status, reloads, ended)
		if (process.argv[2] === "cleanup") await cleanup()
	`)
	for _, arg := range []string{"cleanup", "none"} { // a timer that is not unref'd would live for hours
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, node, filepath.Join(dir, "main.mjs"), arg).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "id,setup connected 2 true" {
			t.Errorf("%s: %v, and %q", arg, err, out)
		}
	}
}
