package plugin

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"
)

// A simulation is a model of one OpenCode 1 process that runs the rendered
// plugin in virtual time. The model checks the rules that hold at every step
// itself: which calls are made, on what, how many at once.
type simulation struct {
	t         *testing.T
	policy    Policy
	vm        *goja.Runtime
	now       time.Time
	timers    timerQueue
	nextTimer int64
	factory   goja.Callable
	instances []*instance
	connects  int // in flight
	most      int // most that ever were
	history   []string
}

// An instance is one project directory of the process, with its MCP servers.
type instance struct {
	sim      *simulation
	dir      string
	servers  map[string]*server
	started  bool // its servers were started, as the first read of status does
	hooks    *goja.Object
	disposed bool
	reads    int      // calls of mcp.status
	calls    int      // of any client function
	log      []string // what app.log got
	answer   func() goja.Value
	readTime time.Duration
	reading  int
}

// A server is one MCP server as OpenCode sees it, and as it really is.
type server struct {
	name     string
	state    string
	reason   string        // of failed
	up       bool          // a connect would succeed
	needs    string        // the status that a connect gives instead, e.g. needs_auth
	takes    time.Duration // how long a connect takes
	hangs    bool          // a connect never settles
	throws   bool          // a connect throws
	inFlight bool
	tried    []time.Duration // when, since the start
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func simulate(t *testing.T, change func(*Policy)) *simulation {
	t.Helper()
	s := &simulation{t: t, policy: DefaultPolicy(), vm: goja.New(), now: epoch}
	s.policy.Jitter = 0 // exact times, but where a test wants the jitter
	if change != nil {
		change(&s.policy)
	}
	js, err := Render(s.policy)
	if err != nil {
		t.Fatal(err)
	}
	result := api.Transform(string(js), api.TransformOptions{Format: api.FormatCommonJS})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors[0].Text)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	s.vm.SetTimeSource(func() time.Time { return s.now })
	s.vm.SetRandSource(rnd.Float64)
	s.vm.Set("setTimeout", s.setTimeout)
	s.vm.Set("clearTimeout", func(timer goja.Value) {
		if id, ok := timer.Export().(int64); ok {
			s.timers.remove(id)
		}
	})
	s.run(`var module = {exports: {}}; var process = {env: {}, argv: ["bun", "serve"], cwd: () => "/"}; var console = new Proxy({}, {get() { throw new Error("console") }})`)
	s.run(string(result.Code))
	factory, ok := goja.AssertFunction(s.run("module.exports.default"))
	if !ok {
		t.Fatal("the default export is no function")
	}
	s.factory = factory
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history:\n%s", strings.Join(s.history, "\n"))
		}
	})
	return s
}

func (s *simulation) run(js string) goja.Value {
	s.t.Helper()
	v, err := s.vm.RunString(js)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *simulation) since() time.Duration { return s.now.Sub(epoch) }

func (s *simulation) note(format string, args ...any) {
	if len(s.history) < 500 {
		s.history = append(s.history, fmt.Sprintf("%12v  ", s.since())+fmt.Sprintf(format, args...))
	}
}

func (s *simulation) violated(format string, args ...any) {
	s.t.Helper()
	s.note("VIOLATED: "+format, args...)
	s.t.Errorf(format, args...)
}

// load calls the plugin function for a directory, as OpenCode does.
func (s *simulation) load(dir string, names ...string) *instance {
	s.t.Helper()
	i := &instance{sim: s, dir: dir, servers: map[string]*server{}, readTime: time.Millisecond}
	for _, name := range names {
		i.servers[name] = &server{name: name, up: true, takes: 100 * time.Millisecond}
	}
	s.instances = append(s.instances, i)
	i.reload()
	return i
}

// reload loads the plugin into the instance once more.
func (i *instance) reload() {
	i.sim.t.Helper()
	before := i.calls
	promise := i.sim.call(i.sim.factory, i.input())
	if promise.State() != goja.PromiseStateFulfilled {
		i.sim.t.Fatalf("the plugin function did not return: %v", promise.Result())
	}
	i.hooks = promise.Result().ToObject(i.sim.vm)
	if i.calls != before {
		i.sim.violated("rule 2, A39: a client call while the plugin function runs")
	}
	for _, name := range i.hooks.Keys() {
		if _, ok := goja.AssertFunction(i.hooks.Get(name)); !ok {
			i.sim.violated("A44: the hook %s is no function", name)
		}
	}
}

