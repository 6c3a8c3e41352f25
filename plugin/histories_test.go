package plugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// policies are those that random histories run under: the default, and each limit
// drawn close enough to be met often.
var policies = func() []Policy {
	change := func(f func(*Policy)) Policy { p := DefaultPolicy(); f(&p); return p }
	return []Policy{
		DefaultPolicy(),
		change(func(p *Policy) { p.Concurrency, p.MaxAttempts = 1, 2 }),
		change(func(p *Policy) { p.Jitter, p.Concurrency = 1, 2 }),
		change(func(p *Policy) { p.Jitter, p.StableAfter = 0, 0 }),
		change(func(p *Policy) { p.FirstDelay, p.InitialDelay, p.MaxDelay = time.Second, 10*ms, 50*ms }),
		change(func(p *Policy) { p.FirstDelay, p.ConnectTimeout, p.Concurrency = ms, 100*ms, 1 }),
		change(func(p *Policy) { p.PollInterval, p.ProbeInterval, p.IdleAfter = second, 2*second, minute }),
		change(func(p *Policy) { p.PollInterval, p.IdleAfter = time.Hour, second }),
		change(func(p *Policy) { p.Start, p.MaxAttempts = "mcp", 1 }),
		change(func(p *Policy) { p.Start, p.StableAfter = "load", time.Hour }),
	}
}()

// TestRandomHistories lets everything happen at any time. The model keeps watch
// over rules 1 to 8, 12, 16, 20 and 21 at every call; in the end whatever can be reached must be
// connected, and a disposed process must be as if the plugin had never been there.
//
// CI runs thousands of them: go test ./plugin -run RandomHistories -rapid.checks 10000
func TestRandomHistories(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := &historian{T: t}
				h.live(engines[name], policies[draw(h, rapid.IntRange(0, len(policies)-1), "policy")], 3)
			})
		})
	}
}

// A historian makes things happen.
type historian struct {
	*rapid.T
	s         *simulation
	paused    bool
	retried   int64 // what was asked for last
	retry     []string
	use       []string // the directories that were named
	force     []string
	retriedAt time.Time   // when
	calls     []*toolCall // that run
}

func draw[V any](h *historian, from *rapid.Generator[V], label string) V {
	return from.Draw(h.T, label)
}

// live is a history from its beginning to its end.
func (h *historian) live(start func(rapid.TB, Policy) *simulation, policy Policy, directories int) {
	h.s = start(h.T, policy)
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("history:\n%s", strings.Join(h.s.history, "\n"))
		}
	})
	for n := range draw(h, rapid.IntRange(1, directories), "directories") {
		names := []string{"a", "b", "c", "__proto__"}[:draw(h, rapid.IntRange(1, 4), "servers")]
		i := h.s.load(fmt.Sprint("/", n), names...)
		for _, name := range names {
			i.servers[name].up = draw(h, rapid.Bool(), "up")
		}
	}
	for range draw(h, rapid.IntRange(1, 50), "steps") {
		h.step()
		if len(h.s.broken) > 0 {
			return // shrinking wants the first one
		}
	}
	h.recover()
	h.end()
}

var times = []time.Duration{0, ms, 50 * ms, 100 * ms, 101 * ms, 300 * ms, second, 5 * second, 31 * second, 2 * minute, 6 * minute, 31 * minute}

