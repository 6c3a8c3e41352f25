package plugin_test

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"
	"pgregory.net/rapid"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A simulation is a model of one OpenCode 1 process with an engine that
// reconnects its servers, in virtual time; locations of OpenCode 2 are in
// simulation2_test.go. The model checks the rules that hold at every step itself:
// which calls are made, on what, how many at once.
type simulation struct {
	t         rapid.TB
	policy    Policy
	engine    engine
	vm        *goja.Runtime // of the rendered plugin; nil for package reconnect
	now       time.Time
	wall      time.Duration // what the clock on the wall is ahead
	timers    timerQueue
	nextTimer int64
	nextCall  int
	factory   goja.Callable
	instances []*instance
	askedAt   int64       // when a retry was asked for last
	locations []*location // of OpenCode 2
	requests  []*request  // for reloads there, which have not settled
	most      int         // most connects that ever were in flight
	history   []string
	broken    []string  // the rules that were violated
	files     *files    // of the data directory
	pausedAt  time.Time // when reconnecting was paused; zero if it is not
}

// An instance is one project directory of the process, with its MCP servers.
type instance struct {
	sim       *simulation
	dir       string
	servers   map[string]*server
	started   bool // its servers were started, as the first read of status does
	hooks     *goja.Object
	copy      int       // of the plugin, which is loaded now
	used      bool      // it showed a sign of use that the policy counts
	usedAt    time.Time // when it did last
	disposed  bool
	reads     int          // calls of mcp.status
	calls     int          // of any client function
	options   *goja.Object // of the last call
	toasts    []string
	serverURL string            // what OpenCode says of its listener
	log       []string          // what app.log got
	answer    func() answer     // what status gives instead of the truth
	readTime  time.Duration     // how long a read takes
	reading   map[int]time.Time // the reads under way, by number, with their start

	answeredAt time.Time     // when this copy got its first answer, or an error
	held       []*heldPrompt // prompts that wait
	heldFor    time.Duration // how long the last one did that waited at all
}

// An answer is what a call of mcp.status may come to besides the truth.
type answer struct {
	fails string // throws, rejects or never (settles): there is no body
	body  any    // what the call resolves to, nil for undefined
	takes time.Duration
}

// A server is one MCP server as OpenCode sees it, and as it really is.
type server struct {
	name   string
	state  string
	reason string        // of failed
	up     bool          // a connect would succeed
	needs  string        // the status that a connect gives instead, e.g. needs_auth
	takes  time.Duration // how long a connect takes
	hangs  bool          // a connect does not settle until release is called
	throws bool          // a connect throws

	inFlight bool
	seen     bool            // the plugin read that it failed
	parked   bool            // the plugin gave up once
	release  func()          // settles the connect that hangs
	tried    []time.Duration // when, since the start
	alive    time.Duration   // how long it was connected since the count was last reset
	remote   bool            // as it is configured
	dead     bool            // nobody answers, though it is called connected
	proven   string          // what a call proved of the connection since it was made: dead or outdated
	forced   bool            // somebody asked for its restart
	restart  time.Time       // when it was restarted for what calls said, without one that completed since
	upSince  time.Time       // when it was connected last
	budget   int             // tries since the count was last reset
	resetAt  time.Time       // when that was
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// simulate starts a process whose engine has the default policy with a change. It is
// the rendered plugin, or that of the scenario.
func simulate(t testing.TB, change func(*Policy)) *simulation {
	t.Helper()
	policy := DefaultPolicy()
	policy.Jitter = 0 // exact times, but where a test wants the jitter
	if change != nil {
		change(&policy)
	}
	start := newSimulation
	if t, ok := t.(*scenarioT); ok {
		start = engines[t.engine]
	}
	s := start(t, policy)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history:\n%s", strings.Join(s.history, "\n"))
		}
	})
	return s
}

// compiled keeps what was compiled for a policy: histories by the thousand run the same.
var compiled sync.Map

// compile compiles a file of a rendering.
func compile(t rapid.TB, file string, render func(Policy) ([]byte, error), policy Policy) *goja.Program {
	t.Helper()
	js, err := render(policy)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := compiled.Load(string(js)); ok {
		return p.(*goja.Program)
	}
	result := api.Transform(string(js), api.TransformOptions{
		Format: api.FormatCommonJS,
		Define: map[string]string{"import.meta.url": `"file://` + pluginDirectory + `/` + file + `"`},
	})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors[0].Text)
	}
	program, err := goja.Compile(file, "(() => {"+string(result.Code)+"})()", false) // a module's names are its own
	if err != nil {
		t.Fatal(err)
	}
	compiled.Store(string(js), program)
	return program
}

