package plugin_test

import (
	"maps"
	"slices"
	"time"

	"github.com/dop251/goja"
)

// A location is a project directory of an OpenCode 2 process, as far as its source
// tells: plugins are set up once for each, statuses are read without starting
// anything, and a server starts anew when a reload finds its configuration changed.
// Like the model of OpenCode 1 it checks at every step what must always hold.
type location struct {
	sim        *simulation
	dir        string
	servers    map[string]*server2
	copies     []*copy2 // of the plugin, which are loaded now
	gone       bool
	reads      int
	readAt     time.Time     // when the last read that takes long began
	reloads    int           // that plugins asked for
	listTakes  time.Duration // how long a read of the status takes
	debounce   time.Duration // from the last request for a reload to its start
	slowest    time.Duration // the time between the two, at most
	requested  time.Time     // when that was
	requests   []*request    // what waits for the next reload
	dirty      bool
	reloading  bool   // it runs, and holds up others
	misbehaves string // what happens to the plugin's next calls: see call
}

// A server2 is one MCP server of a location. "disabled" is what the configuration, or
// the user, made of it, unless applied says that a transform did.
type server2 struct {
	*server
	configured bool      // disabled in the user's own configuration
	applied    bool      // the last reload found it disabled by a transform
	byUser     bool      // the user switched it off since
	asked      time.Time // when the reload was asked for that restarts it
}

// A request is a plugin's call of reload.
type request struct {
	copy    *copy2
	at      time.Time
	settle  func()
	hangs   bool // it never settles
	settled bool
}

// A copy2 is one call of setup, with what it registered.
type copy2 struct {
	location   *location
	inSetup    bool
	unloaded   bool
	unfinished int // requests of it that had not settled when it was unloaded
	transforms []goja.Callable
	streams    []*stream
	cleanup    goja.Callable
}

// A stream is a subscription to events.
type stream struct {
	queue   []goja.Value
	waiting func(any) error
	reject  func(any) error
	ended   bool
}

// open opens a location whose servers connect, and sets the plugin up for it.
func (s *simulation) open(dir string, names ...string) *location {
	s.t.Helper()
	l := &location{sim: s, dir: dir, servers: map[string]*server2{}, listTakes: time.Millisecond, debounce: 500 * time.Millisecond}
	for _, name := range names {
		l.servers[name] = &server2{server: &server{name: name, up: true, takes: 100 * time.Millisecond, state: "pending", resetAt: s.now}}
	}
	s.locations = append(s.locations, l)
	l.setup(s.load2())
	for _, name := range l.names() {
		l.start(l.servers[name], func() {})
	}
	return l
}

// names are those of the servers, in the order in which OpenCode lists them.
func (l *location) names() []string { return slices.Sorted(maps.Keys(l.servers)) }

// setup calls a module's setup, as OpenCode does after it has checked its form.
func (l *location) setup(module goja.Value) *copy2 {
	s := l.sim
	s.t.Helper()
	plugin := module.ToObject(s.vm)
	setup, ok := goja.AssertFunction(plugin.Get("setup"))
	if plugin.Get("id").String() != "mcp-reconnect" || !ok || !s.run("Object").ToObject(s.vm).Get("prototype").SameAs(plugin.Prototype()) {
		s.t.Fatal("the default export is not a plain object {id, setup}")
	}
	for _, server := range l.servers {
		server.reset(s.now) // a copy counts for itself
	}
	c := &copy2{location: l, inSetup: true}
	l.copies = append(l.copies, c)
	promise := s.call(setup, l.context(c))
	if promise.State() != goja.PromiseStateFulfilled {
		s.t.Fatalf("setup did not end: %v", promise.Result())
	}
	c.inSetup = false
	if c.cleanup, ok = goja.AssertFunction(promise.Result()); !ok {
		s.t.Fatal("setup returned no cleanup")
	}
	return c
}