func (s *simulation) call(f goja.Callable, args ...goja.Value) *goja.Promise {
	s.t.Helper()
	v, err := f(goja.Undefined(), args...)
	if err != nil {
		s.t.Fatalf("rule 8: thrown: %v", err)
	}
	promise, ok := v.Export().(*goja.Promise)
	if !ok {
		s.t.Fatalf("no promise: %v", v)
	}
	return promise
}

// hook calls one of the instance's hooks; it must settle at once, and not by an error.
func (i *instance) hook(name string, args ...any) {
	i.sim.t.Helper()
	i.sim.note("%s: hook %s %v", i.dir, name, args)
	f, ok := goja.AssertFunction(i.hooks.Get(name))
	if !ok {
		i.sim.t.Fatalf("no hook %s", name)
	}
	values := make([]goja.Value, len(args))
	for n, arg := range args {
		values[n] = i.sim.vm.ToValue(arg)
	}
	if p := i.sim.call(f, values...); p.State() != goja.PromiseStateFulfilled {
		i.sim.violated("rule 8: hook %s is pending or rejected: %v", name, p.Result())
	}
}

type object = map[string]any

func (i *instance) event(kind string, properties object) {
	i.sim.t.Helper()
	i.hook("event", object{"event": object{"type": kind, "properties": properties}})
}

func (i *instance) prompt() { i.sim.t.Helper(); i.hook("chat.message", object{}, object{}) }

// crash kills a connected server: OpenCode notices at once and says so.
func (i *instance) crash(name string) {
	i.sim.t.Helper()
	i.servers[name].state, i.servers[name].reason = "failed", "Connection closed"
	i.event("mcp.tools.changed", object{"server": name})
}

// input is what OpenCode passes to the plugin function.
func (i *instance) input() goja.Value {
	vm := i.sim.vm
	later := func(d time.Duration, settle func(resolve func(any) error)) goja.Value {
		promise, resolve, _ := vm.NewPromise()
		i.sim.after(d, func() { settle(resolve) })
		return vm.ToValue(promise)
	}
	options := func(call goja.FunctionCall) *goja.Object {
		i.calls++
		o := call.Argument(0).ToObject(vm)
		if query, ok := o.Get("query").Export().(object); !ok || query["directory"] != i.dir {
			i.sim.violated("rule 4: a call does not say its directory")
		}
		if i.disposed {
			i.sim.violated("rule 7: a call after disposal")
		}
		return o
	}
	mcp := vm.NewDynamicObject(guarded{i.sim, "client.mcp", map[string]goja.Value{
		"status": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			options(call)
			i.reads++
			i.sim.note("%s: status", i.dir)
			if i.reading++; i.reading > 1 {
				i.sim.violated("rule 16: status reads of one instance overlap")
			}
			if !i.started { // rule 2: the first read starts every server
				i.started = true
				for _, s := range i.servers {
					s.connect()
				}
			}
			if i.answer != nil {
				i.reading--
				return i.answer()
			}
			return later(i.readTime, func(resolve func(any) error) {
				i.reading--
				data := object{}
				for name, s := range i.servers {
					data[name] = object{"status": s.state, "error": s.reason}
				}
				resolve(object{"data": data})
			})
		}),
		"connect": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			name := options(call).Get("path").ToObject(vm).Get("name").String()
			return i.connect(name, later)
		}),
	}})
	app := vm.NewDynamicObject(guarded{i.sim, "client.app", map[string]goja.Value{
		"log": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			body := options(call).Get("body").Export().(object)
			i.log = append(i.log, fmt.Sprintf("%v: %v", body["level"], body["message"]))
			i.sim.note("%s: log %v", i.dir, body["message"])
			return later(0, func(resolve func(any) error) { resolve(object{"data": true}) })
		}),
	}})
	client := vm.NewDynamicObject(guarded{i.sim, "client", map[string]goja.Value{"mcp": mcp, "app": app}})
	input := vm.NewObject()
	input.Set("client", client)
	input.Set("directory", i.dir)
	input.Set("serverUrl", "http://localhost:4096/")
	return input
}