func (h *historian) step() {
	i := h.s.instances[draw(h, rapid.IntRange(0, len(h.s.instances)-1), "directory")]
	names := i.names()
	name := draw(h, rapid.SampledFrom(names), "server")
	srv := i.servers[name]
	note := func(what string) { h.s.note("%s: %s %s", i.dir, name, what) }

	actions := map[string]func(){
		"time passes": func() { h.s.pass(draw(h, rapid.SampledFrom(times), "time")) },
		"prompt":      func() { i.prompt() },
		"busy":        func() { i.event("session.status", object{"status": object{"type": "busy"}}) },
		"message":     func() { i.event("message.updated", object{}) },
		"mcp event":   func() { i.event("mcp.tools.changed", object{"server": name}) },
		"crash": func() {
			if srv.state == "connected" {
				i.crash(name)
			}
		},
		"silent drop": func() {
			if srv.state == "connected" {
				i.fail(name)
			}
		},
		"dies unnoticed": func() {
			if srv.state == "connected" {
				i.dies(name)
			}
		},
		"call": func() { i.callTool(name) },
		"call begins": func() {
			if len(h.calls) < 5 {
				h.calls = append(h.calls, i.begins(name))
			}
		},
		"call ends": func() { h.endCall(draw(h, rapid.IntRange(0, 3), "end")) },
		"is remote": func() {
			srv.remote = !srv.remote
			i.configure()
		},
		"goes down": func() { note("cannot be reached"); srv.up = false },
		"comes up":  func() { note("can be reached"); srv.up = true },
		"hangs":     func() { note("will hang"); srv.hangs = true },
		"settles":   func() { h.settle(srv) },
		"is slow": func() {
			srv.takes = draw(h, rapid.SampledFrom([]time.Duration{0, 100 * ms, 20 * second, 3 * minute}), "takes")
		},
		"throws": func() { srv.throws = !srv.throws },
		"user disables": func() {
			if srv.state != "" {
				note("is disabled by the user")
				srv.state = "disabled"
				srv.reset(h.s.now)
			}
		},
		"user enables": func() {
			if i.started && !srv.inFlight {
				note("is connected by the user")
				srv.state = "failed"
				srv.connect(h.s.now)
				srv.reset(h.s.now)
			}
		},
		"needs a sign-in": func() { srv.needs = draw(h, rapid.SampledFrom([]string{"", "needs_auth", "pending"}), "needs") },
		"fails for a reason": func() {
			if srv.state == "failed" {
				srv.reason = draw(h, rapid.SampledFrom([]string{"", "spawn EAGAIN", "spawn x ENOENT", "HTTP 404", "token swordfish"}), "reason")
			}
		},
		"vanishes": func() {
			if !srv.inFlight && len(names) > 1 {
				note("vanishes")
				delete(i.servers, name)
			}
		},
		"is configured": func() {
			if i.servers["c"] == nil {
				h.s.note("%s: c is configured", i.dir)
				// The plugin may not have read that it was gone, and have given it up before.
				i.servers["c"] = &server{name: "c", up: true, resetAt: h.s.now, state: "failed", parked: true}
			}
		},
		"odd answers": func() {
			answers := []func() answer{
				nil,
				func() answer { return answer{fails: "throws"} },
				func() answer { return answer{fails: "rejects"} },
				func() answer { return answer{body: object{"error": "x", "response": object{"status": 401}}} },
				func() answer { return answer{} },
				func() answer {
					for _, srv := range i.servers {
						srv.seen = false // what is unknown, or not there, is none of its business any more
					}
					return answer{body: object{"data": object{"a": nil, "b": 3, "c": object{"status": 1}}}}
				},
				func() answer {
					i.reading[i.reads] = h.s.now
					return answer{fails: "never"}
				},
			}
			i.answer = answers[draw(h, rapid.IntRange(0, len(answers)-1), "answer")]
		},
		"slow answers": func() {
			i.readTime = draw(h, rapid.SampledFrom([]time.Duration{0, ms, second, 40 * second, 4 * minute}), "read time")
		},
		"is paused":  func() { h.control(true, nil, false) },
		"is resumed": func() { h.control(false, nil, false) },
		"retry": func() {
			servers := draw(h, rapid.SampledFrom([][]string{{}, {name}, {"nobody"}}), "servers")
			h.control(h.paused, servers, draw(h, rapid.Bool(), "force"))
		},
		"disk breaks or is mended": func() {
			if s := h.s.files; s.broken || !h.paused { // a pause that cannot be read is none
				s.broken = !s.broken
			}
		},
		"second copy": func() {
			if h.s.vm != nil { // who replaces an engine of the library closes it
				h.s.note("%s: a second copy is loaded", i.dir)
				i.reload()
			}
		},
		"disposal":         func() { h.dispose(i); h.recreate(i) },
		"clock jumps back": func() { h.s.sleep(-time.Hour) },
		"sleep": func() {
			h.s.sleep(draw(h, rapid.SampledFrom([]time.Duration{10 * second, 10 * minute, 10 * time.Hour}), "sleep"))
			for _, i := range h.s.instances {
				for _, srv := range i.servers {
					srv.reset(h.s.now)
				}
			}
		},
	}
	kinds := make([]string, 0, len(actions))
	for kind := range actions {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds) // a history is repeated by its seed
	// Time and use come often, or little else would happen.
	kind := draw(h, rapid.OneOf(rapid.SampledFrom([]string{"time passes", "prompt", "crash"}), rapid.SampledFrom(kinds)), "what")
	actions[kind]()
	h.s.pass(0)
	h.checkStates()
}