// context is what OpenCode passes to setup. Nothing else may be touched (rule 4).
func (l *location) context(c *copy2) goja.Value {
	s, vm := l.sim, l.sim.vm
	guard := func(path string, values map[string]goja.Value) goja.Value {
		return vm.NewDynamicObject(guarded{s, path, values})
	}
	later := func(d time.Duration, value func() any) goja.Value {
		promise, resolve, _ := vm.NewPromise()
		s.after(d, func() { resolve(value()) })
		return vm.ToValue(promise)
	}
	odd := func(what string) goja.Value {
		promise, _, reject := vm.NewPromise()
		switch what {
		case "throws":
			panic(vm.ToValue("thrown"))
		case "rejects":
			reject("no")
		}
		return vm.ToValue(promise)
	}
	mcp := guard("ctx.mcp", map[string]goja.Value{
		"list": vm.ToValue(func(goja.FunctionCall) goja.Value {
			l.reads++
			s.note("%s: list", l.dir)
			if c.inSetup || c.unloaded {
				s.violated("rule 7: the status is read in setup, or after the cleanup")
			}
			if l.misbehaves == "throws" || l.misbehaves == "rejects" {
				return odd(l.misbehaves)
			}
			if l.misbehaves == "nonsense" {
				return vm.ToValue(object{"data": object{}})
			}
			if l.listTakes > time.Second {
				l.readAt = s.now
			}
			return later(l.listTakes, func() any {
				var data []any
				for _, name := range l.names() {
					server := l.servers[name]
					status := object{"status": server.state}
					if server.state == "failed" {
						server.seen = true
						status["error"] = server.reason
					}
					data = append(data, object{"name": name, "status": status})
				}
				return object{"location": object{"directory": l.dir}, "data": append([]any{}, data...)}
			})
		}),
		"transform": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			f, _ := goja.AssertFunction(call.Argument(0))
			c.transforms = append(c.transforms, f)
			s.after(0, l.rebuildNow)
			promise, resolve, _ := vm.NewPromise()
			resolve(object{"dispose": func() {}})
			return vm.ToValue(promise)
		}),
		"reload": vm.ToValue(func(goja.FunctionCall) goja.Value {
			l.reloads++
			s.note("%s: reload", l.dir)
			if c.inSetup {
				s.violated("a reload inside setup")
			}
			if c.unloaded {
				if c.unfinished--; c.unfinished < 0 {
					s.violated("rule 7: a reload after the cleanup, which undoes nothing")
				}
			}
			if l.misbehaves == "throws" || l.misbehaves == "rejects" {
				return odd(l.misbehaves)
			}
			return l.reload(c)
		}),
	})
	subscribe := func(goja.FunctionCall) goja.Value {
		if l.misbehaves == "throws" {
			return odd("throws")
		}
		t := &stream{}
		c.streams = append(c.streams, t)
		iterator := vm.NewObject()
		iterator.Set("next", func() *goja.Promise {
			promise, resolve, reject := vm.NewPromise()
			switch {
			case t.ended:
				resolve(object{"done": true})
			case len(t.queue) > 0:
				resolve(object{"done": false, "value": t.queue[0]})
				t.queue = t.queue[1:]
			default:
				t.waiting, t.reject = resolve, reject
			}
			return promise
		})
		iterator.Set("return", func() *goja.Promise {
			t.end()
			promise, resolve, _ := vm.NewPromise()
			resolve(object{"done": true})
			return promise
		})
		iterable, _ := goja.AssertFunction(s.run("(iterator) => ({ [Symbol.asyncIterator]: () => iterator })"))
		events, err := iterable(goja.Undefined(), iterator)
		if err != nil {
			s.t.Fatal(err)
		}
		return events
	}
	return guard("ctx", map[string]goja.Value{
		"location": vm.ToValue(object{"directory": l.dir}),
		"mcp":      mcp,
		"event":    guard("ctx.event", map[string]goja.Value{"subscribe": vm.ToValue(subscribe)}),
	})
}

func (t *stream) end() {
	if t.ended = true; t.waiting != nil {
		t.waiting(object{"done": true})
	}
	t.waiting, t.queue = nil, nil
}

// fail breaks the stream, as an event does that cannot be encoded.
func (t *stream) fail() {
	if t.ended = true; t.waiting != nil {
		t.reject("cannot be encoded")
	}
	t.waiting, t.queue = nil, nil
}

// event tells every plugin of every location, as OpenCode does.
func (l *location) event(kind string, data object) {
	l.sim.note("%s: event %s %v", l.dir, kind, data)
	l.sim.publish(object{"type": kind, "data": data, "location": object{"directory": l.dir}})
}

func (s *simulation) publish(event any) {
	value := s.vm.ToValue(event)
	for _, l := range s.locations {
		for _, c := range l.copies {
			for _, t := range c.streams {
				switch {
				case t.ended:
				case t.waiting != nil:
					resolve := t.waiting
					t.waiting = nil
					resolve(object{"done": false, "value": value})
				default:
					t.queue = append(t.queue, value)
				}
			}
		}
	}
	s.jobs()
}

