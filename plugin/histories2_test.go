package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"pgregory.net/rapid"
)

// TestRandomHistories2 is TestRandomHistories for OpenCode 2: the model keeps watch at
// every step; in the end whatever can be reached must be connected, no server may be
// disabled but by the user, and nothing of the plugin may be left.
func TestRandomHistories2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newProcess(t, policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")])
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("history:\n%s", strings.Join(s.history, "\n"))
			}
		})
		h := &historian2{T: t, s: s}
		for n := range rapid.IntRange(1, 3).Draw(t, "directories") {
			names := []string{"a", "b", "c", "__proto__"}[:rapid.IntRange(1, 4).Draw(t, "servers")]
			l := s.open(fmt.Sprint("/", n), names...)
			for _, name := range names {
				l.servers[name].up = rapid.Bool().Draw(t, "up")
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
			if len(s.broken) > 0 {
				return // shrinking wants the first one
			}
		}
		h.recover()
		h.end()
	})
}

// A historian2 makes things happen in OpenCode 2.
type historian2 struct {
	*rapid.T
	s       *simulation
	paused  bool
	retried int64
}

func (h *historian2) step() {
	l := h.s.locations[rapid.IntRange(0, len(h.s.locations)-1).Draw(h.T, "directory")]
	names := l.names()
	name := rapid.SampledFrom(names).Draw(h.T, "server")
	server := l.servers[name]
	note := func(what string) { h.s.note("%s: %s %s", l.dir, name, what) }

	actions := map[string]func(){
		"time passes": func() { h.s.pass(rapid.SampledFrom(times[:8]).Draw(h.T, "time")) },
		"hours pass":  func() { h.s.pass(rapid.SampledFrom(times[8:]).Draw(h.T, "time")) },
		"prompt":      l.prompt,
		"busy":        func() { l.event("session.text.delta", object{"sessionID": "x"}) },
		"other event": func() { l.event("mcp.resources.changed", object{"server": name}) },
		"crash": func() {
			if server.state == "connected" {
				l.crash(name)
			}
		},
		"goes down": func() { note("cannot be reached"); server.up = false },
		"comes up":  func() { note("can be reached"); server.up = true },
		"hangs":     func() { note("will hang, or not"); server.hangs = !server.hangs },
		"is slow": func() {
			server.takes = rapid.SampledFrom([]time.Duration{0, 100 * ms, 20 * second, minute}).Draw(h.T, "takes")
		},
		"needs a sign-in": func() { server.needs = rapid.SampledFrom([]string{"", "needs_auth"}).Draw(h.T, "needs") },
		"user disables": func() {
			if !server.inFlight && !server.applied && server.state != "disabled" {
				note("is switched off by the user")
				server.byUser = true
				l.become(server, "disabled", "")
				server.reset(h.s.now)
			}
		},
		"user connects": func() {
			if !server.inFlight && !server.applied {
				note("is connected by the user")
				server.byUser = false
				server.asked = time.Time{} // this one is not ours
				l.start(server, func() {})
				server.reset(h.s.now)
			}
		},
		"calls misbehave": func() {
			l.misbehaves = rapid.SampledFrom([]string{"", "", "throws", "rejects", "nonsense", "hangs"}).Draw(h.T, "how")
			note("and others: calls " + l.misbehaves)
		},
		"slow answers": func() {
			l.listTakes = rapid.SampledFrom([]time.Duration{0, ms, second, 40 * second}).Draw(h.T, "read time")
		},
		"slow reloads": func() {
			l.debounce = rapid.SampledFrom([]time.Duration{0, ms, 500 * ms, 5 * second}).Draw(h.T, "debounce")
		},
		"somebody else's reload": func() { l.requested, l.dirty = h.s.now, true; h.s.after(l.debounce, l.reconcile) },
		"events break": func() {
			for _, c := range l.copies {
				for _, t := range c.streams {
					if !t.ended {
						note("and others: events end")
						t.fail()
					}
				}
			}
			h.s.jobs()
		},
		"hot reload, the old copy first": func() { l.unload(l.copies[0]); l.setup(h.s.load2()) },
		"hot reload, the new copy first": func() { old := l.copies[0]; l.setup(h.s.load2()); l.unload(old) },
		"second copy":                    func() { l.setup(h.s.load2()) },
		"second copy goes": func() {
			if len(l.copies) > 1 {
				l.unload(l.copies[rapid.IntRange(0, len(l.copies)-2).Draw(h.T, "copy")])
			}
		},
		"is closed and opened": func() {
			l.close()
			next := h.s.open(l.dir, names...)
			for n, server := range next.servers {
				server.up = l.servers[n].up
			}
		},
		"is paused":  func() { h.control(true, false) },
		"is resumed": func() { h.control(false, false) },
		"retry":      func() { h.control(h.paused, true) },
		"sleep": func() {
			h.s.sleep(rapid.SampledFrom([]time.Duration{10 * second, 10 * minute}).Draw(h.T, "sleep"))
			for _, l := range h.s.locations {
				for _, server := range l.servers {
					server.reset(h.s.now)
				}
			}
		},
	}
	kinds := make([]string, 0, len(actions))
	for kind := range actions {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds) // a history is repeated by its seed
	kind := rapid.OneOf(rapid.SampledFrom([]string{"time passes", "prompt", "crash"}), rapid.SampledFrom(kinds)).Draw(h.T, "what")
	actions[kind]()
	h.s.pass(0)
}