// endCall ends the call that began first.
func (h *historian) endCall(how int) {
	if len(h.calls) == 0 {
		return
	}
	c := h.calls[0]
	h.calls = h.calls[1:]
	server := c.i.servers[c.name]
	if c.i.disposed || server == nil {
		return
	}
	switch {
	case how == 0 && server.state == "connected" && server.dead:
		server.proven = "dead"
		c.fails(notConnected)
	case how == 1:
		if server.proven == "" && server.state == "connected" {
			server.proven = "outdated"
		}
		c.fails(noSuchTool)
	case how == 2:
		c.fails("file not found")
	case !server.dead && server.state == "connected":
		c.completes()
	}
}

// control tells every instance something, as pause, resume and retry do.
func (h *historian) control(paused bool, retry []string, force bool) {
	h.paused = paused && !h.s.files.broken
	if h.s.files.broken {
		return
	}
	if retry != nil {
		if !h.retriedAt.IsZero() && h.s.now.Sub(h.retriedAt) < 2*second && (len(h.retry) == 0 || len(retry) == 0) {
			retry = nil // as the command does, lest the one before is missed
		} else if !h.retriedAt.IsZero() && h.s.now.Sub(h.retriedAt) < 2*second {
			retry = append(slices.Clone(retry), h.retry...)
		}
		h.retriedAt = h.s.now
		h.retried = max(h.s.now.Add(h.s.wall).UnixMilli(), h.retried+1)
		h.retry = retry
		h.use = nil
		for _, i := range h.s.instances {
			if draw(h, rapid.IntRange(0, 3), "is named") == 0 {
				h.use = append(h.use, i.dir)
			}
		}
		if h.force = nil; force {
			h.force = retry
		}
		for _, i := range h.s.instances {
			for name, server := range i.servers {
				if len(retry) == 0 || slices.Contains(retry, name) {
					server.reset(h.s.now)
					server.parked = false // it may be given up, and announced, once more
				}
				if force && slices.Contains(retry, name) {
					server.forced = true
				}
			}
		}
	}
	text, err := json.Marshal(object{"paused": paused, "retry": object{"at": h.retried, "use": append([]string{}, h.use...), "servers": append([]string{}, h.retry...), "force": append([]string{}, h.force...)}})
	if err != nil {
		h.Fatal(err)
	}
	h.s.files.write("control.json", string(text))
	h.s.pausedAt = time.Time{}
	if h.paused && !h.s.files.deaf {
		h.s.pausedAt = h.s.now
	}
}

// checkStates looks at what is told of the instances: no more files than there are of
// them, small ones, and of none that is disposed.
func (h *historian) checkStates() {
	states := h.s.files.states()
	if len(states) > len(h.s.instances) {
		h.s.violated("rule 18: %d state files of %d instances", len(states), len(h.s.instances))
	}
	for name, content := range states {
		if len(content) > 2000 || strings.Contains(content, "swordfish") {
			h.s.violated("rule 18: %s is %s", name, content)
		}
	}
	for _, i := range h.s.instances {
		i.saved() // that it is JSON
	}
}