func newSimulation(t rapid.TB, policy Policy) *simulation {
	t.Helper()
	s := newProcess(t, policy)
	factory, ok := goja.AssertFunction(s.load1())
	if !ok {
		t.Fatal("the default export is no function")
	}
	s.factory = factory
	return s
}

// newProcess is a process that has loaded no plugin yet.
func newProcess(t rapid.TB, policy Policy) *simulation {
	t.Helper()
	s := &simulation{t: t, policy: policy, vm: goja.New(), now: epoch}
	s.engine = script{s}
	rnd := rand.New(rand.NewPCG(1, 2))
	s.vm.SetTimeSource(func() time.Time { return s.now.Add(s.wall) })
	s.vm.Set("performance", object{"now": func() float64 { return float64(s.since()) / float64(time.Millisecond) }})
	s.vm.SetRandSource(rnd.Float64)
	s.vm.Set("setTimeout", s.setTimeout)
	s.vm.Set("clearTimeout", func(timer goja.Value) {
		if id, ok := timer.Export().(int64); ok {
			s.timers.remove(id)
		}
	})
	s.run(`var module; var process = {env: {API_KEY: "swordfish", OTHER_TOKEN: "swordfish99", A_PASS: "short"}, argv: ["bun", "serve"], cwd: () => "/", pid: 4242, kill(pid) { if (pid !== 4242 && pid !== 4243) throw Object.assign(new Error("kill"), {code: pid === 4244 ? "EPERM" : "ESRCH"}) }}; var console = new Proxy({}, {get() { throw new Error("console") }})`)
	s.run(hostObjects)
	s.files = newFiles(s)
	s.vm.Set("require", s.files.require)
	return s
}

// load1 evaluates plugin.js, and load2 server.js, and returns what it exports by default.
func (s *simulation) load1() goja.Value { return s.evaluate("plugin.js", Render) }
func (s *simulation) load2() goja.Value { return s.evaluate("server.js", RenderServer) }

func (s *simulation) evaluate(file string, render func(Policy) ([]byte, error)) goja.Value {
	s.t.Helper()
	s.run("module = {exports: {}}")
	if _, err := s.vm.RunProgram(compile(s.t, file, render, s.policy)); err != nil {
		s.t.Fatal(err)
	}
	return s.run("module.exports.default")
}

// hostObjects are the parts of Bun's global objects that the plugin uses and goja lacks.
const hostObjects = `
	globalThis.fetch = () => { throw new Error("fetch is for the client") }
	globalThis.URL = class {
		constructor(text) {
			const parts = /^(https?:)\/\/(\[[^\]]*\]|[^:\/]+)(:\d+)?(\/.*)?$/.exec(text)
			if (!parts) throw new TypeError("Invalid URL")
			Object.assign(this, { protocol: parts[1], hostname: parts[2], port: parts[3] ?? "" })
		}
		get origin() { return this.protocol + "//" + this.hostname + this.port }
	}
	Symbol.asyncIterator ??= Symbol("asyncIterator")
	globalThis.Buffer = { from: (text) => ({ toString: (encoding) => encoding + " of " + text }) }
`

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
	if len(s.history) == 2000 {
		s.history = append(s.history[:0], "…")
	}
	s.history = append(s.history, fmt.Sprintf("%12v  ", s.since())+fmt.Sprintf(format, args...))
}

// violated fails the test for a broken rule, but not before the engine returns:
// it is called in the midst of its calls.
func (s *simulation) violated(format string, args ...any) {
	s.t.Helper()
	s.note("VIOLATED: "+format, args...)
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
	s.t.Errorf(format, args...)
}

// load starts an instance, for which OpenCode calls the plugin function.
func (s *simulation) load(dir string, names ...string) *instance {
	s.t.Helper()
	i := &instance{sim: s, dir: dir, servers: map[string]*server{}, readTime: time.Millisecond, serverURL: "http://localhost:4096/", used: s.policy.Start == "load"}
	for _, name := range names {
		i.servers[name] = &server{name: name, up: true, takes: 100 * time.Millisecond}
	}
	s.instances = append(s.instances, i)
	i.reload()
	return i
}

// reload starts the instance's engine, once more if it has one.
func (i *instance) reload() {
	i.sim.t.Helper()
	i.reading = map[int]time.Time{}
	i.answeredAt = time.Time{}
	i.copy++
	if i.usedAt = (time.Time{}); i.sim.policy.Start == "load" {
		i.usedAt = i.sim.now
	}
	for _, s := range i.servers {
		s.reset(i.sim.now) // a copy counts for itself
		s.seen, s.parked = false, false
	}
	before := i.calls
	i.sim.engine.load(i)
	i.configure()
	if i.calls != before {
		i.sim.violated("rule 2, A39: a client call while the plugin function runs")
	}
}