// control tells every location something, as pause, resume and retry do.
func (h *historian2) control(paused, retry bool) {
	h.paused = paused
	if retry {
		h.retried = max(h.s.now.Add(h.s.wall).UnixMilli(), h.retried+1)
		for _, l := range h.s.locations {
			for _, server := range l.servers {
				server.reset(h.s.now)
			}
		}
	}
	h.s.files.write("control.json", fmt.Sprintf(`{"paused":%v,"retry":{"at":%d,"servers":[]}}`, paused, h.retried))
	h.s.pausedAt = time.Time{}
	if paused {
		h.s.pausedAt = h.s.now
	}
}

// recover makes everything reachable, and shows that it is reached: at the latest a
// minute after a prompt.
func (h *historian2) recover() {
	s := h.s
	s.note("from here on, everything can be reached")
	h.control(false, false)
	for _, l := range s.locations {
		l.misbehaves, l.listTakes, l.debounce = "", ms, ms
		for _, server := range l.servers {
			server.up, server.hangs, server.needs, server.takes = true, false, "", 100*ms
		}
	}
	s.pass(0)
	for waited := time.Duration(0); h.underway() && waited < 3*minute; waited += second {
		s.pass(second)
	}
	for _, l := range s.locations {
		if l.deaf() { // until it subscribes to events again
			s.pass(s.policy.PollInterval)
			break
		}
	}
	use := func() {
		for _, l := range s.locations {
			l.event("mcp.resources.changed", object{})
			l.prompt()
		}
	}
	use()
	s.pass(61 * second)
	use()
	s.pass(min(s.policy.PollInterval, minute) + 2*s.policy.MaxDelay + s.policy.FirstDelay*2 + 10*second)
	for _, l := range s.locations {
		for name, server := range l.servers {
			if server.state == "failed" || server.state == "pending" {
				s.violated("%s in %s is %s, though it can be reached", name, l.dir, server.state)
			}
			if server.applied || server.state == "disabled" && !server.byUser {
				s.violated("%s in %s is disabled, and not by the user", name, l.dir)
			}
			if server.byUser && server.state != "disabled" {
				s.violated("%s in %s was switched off by the user, and is %s", name, l.dir, server.state)
			}
		}
	}
}

// underway reports whether a reload, a read or a start is, which began before and may be slow, or hang.
func (h *historian2) underway() bool {
	for _, l := range h.s.locations {
		if h.s.now.Sub(l.readAt) < 40*second || len(h.s.pending2(l)) > 0 {
			return true
		}
		for _, server := range l.servers {
			if server.inFlight {
				return true
			}
		}
	}
	return false
}

// end closes everything, and looks for what is left (rules 6, 7 and 18).
func (h *historian2) end() {
	locations := slices.Clone(h.s.locations)
	for _, l := range locations {
		l.close()
	}
	h.s.pass(minute) // for a reload that hangs, and what is asked for again
	if n := h.s.pluginTimers(); n != 0 {
		h.s.violated("rule 7: %d timers are left", n)
	}
	if left := h.s.files.states(); len(left) != 0 || len(h.s.files.watchers) != 0 {
		h.s.violated("rule 18: %v and %d watchers are left", left, len(h.s.files.watchers))
	}
	if left := h.s.run(`globalThis[Symbol.for("mcp-reconnect/2")]`); !goja.IsUndefined(left) {
		h.s.violated("rule 6: the registry is left")
	}
	reads, reloads := 0, 0
	for _, l := range locations {
		reads, reloads = reads+l.reads, reloads+l.reloads
	}
	h.s.pass(24 * time.Hour)
	for _, l := range locations {
		reads, reloads = reads-l.reads, reloads-l.reloads
	}
	if reads != 0 || reloads != 0 {
		h.s.violated("rule 7: %d reads and %d reloads after everything was closed", -reads, -reloads)
	}
}