// settle ends a connect that hangs, and the habit.
func (h *historian) settle(server *server) {
	server.hangs = false
	if server.release != nil {
		release := server.release
		server.release = nil
		h.s.after(0, release)
	}
}

func (h *historian) dispose(i *instance) {
	if draw(h, rapid.Bool(), "by its hook") {
		i.dispose()
	} else {
		h.s.pass(1001 * ms) // the event is not for a newborn copy
		i.event("server.instance.disposed", object{"directory": i.dir})
	}
	i.disposed = true
	h.s.pass(0)
}

// recreate replaces a disposed instance by a new one of the same directory.
func (h *historian) recreate(i *instance) {
	h.s.instances = slices.DeleteFunc(h.s.instances, func(other *instance) bool { return other == i })
	next := h.s.load(i.dir, i.names()...)
	for name, server := range next.servers {
		server.up = i.servers[name].up
	}
}

// recover makes everything reachable, and shows that it is reached: what the plugin
// has seen and not given up, within the longest delay and the connects; the rest
// after a prompt, at most a minute later.
func (h *historian) recover() {
	s := h.s
	s.note("from here on, everything can be reached")
	s.files.broken = false
	h.control(false, nil, false)
	for _, i := range s.instances {
		i.answer, i.readTime = nil, ms
		for _, name := range i.names() { // in an order that is the same each time
			server := i.servers[name]
			server.up, server.needs, server.throws, server.takes, server.reason = true, "", false, 100*ms, "gone"
			h.settle(server)
		}
	}
	s.pass(0)
	for waited := time.Duration(0); h.underway() && waited < 10*minute; waited += 10 * ms {
		s.pass(10 * ms)
	}
	longest := max(time.Duration((1+s.policy.Jitter)*float64(s.policy.MaxDelay)), s.policy.PollInterval)
	longest += 2*s.policy.FirstDelay + 12*(110*ms) // twelve servers, perhaps one by one
	var due []*server
	for _, i := range s.instances {
		for _, server := range i.servers {
			if server.state == "failed" && server.seen && !server.parked && !i.idle(longest) {
				due = append(due, server)
			}
		}
	}
	s.note("%d servers are due within %v", len(due), longest)
	s.pass(longest)
	for _, server := range due {
		if server.state == "failed" && !server.parked { // its tries may have been used up before a pause
			s.violated("%s is not connected within the longest delay", server.name)
		}
	}

	use := func() {
		for _, i := range s.instances {
			i.event("mcp.tools.changed", object{})
			i.prompt()
		}
	}
	use()
	s.pass(61 * second)
	use()
	s.pass(s.policy.PollInterval + 2*s.policy.MaxDelay + s.policy.FirstDelay*2 + 10*second)
	for _, i := range s.instances {
		for name, server := range i.servers {
			if server.state == "failed" {
				s.violated("%s in %s is not connected, though it can be reached", name, i.dir)
			}
		}
	}
}

// underway reports whether a read or a connect is, which began before and may be slow.
func (h *historian) underway() bool {
	for _, i := range h.s.instances {
		for _, server := range i.servers {
			if server.inFlight {
				return true
			}
		}
		for _, start := range i.reading {
			if h.s.now.Sub(start) < 3*minute {
				return true
			}
		}
	}
	return false
}

// end disposes of everything, and looks for what is left (rules 6 and 7).
func (h *historian) end() {
	for _, i := range h.s.instances {
		h.dispose(i)
	}
	if n := h.s.pluginTimers(); n != 0 {
		h.s.violated("rule 7: %d timers are left", n)
	}
	if left := h.s.files.states(); len(left) != 0 && !h.s.files.broken {
		h.s.violated("rule 18: %v are left", left)
	}
	if left := h.s.engine.left(); left != "" {
		h.s.violated("rule 6: left is %s", left)
	}
	h.s.pass(24 * time.Hour)
}
