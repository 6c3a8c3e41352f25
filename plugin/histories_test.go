package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"pgregory.net/rapid"
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
// over rules 1 to 8, 12 and 16 at every call; in the end whatever can be reached must be
// connected, and a disposed process must be as if the plugin had never been there.
//
// CI runs ten thousand of them: go test ./plugin -run RandomHistories -rapid.checks 10000
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t, policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")])
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("history:\n%s", strings.Join(s.history, "\n"))
			}
		})
		h := &historian{T: t, s: s}
		for n := range rapid.IntRange(1, 3).Draw(t, "directories") {
			names := []string{"a", "b", "c", "__proto__"}[:rapid.IntRange(1, 4).Draw(t, "servers")]
			i := s.load(fmt.Sprint("/", n), names...)
			for _, name := range names {
				i.servers[name].up = rapid.Bool().Draw(t, "up")
			}
		}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			h.step()
			if len(s.broken) > 0 {
				return // shrinking wants the first one
			}
		}
		h.recover()
		h.end()
	})
}

// A historian makes things happen.
type historian struct {
	*rapid.T
	s         *simulation
	paused    bool
	retried   int64 // what was asked for last
	retry     []string
	retriedAt time.Time // when
}

var times = []time.Duration{0, ms, 50 * ms, 100 * ms, 101 * ms, 300 * ms, second, 5 * second, 31 * second, 2 * minute, 6 * minute, 31 * minute}

func (h *historian) step() {
	i := h.s.instances[rapid.IntRange(0, len(h.s.instances)-1).Draw(h.T, "directory")]
	names := i.names()
	name := rapid.SampledFrom(names).Draw(h.T, "server")
	srv := i.servers[name]
	note := func(what string) { h.s.note("%s: %s %s", i.dir, name, what) }

	actions := map[string]func(){
		"time passes": func() { h.s.pass(rapid.SampledFrom(times).Draw(h.T, "time")) },
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
		"goes down": func() { note("cannot be reached"); srv.up = false },
		"comes up":  func() { note("can be reached"); srv.up = true },
		"hangs":     func() { note("will hang"); srv.hangs = true },
		"settles":   func() { h.settle(srv) },
		"is slow": func() {
			srv.takes = rapid.SampledFrom([]time.Duration{0, 100 * ms, 20 * second, 3 * minute}).Draw(h.T, "takes")
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
		"needs a sign-in": func() { srv.needs = rapid.SampledFrom([]string{"", "needs_auth", "pending"}).Draw(h.T, "needs") },
		"fails for a reason": func() {
			if srv.state == "failed" {
				srv.reason = rapid.SampledFrom([]string{"", "spawn EAGAIN", "spawn x ENOENT", "HTTP 404", "token swordfish"}).Draw(h.T, "reason")
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
			answers := []func() goja.Value{
				nil,
				func() goja.Value { panic(h.s.vm.ToValue("thrown")) },
				func() goja.Value { p, _, reject := h.s.vm.NewPromise(); reject("no"); return h.s.vm.ToValue(p) },
				func() goja.Value { return h.s.vm.ToValue(object{"error": "x", "response": object{"status": 401}}) },
				func() goja.Value { return goja.Undefined() },
				func() goja.Value {
					for _, srv := range i.servers {
						srv.seen = false // what is unknown, or not there, is none of its business any more
					}
					return h.s.vm.ToValue(object{"data": object{"a": nil, "b": 3, "c": object{"status": 1}}})
				},
				func() goja.Value { // never settles
					i.reading[i.reads] = h.s.now
					p, _, _ := h.s.vm.NewPromise()
					return h.s.vm.ToValue(p)
				},
			}
			i.answer = answers[rapid.IntRange(0, len(answers)-1).Draw(h.T, "answer")]
		},
		"slow answers": func() {
			i.readTime = rapid.SampledFrom([]time.Duration{0, ms, second, 40 * second, 4 * minute}).Draw(h.T, "read time")
		},
		"is paused":  func() { h.control(true, nil) },
		"is resumed": func() { h.control(false, nil) },
		"retry": func() {
			servers := rapid.SampledFrom([][]string{{}, {name}, {"nobody"}}).Draw(h.T, "servers")
			h.control(h.paused, servers)
		},
		"disk breaks or is mended": func() {
			if s := h.s.files; s.broken || !h.paused { // a pause that cannot be read is none
				s.broken = !s.broken
			}
		},
		"second copy":      func() { h.s.note("%s: a second copy is loaded", i.dir); i.reload() },
		"disposal":         func() { h.dispose(i); h.recreate(i) },
		"clock jumps back": func() { h.s.sleep(-time.Hour) },
		"sleep": func() {
			h.s.sleep(rapid.SampledFrom([]time.Duration{10 * second, 10 * minute, 10 * time.Hour}).Draw(h.T, "sleep"))
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
	kind := rapid.OneOf(rapid.SampledFrom([]string{"time passes", "prompt", "crash"}), rapid.SampledFrom(kinds)).Draw(h.T, "what")
	actions[kind]()
	h.s.pass(0)
	h.checkStates()
}

// control tells every instance something, as pause, resume and retry do.
func (h *historian) control(paused bool, retry []string) {
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
		for _, i := range h.s.instances {
			for name, server := range i.servers {
				if len(retry) == 0 || slices.Contains(retry, name) {
					server.reset(h.s.now)
					server.parked = false // it may be given up, and announced, once more
				}
			}
		}
	}
	text, err := json.Marshal(object{"paused": paused, "retry": object{"at": h.retried, "servers": append([]string{}, h.retry...)}})
	if err != nil {
		h.Fatal(err)
	}
	h.s.files.write("control.json", string(text))
	h.s.pausedAt = time.Time{}
	if h.paused {
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
	if rapid.Bool().Draw(h.T, "by its hook") {
		i.hook("dispose")
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
	h.control(false, nil)
	for _, i := range s.instances {
		i.answer, i.readTime = nil, ms
		for _, server := range i.servers {
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
		if server.state == "failed" {
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
	if left := h.s.files.states(); len(left) != 0 && !h.s.files.broken || len(h.s.files.watchers) != 0 {
		h.s.violated("rule 18: %v and %d watchers are left", left, len(h.s.files.watchers))
	}
	if left := h.s.run(`globalThis[Symbol.for("mcp-reconnect/1")]`); !goja.IsUndefined(left) {
		h.s.violated("rule 6: the registry is left")
	}
	h.s.pass(24 * time.Hour)
}