func (l *location) prompt() { l.event("session.execution.started", object{"sessionID": "x"}) }

// become changes a server's status, and says so.
func (l *location) become(server *server2, state, reason string) {
	if server.state != "failed" {
		server.seen = false
	}
	server.state, server.reason = state, reason
	if state == "connected" {
		server.upSince = l.sim.now
	}
	l.event("mcp.status.changed", object{"server": server.name})
}

// start starts a server, which ends within the host's 30 s, and then calls done.
func (l *location) start(server *server2, done func()) {
	l.become(server, "pending", "")
	server.inFlight = true
	finish := func() {
		if !server.inFlight { // another start of it ended first
			done()
			return
		}
		server.inFlight = false
		if l.gone || server.state != "pending" {
			done()
			return
		}
		switch {
		case server.needs != "" && server.needs != "pending":
			l.become(server, server.needs, "")
		case server.up && !server.hangs:
			l.become(server, "connected", "")
		default:
			l.become(server, "failed", "cannot be reached")
		}
		done()
	}
	takes := min(server.takes, 30*time.Second)
	if server.hangs {
		takes = 30 * time.Second
	}
	l.sim.after(takes, finish)
}

// crash ends a connection.
func (l *location) crash(name string) { l.become(l.servers[name], "failed", "Connection closed") }

// reload is ctx.mcp.reload: calls that come shortly after each other are one, and
// reloads run one after the other.
func (l *location) reload(c *copy2) goja.Value {
	s := l.sim
	promise, resolve, _ := s.vm.NewPromise()
	r := &request{copy: c, at: s.now, hangs: l.misbehaves == "hangs"}
	r.settle = func() {
		if !r.hangs {
			r.settled = true
			resolve(goja.Undefined())
		}
	}
	for _, other := range s.pending2(l) {
		if other.copy != c && (other.copy.unloaded || c.unloaded) {
			continue // a copy that is unloaded hands nothing over; OpenCode serializes
		}
		if !other.hangs || s.now.Sub(other.at) < time.Minute { // given up then
			s.violated("a reload while another one of ours runs")
		}
	}
	s.requests = append(s.requests, r)
	l.requests = append(l.requests, r)
	l.requested = s.now
	l.dirty = true
	s.after(l.debounce, l.reconcile)
	return s.vm.ToValue(promise)
}

// pending2 are the requests for a location that have not settled.
func (s *simulation) pending2(l *location) []*request {
	s.requests = slices.DeleteFunc(s.requests, func(r *request) bool { return r.settled || r.hangs && s.now.Sub(r.at) > 2*time.Minute })
	var pending []*request
	for _, r := range s.requests {
		if r.copy.location == l {
			pending = append(pending, r)
		}
	}
	return pending
}

// reconcile rebuilds the configuration and brings the servers in line with it.
func (l *location) reconcile() {
	s := l.sim
	if l.gone || l.reloading || !l.dirty {
		return
	}
	if due := l.requested.Add(l.debounce); s.now.Before(due) {
		s.after(due.Sub(s.now), l.reconcile)
		return
	}
	l.reloading = true
	asked := s.now
	for _, r := range l.requests {
		l.slowest = max(l.slowest, s.now.Sub(r.at))
		asked = r.at
	}
	requests := l.requests
	l.requests = nil
	l.dirty = false
	off := l.rebuild()
	var changed []*server2
	for _, name := range l.names() {
		if server := l.servers[name]; server.applied != off[name] {
			server.applied = off[name]
			changed = append(changed, server)
		}
	}
	var next func()
	next = func() {
		if len(changed) == 0 || l.gone {
			l.reloading = false
			for _, r := range requests {
				r.settle()
			}
			s.jobs()
			if l.dirty {
				l.reconcile() // what was asked for meanwhile
			}
			return
		}
		server := changed[0]
		changed = changed[1:]
		switch {
		case server.applied:
			server.asked = asked
			l.switchOff(server)
			next()
		case server.configured:
			l.become(server, "disabled", "")
			next()
		default:
			l.restart(server, next)
		}
	}
	if len(requests) > 0 || len(changed) > 0 {
		next()
	} else {
		l.reloading = false
	}
}