// connect is OpenCode's POST /mcp/NAME/connect, with the rules it must not break.
func (i *instance) connect(name string, later func(time.Duration, func(func(any) error)) goja.Value) goja.Value {
	s, sim := i.servers[name], i.sim
	sim.note("%s: connect %s", i.dir, name)
	if s == nil {
		sim.violated("rule 3: connect to %s, which is not configured", name)
		return goja.Undefined()
	}
	if s.state != "failed" {
		sim.violated("rules 1 and 3: connect to %s, which is %s", name, s.state)
	}
	if s.inFlight {
		sim.violated("rule 5: a second connect to %s while one is pending", name)
	}
	if n := len(s.tried); n > 0 && sim.since()-s.tried[n-1] < sim.policy.FirstDelay {
		sim.violated("rule 12: %s was tried %v after the last try", name, sim.since()-s.tried[n-1])
	}
	s.tried = append(s.tried, sim.since())
	if s.throws {
		panic(sim.vm.ToValue("thrown"))
	}
	s.inFlight = true
	sim.connects++
	sim.most = max(sim.most, sim.connects)
	if s.hangs {
		return sim.vm.ToValue(func() *goja.Promise { p, _, _ := sim.vm.NewPromise(); return p }())
	}
	return later(s.takes, func(resolve func(any) error) {
		s.inFlight = false
		sim.connects--
		if s.state == "failed" { // not switched off meanwhile
			s.connect()
		}
		resolve(object{"data": true}) // true for success and failure alike
	})
}

func (s *server) connect() {
	switch {
	case s.state == "disabled":
	case s.needs != "":
		s.state = s.needs
	case s.up:
		s.state, s.reason = "connected", ""
	default:
		s.state = "failed"
	}
}

// guarded is an object of OpenCode's client on which only the given names may be touched (rule 4).
type guarded struct {
	sim    *simulation
	path   string
	values map[string]goja.Value
}

func (g guarded) Get(key string) goja.Value {
	v, ok := g.values[key]
	if !ok {
		g.sim.violated("rule 4: the plugin touches %s.%s", g.path, key)
	}
	return v
}
func (g guarded) Set(string, goja.Value) bool { return false }
func (g guarded) Has(key string) bool         { return g.values[key] != nil }
func (g guarded) Delete(string) bool          { return false }
func (g guarded) Keys() []string              { return nil }

// -- The clock

type timer struct {
	id   int64
	due  time.Time
	run  func()
	ours bool // set by the plugin, not by the model
}

type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(a, b int) bool {
	if !q[a].due.Equal(q[b].due) {
		return q[a].due.Before(q[b].due)
	}
	return q[a].id < q[b].id
}
func (q timerQueue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *timerQueue) Push(x any)   { *q = append(*q, x.(*timer)) }
func (q *timerQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (q *timerQueue) remove(id int64) {
	if n := slices.IndexFunc(*q, func(t *timer) bool { return t.id == id }); n >= 0 {
		heap.Remove(q, n)
	}
}

func (s *simulation) add(d time.Duration, ours bool, run func()) int64 {
	s.nextTimer++
	heap.Push(&s.timers, &timer{s.nextTimer, s.now.Add(max(d, 0)), run, ours})
	return s.nextTimer
}

// after runs something of the model: with the vm's jobs, as a callback of the host would.
func (s *simulation) after(d time.Duration, run func()) {
	s.add(d, false, func() {
		run()
		s.run("0") // lets the promises' jobs run
	})
}

func (s *simulation) setTimeout(call goja.FunctionCall) goja.Value {
	f, ok := goja.AssertFunction(call.Argument(0))
	if !ok {
		s.t.Fatal("setTimeout without a function")
	}
	ms := call.Argument(1).ToFloat()
	id := s.add(time.Duration(ms*float64(time.Millisecond)), true, func() {
		if _, err := f(goja.Undefined()); err != nil {
			s.violated("rule 8: thrown in a timer: %v", err)
		}
	})
	return s.vm.ToValue(id)
}

// pass lets time go by.
func (s *simulation) pass(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); ; {
		if len(s.timers) == 0 || s.timers[0].due.After(end) {
			s.now = end
			return
		}
		t := heap.Pop(&s.timers).(*timer)
		if t.due.After(s.now) {
			s.now = t.due
		}
		t.run()
		if s.connects > s.policy.Concurrency {
			hung := 0
			for _, i := range s.instances {
				for _, server := range i.servers {
					if server.inFlight && s.since()-server.tried[len(server.tried)-1] >= s.policy.ConnectTimeout {
						hung++
					}
				}
			}
			if s.connects-hung > s.policy.Concurrency {
				s.violated("rule 5: %d connects in flight", s.connects-hung)
			}
		}
	}
}

// sleep lets the clock jump while nothing runs, as a sleeping machine does.
func (s *simulation) sleep(d time.Duration) {
	s.note("the machine sleeps %v", d)
	s.now = s.now.Add(d)
}

// pluginTimers counts the timers that the plugin has set.
func (s *simulation) pluginTimers() int {
	n := 0
	for _, t := range s.timers {
		if t.ours {
			n++
		}
	}
	return n
}