// configure has OpenCode tell its configuration, as it does before the first event.
func (i *instance) configure() {
	i.sim.t.Helper()
	remotes := map[string]bool{}
	for name, s := range i.servers {
		remotes[name] = s.remote
	}
	i.sim.engine.configure(i, remotes)
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

// A heldPrompt is one whose hook has not settled (rule 21).
type heldPrompt struct {
	promise *goja.Promise
	since   time.Time
	cold    bool // no status was read before
}

// checkHeld looks at the prompts that wait: none does for too long, or for what no
// prompt waits for.
func (s *simulation) checkHeld() {
	for _, i := range s.instances {
		i.held = slices.DeleteFunc(i.held, func(p *heldPrompt) bool {
			if p.promise.State() == goja.PromiseStateRejected {
				s.violated("rule 21: a prompt was rejected: %v", p.promise.Result())
			}
			if p.promise.State() != goja.PromiseStatePending {
				i.heldFor = s.now.Sub(p.since)
				return true
			}
			from, most := p.since, s.policy.HoldPrompt
			if p.cold && i.answeredAt.IsZero() {
				most = 30 * time.Second
			} else if p.cold && i.answeredAt.After(from) {
				from = i.answeredAt
			}
			if s.now.Sub(from) > most {
				s.violated("rule 21: a prompt waits for %v", s.now.Sub(p.since))
			}
			if i.disposed {
				s.violated("rule 21: a prompt waits for a disposed instance")
			}
			return false
		})
	}
}

// hook calls one of the instance's hooks; it must settle at once, and not by an error.
func (i *instance) hook(name string, args ...any) {
	i.sim.t.Helper()
	if p := i.call(name, args...); p.State() != goja.PromiseStateFulfilled {
		i.sim.violated("rule 8: hook %s is pending or rejected: %v", name, p.Result())
	}
}

func (i *instance) call(name string, args ...any) *goja.Promise {
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
	return i.sim.call(f, values...)
}

type object = map[string]any

// asked deals with what the control file says now: somebody may name a directory, which is
// a sign of use (rule 2).
func (s *simulation) asked(control string) {
	retry := told(control).Retry
	if retry.At <= s.askedAt {
		return // it says what it said before
	}
	s.askedAt = retry.At
	for _, i := range s.instances {
		if slices.Contains(retry.Use, i.dir) {
			i.used, i.usedAt = true, s.now
		}
	}
}

func (i *instance) event(kind string, properties object) {
	i.sim.t.Helper()
	switch {
	case strings.HasPrefix(kind, "mcp."):
		i.used = true
		if i.idle(0) {
			i.usedAt = i.sim.now
		}
	case kind == "message.updated" || kind == "session.status":
		i.use()
	}
	i.sim.engine.event(i, kind, properties)
}

func (i *instance) prompt() {
	i.sim.t.Helper()
	i.use()
	i.sim.engine.prompt(i)
}

// dispose ends the instance as OpenCode does where it has a hook for it.
func (i *instance) dispose() {
	i.sim.t.Helper()
	i.sim.engine.dispose(i)
}

// use notes a sign of use, if the policy takes it for one.
func (i *instance) use() {
	if i.used = i.used || i.sim.policy.Start != "mcp"; i.used {
		i.usedAt = i.sim.now
	}
}

// idle reports whether the instance will have been without use for too long after d.
func (i *instance) idle(d time.Duration) bool {
	return i.sim.now.Add(d).Sub(i.usedAt) >= i.sim.policy.IdleAfter
}

// crash kills a connected server: OpenCode notices at once and says so.
func (i *instance) crash(name string) {
	i.sim.t.Helper()
	i.fail(name)
	i.event("mcp.tools.changed", object{"server": name})
}

// fail lets a server drop without OpenCode saying so.
func (i *instance) fail(name string) {
	s := i.servers[name]
	i.sim.note("%s: %s drops", i.dir, name)
	s.ends(i.sim)
	s.state, s.reason, s.dead, s.proven = "failed", "Connection closed", false, ""
}

// ends notes how long a connection lasted, if there is one.
func (s *server) ends(sim *simulation) {
	if s.state != "connected" {
		return
	}
	lived := sim.now.Sub(s.upSince)
	if s.alive += lived; lived >= sim.policy.StableAfter {
		s.reset(sim.now)
	}
}

// reset notes that the server's count of tries may start anew (rule 12).
func (s *server) reset(now time.Time) { s.budget, s.alive, s.resetAt = 0, 0, now }

// dies lets a connected server go while OpenCode goes on to call it connected.
func (i *instance) dies(name string) {
	i.sim.note("%s: %s is dead, and called connected", i.dir, name)
	i.servers[name].dead = true
}

// A toolCall is one call of a server's tool.
type toolCall struct {
	i    *instance
	id   string
	tool string // as OpenCode calls it
	name string // of the server
}

// begins has OpenCode call a tool of a server.
func (i *instance) begins(name string) *toolCall {
	i.sim.t.Helper()
	i.sim.nextCall++
	c := &toolCall{i, fmt.Sprint("prt_", i.sim.nextCall), toolIDs.ReplaceAllString(name, "_") + "_echo", name}
	for _, state := range []string{"pending", "running"} {
		c.told(state, "")
	}
	return c
}

var toolIDs = regexp.MustCompile(`[^\w-]`)

func (c *toolCall) told(state, text string) {
	c.i.sim.t.Helper()
	c.i.sim.note("%s: call of %s %s %s", c.i.dir, c.tool, state, text)
	c.i.sim.engine.call(c.i, c.id, c.tool, state, text)
}

func (c *toolCall) completes() {
	c.i.sim.t.Helper()
	if s := c.i.servers[c.name]; s != nil {
		s.restart = time.Time{}
		if s.proven == "dead" {
			s.proven = ""
		}
	}
	c.told("completed", "")
}

func (c *toolCall) fails(text string) {
	c.i.sim.t.Helper()
	c.told("error", text)
}

const (
	notConnected = "Not connected"
	unreachable  = "Unable to connect. Is the computer able to access the url?"
	noSuchTool   = "MCP error -32602: Tool echo not found"
)

// call calls a tool, which tells how the server really is.
func (i *instance) callTool(name string) {
	i.sim.t.Helper()
	c := i.begins(name)
	switch s := i.servers[name]; {
	case s.state == "connected" && s.dead:
		s.proven = "dead"
		c.fails(notConnected)
	case s.state == "connected":
		c.completes()
	default:
		c.fails("the tool is not there")
	}
}

// called is what holds for every call, which says what it is.
func (i *instance) called(format string, args ...any) {
	i.calls++
	what := fmt.Sprintf(format, args...)
	i.sim.note("%s: %s", i.dir, what)
	if i.disposed {
		i.sim.violated("rule 7: a call after disposal")
	}
	if !i.used {
		i.sim.violated("rule 2: a call without a sign of use")
	}
}

// status is OpenCode's GET /mcp. It calls resolve when it has the truth, which the
// servers then tell, or returns what comes of it instead.
func (i *instance) status(resolve func()) (instead *answer) {
	i.called("status")
	i.reads++
	for _, start := range i.reading {
		if i.sim.now.Sub(start) < 3*time.Minute { // given up then
			i.sim.violated("rule 16: status reads of one instance overlap")
		}
	}
	i.start()
	if i.answer != nil {
		a := i.answer()
		if i.answeredAt.IsZero() && a.fails != "never" {
			i.answeredAt = i.sim.now.Add(a.takes)
		}
		return &a
	}
	read, copy := i.reads, i.copy
	i.reading[read] = i.sim.now
	reading := i.reading // of the copy that reads
	start := i.sim.now
	i.sim.after(i.readTime, func() {
		delete(reading, read)
		heard := copy == i.copy && i.sim.now.Sub(start) < 3*time.Minute
		if heard && i.answeredAt.IsZero() {
			i.answeredAt = i.sim.now
		}
		for _, s := range i.servers {
			s.seen = s.state == "failed" && heard
		}
		resolve()
	})
	return nil
}

// logged is OpenCode's POST /log.
func (i *instance) logged(level, message string) {
	i.called("log %s %s", level, message)
	i.log = append(i.log, level+": "+message)
	for name, s := range i.servers {
		s.parked = s.parked || strings.Contains(message, " "+name+" is still failed")
	}
}

// connect is OpenCode's POST /mcp/NAME/connect, with the rules it must not break. It
// calls resolve when it is over, or says that it throws.
func (i *instance) connect(name string, resolve func()) (throws bool) {
	s, sim := i.servers[name], i.sim
	i.called("connect %s", name)
	if s == nil {
		sim.violated("rule 3: connect to %s, which is not configured", name)
		return true
	}
	switch restart := s.state == "connected" && (s.proven != "" || s.forced); {
	case s.state != "failed" && !restart:
		sim.violated("rules 1 and 3: connect to %s, which is %s", name, s.state)
	case restart && s.proven == "outdated" && !s.remote && !s.forced:
		sim.violated("rule 20: a local server is restarted for its tools")
	case restart && !s.forced && !s.restart.IsZero() && sim.now.Sub(s.restart) < time.Minute:
		sim.violated("rule 20: %s is restarted %v after the last time", name, sim.now.Sub(s.restart))
	case restart && !s.forced:
		s.restart = sim.now
	}
	s.ends(sim)
	s.proven, s.forced = "", false
	if !sim.pausedAt.IsZero() && sim.now.Sub(sim.pausedAt) > time.Second {
		sim.violated("rule 19: connect to %s, %v after the pause", name, sim.now.Sub(sim.pausedAt))
	}
	if s.inFlight {
		sim.violated("rule 5: a second connect to %s while one is pending", name)
	}
	if n := len(s.tried); n > 0 && sim.since()-s.tried[n-1] < sim.policy.FirstDelay {
		sim.violated("rule 12: %s was tried %v after the last try", name, sim.since()-s.tried[n-1])
	}
	s.tried = append(s.tried, sim.since())
	if s.throws {
		return true
	}
	s.inFlight = true
	sim.checkBudget()
	s.budget++
	if most := sim.policy.MaxAttempts + 2 + s.takenBack(sim.policy) + int(sim.now.Sub(s.resetAt)/min(time.Minute, sim.policy.ProbeInterval*4/5)); s.budget > most {
		sim.violated("rule 12: %d tries of %s in %v", s.budget, name, sim.now.Sub(s.resetAt))
	}
	settle := func() {
		s.inFlight = false
		if s.state == "failed" || s.state == "connected" { // not switched off meanwhile
			s.connect(sim.now)
		}
		resolve()
	}
	if s.hangs {
		s.release = settle
		return false
	}
	sim.after(s.takes, settle)
	return false
}

// takenBack is how many tries count no more for the time that the server was connected.
func (s *server) takenBack(p Policy) int {
	if p.StableAfter == 0 {
		return 1000
	}
	return int(6 * s.alive / p.StableAfter)
}

// start starts the instance's servers, once (rule 2).
func (i *instance) start() {
	if i.started {
		return
	}
	i.started = true
	for _, name := range i.names() {
		i.servers[name].connect(i.sim.now)
	}
}

// names are those of the servers, in the order in which OpenCode lists them.
func (i *instance) names() []string { return slices.Sorted(maps.Keys(i.servers)) }

func (s *server) connect(now time.Time) {
	switch {
	case s.state == "disabled":
	case s.needs != "":
		s.state = s.needs
	case s.up:
		s.state, s.reason, s.upSince, s.dead = "connected", "", now, false
		s.seen = false
	default:
		s.state = "failed"
	}
}

// checkBudget counts the connects in flight, but for those that outlived connect-timeout.
func (s *simulation) checkBudget() {
	n := 0
	for _, i := range s.instances {
		for _, server := range i.servers {
			if server.inFlight && s.since()-server.tried[len(server.tried)-1] < s.policy.ConnectTimeout {
				n++
			}
		}
	}
	if s.most = max(s.most, n); n > s.policy.Concurrency {
		s.violated("rule 5: %d connects in flight", n)
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
	ours bool // set by an engine, not by the model
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

// after runs something of the model, and what an engine does at once about it.
func (s *simulation) after(d time.Duration, run func()) {
	s.add(d, false, func() {
		run()
		s.engine.settle()
	})
}

var idleProgram = goja.MustCompile("", "0", false)

// jobs lets the promises' jobs run, as they do when the vm has nothing else to do.
func (s *simulation) jobs() {
	if _, err := s.vm.RunProgram(idleProgram); err != nil {
		s.t.Fatal(err)
	}
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
		s.next()
	}
}

// next lets time go by until the next timer, and runs it.
func (s *simulation) next() {
	if len(s.timers) == 0 {
		return
	}
	t := heap.Pop(&s.timers).(*timer)
	if t.due.After(s.now) {
		s.now = t.due
	}
	t.run()
	s.checkHeld()
}

// sleep lets the machine sleep. The clock on the wall goes on, what counts the
// milliseconds of timers and of performance.now does not.
func (s *simulation) sleep(d time.Duration) {
	s.note("the machine sleeps %v", d)
	s.wall += d
}

// pluginTimers counts the timers that the engines have set.
func (s *simulation) pluginTimers() int {
	n := 0
	for _, t := range s.timers {
		if t.ours {
			n++
		}
	}
	return n
}