// rebuild runs the transforms, and returns the servers that they disable.
func (l *location) rebuild() map[string]bool {
	s := l.sim
	off := map[string]bool{}
	draft := s.vm.NewObject()
	draft.Set("update", func(name string, update goja.Callable) {
		server := l.servers[name]
		if server == nil {
			panic(s.vm.ToValue("there is no server " + name))
		}
		config := s.vm.NewObject()
		config.Set("disabled", server.configured)
		if _, err := update(goja.Undefined(), config); err != nil {
			panic(err)
		}
		if len(config.Keys()) != 1 {
			s.violated("rule 4: the transform changes more than disabled: %v", config.Keys())
		}
		off[name] = config.Get("disabled").ToBoolean() && !server.configured
	})
	for _, c := range l.copies {
		for _, transform := range c.transforms {
			if _, err := transform(goja.Undefined(), draft); err != nil {
				s.violated("a transform throws: %v", err)
			}
		}
	}
	return off
}

// switchOff is what happens to a server that a transform of ours disabled (rules 1 and 3).
func (l *location) switchOff(server *server2) {
	s := l.sim
	if server.state != "failed" && !l.deaf() {
		s.violated("rules 1 and 3: %s is restarted, which is %s", server.name, server.state)
	}
	if !s.pausedAt.IsZero() && s.now.Sub(s.pausedAt) > time.Second+l.slowest {
		s.violated("rule 19: %s is restarted, %v after the pause", server.name, s.now.Sub(s.pausedAt))
	}
	server.byUser = false
	l.become(server, "disabled", "")
}

// deaf reports whether a copy of the plugin hears of no events.
func (l *location) deaf() bool {
	return slices.ContainsFunc(l.copies, func(c *copy2) bool {
		return !slices.ContainsFunc(c.streams, func(t *stream) bool { return !t.ended })
	})
}

// restart is the other half: the server starts, which is a try.
func (l *location) restart(server *server2, done func()) {
	s := l.sim
	if server.byUser {
		s.violated("rule 12: %s was switched off by the user, and is started", server.name)
	}
	server.tried = append(server.tried, s.since())
	server.budget++
	if most := s.policy.MaxAttempts + 2 + int(s.now.Sub(server.resetAt)/min(time.Minute, s.policy.ProbeInterval*4/5)); server.budget > most {
		s.violated("rule 12: %d tries of %s in %v", server.budget, server.name, s.now.Sub(server.resetAt))
	}
	l.start(server, done)
	s.checkBudget2()
}

// checkBudget2 counts the restarts in flight, but for those that outlived connect-timeout.
func (s *simulation) checkBudget2() {
	n := 0
	for _, l := range s.locations {
		for _, server := range l.servers {
			if server.inFlight && s.now.Sub(server.asked) < s.policy.ConnectTimeout {
				n++
			}
		}
	}
	if s.most = max(s.most, n); n > s.policy.Concurrency {
		s.violated("rule 5: %d connects in flight", n)
	}
}

// unload ends a copy of the plugin: its cleanup runs, and what it registered goes.
func (l *location) unload(c *copy2) {
	s := l.sim
	s.note("%s: a copy is unloaded", l.dir)
	for _, r := range s.pending2(l) {
		if r.copy == c {
			c.unfinished++
		}
	}
	c.unloaded = true
	for _, server := range l.servers {
		server.asked = time.Time{} // what a copy began does not count after its end
	}
	if _, err := c.cleanup(goja.Undefined()); err != nil {
		s.violated("rule 8: the cleanup throws: %v", err)
	}
	for _, t := range c.streams {
		if !t.ended {
			s.violated("the cleanup leaves a subscription")
		}
	}
	for _, transform := range c.transforms {
		draft := s.vm.NewDynamicObject(guarded{s, "a draft after the cleanup: draft", nil})
		if _, err := transform(goja.Undefined(), draft); err != nil {
			s.violated("a transform throws: %v", err)
		}
	}
	l.copies = slices.DeleteFunc(l.copies, func(other *copy2) bool { return other == c })
	s.jobs()
	l.rebuildNow()
}

// rebuildNow is what OpenCode does where a transform came or went.
func (l *location) rebuildNow() {
	l.requested = l.sim.now.Add(-l.debounce)
	l.dirty = true
	l.reconcile()
}

// close ends a location with all its plugins.
func (l *location) close() {
	for len(l.copies) > 0 {
		l.unload(l.copies[0])
	}
	l.gone = true
	l.sim.locations = slices.DeleteFunc(l.sim.locations, func(other *location) bool { return other == l })
}
