package plugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// TestEnginesAreOne tells the JavaScript engine and package reconnect the same: both want
// the same actions, at the same times, and say the same of their servers. There are three
// directories, which share a pool, and a world that mostly does what it is asked for.
func TestEnginesAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")]
		policy.Skip = []string{"skipped"}
		library := newGoCore(policy, 3)
		w := &wildHost{T: t, now: epoch, cores: []core{library, newScriptCore(t, policy, 3)}, library: library}
		for n := range w.directories {
			w.directories[n] = &wildDirectory{servers: map[string]saidStatus{}, connects: map[string]bool{}}
			w.servers(n)
			w.tell(n, input{Do: "used", Use: "prompt"})
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w.step()
		}
	})
}

// A wildHost tells engines what happens.
type wildHost struct {
	*rapid.T
	now         time.Time
	cores       []core
	library     *goCore
	directories [3]*wildDirectory
	told        []string
}

// A wildDirectory is what the world knows of an engine.
type wildDirectory struct {
	servers  map[string]saidStatus
	reading  bool
	connects map[string]bool
	closed   bool
}

var (
	wildNames  = rapid.SampledFrom([]string{"a", "a", "a_b", "b", "skipped", "__proto__"})
	wildStates = rapid.SampledFrom([]string{"failed", "failed", "connected", "connected", "connected", "disabled", "pending", ""})
	wildErrors = rapid.SampledFrom([]string{"gone", "gone", "", "spawn EAGAIN", "spawn x ENOENT"})
)

// tell tells each core, and looks at what they do about it.
func (w *wildHost) tell(n int, in input) {
	w.told = append(w.told, fmt.Sprintf("%v %d %+v", w.now.Sub(epoch), n, in))
	var did [2][]string
	for c, core := range w.cores {
		did[c] = core.tell(w.now, n, in)
	}
	if diff := cmp.Diff(did[0], did[1]); diff != "" {
		w.Fatalf("told the same, other actions (-Go +JavaScript):\n%s\n%s", diff, strings.Join(w.told, "\n"))
	}
	for _, line := range did[0] {
		d := w.directories[line[0]-'0']
		if _, server, ok := strings.Cut(line, ": connect "); ok {
			if d.connects[server] {
				w.Fatalf("rule 5: a second connect to %s", server)
			}
			d.connects[server] = true
		}
		d.reading = d.reading || strings.HasSuffix(line, ": status")
	}
}

// servers changes some servers of a directory.
func (w *wildHost) servers(n int) {
	d := w.directories[n]
	for range rapid.IntRange(1, 4).Draw(w.T, "servers") {
		name := wildNames.Draw(w.T, "server")
		if d.servers[name] = (saidStatus{wildStates.Draw(w.T, "state"), wildErrors.Draw(w.T, "error")}); rapid.IntRange(0, 9).Draw(w.T, "vanishes") == 0 {
			delete(d.servers, name)
		}
	}
}

func (w *wildHost) step() {
	n := rapid.IntRange(0, 2).Draw(w.T, "directory")
	d := w.directories[n]
	if d.closed {
		return
	}
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, ms, 30 * ms, second, 7 * second}).Draw(w.T, "time"))
	// What was asked for comes first, mostly.
	if obeys := rapid.IntRange(0, 9).Draw(w.T, "obeys"); obeys < 8 && d.reading {
		w.answer(n)
		return
	} else if obeys < 6 && len(d.connects) > 0 {
		w.settle(n, slices.Sorted(maps.Keys(d.connects))[0])
		return
	}
	call := reconnect.Call{
		ID:    rapid.SampledFrom([]string{"1", "2", "3"}).Draw(w.T, "id"),
		Tool:  rapid.SampledFrom([]string{"a_echo", "a_echo", "a_b_echo", "b_echo", "bash", "skipped_echo"}).Draw(w.T, "tool"),
		State: "running",
	}
	switch kind := rapid.SampledFrom([]string{"time", "time", "time", "time", "time", "time", "servers", "servers", "used", "used", "called", "called", "called",
		"calls", "calls", "configured", "noticesDeaths", "read", "none", "settled", "pause", "retry", "wokeUp", "close"}).Draw(w.T, "what"); kind {
	case "time": // until the engine wants to go on
		if at, ok := w.library.engines[n].Next(); ok && at.After(w.now) {
			w.now = at
		}
		w.tell(n, input{Do: "advance"})
	case "servers":
		w.servers(n)
	case "read":
		w.answer(n)
	case "settled":
		w.settle(n, wildNames.Draw(w.T, "server"))
	case "used":
		w.tell(n, input{Do: kind, Use: rapid.SampledFrom([]string{"prompt", "prompt", "busy", "mcp", "mcp", "load", "asked"}).Draw(w.T, "use"), Server: rapid.SampledFrom([]string{"", "a", "b"}).Draw(w.T, "server")})
	case "called": // anything
		call.State = rapid.SampledFrom([]string{"running", "error", "completed", "pending", "?"}).Draw(w.T, "state")
		call.Text = rapid.SampledFrom([]string{notConnected, unreachable, noSuchTool, "MCP error -32000: Connection closed", "no such file", ""}).Draw(w.T, "text")
		w.tell(n, input{Do: kind, Call: call})
	case "calls": // one that begins and ends
		w.tell(n, input{Do: "called", Call: call})
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, ms, second}).Draw(w.T, "takes"))
		call.State = rapid.SampledFrom([]string{"error", "error", "error", "completed"}).Draw(w.T, "state")
		call.Text = rapid.SampledFrom([]string{notConnected, notConnected, unreachable, noSuchTool}).Draw(w.T, "text")
		w.tell(n, input{Do: "called", Call: call})
	case "configured":
		w.tell(n, input{Do: kind, Servers: rapid.SliceOfN(wildNames, 0, 3).Draw(w.T, "remotes")})
	case "pause":
		w.tell(n, input{Do: kind, On: rapid.IntRange(0, 3).Draw(w.T, "paused") == 0})
	case "retry":
		in := input{Do: kind, Servers: rapid.SliceOfN(wildNames, 0, 2).Draw(w.T, "servers")}
		if rapid.Bool().Draw(w.T, "forced") {
			in.Force = in.Servers
		}
		w.tell(n, in)
	case "noticesDeaths":
		if rapid.IntRange(0, 9).Draw(w.T, "really") == 0 {
			w.tell(n, input{Do: kind})
		}
	case "close":
		if d.closed = rapid.IntRange(0, 9).Draw(w.T, "really") == 0; d.closed {
			w.tell(n, input{Do: kind})
		}
	default:
		w.tell(n, input{Do: kind})
	}
}

func (w *wildHost) answer(n int) {
	d := w.directories[n]
	d.reading = false
	w.tell(n, input{Do: "read", Status: d.servers})
}

func (w *wildHost) settle(n int, server string) {
	d := w.directories[n]
	delete(d.connects, server)
	if s, ok := d.servers[server]; ok {
		s.State = rapid.SampledFrom([]string{"connected", "connected", "failed"}).Draw(w.T, "becomes")
		d.servers[server] = s
	}
	w.tell(n, input{Do: "settled", Server: server})
}

// An input is what an engine is told.
type input struct {
	Do      string
	Status  map[string]saidStatus // nil is no answer
	Use     string
	Server  string
	Call    reconnect.Call
	On      bool
	Servers []string
	Force   []string
}

// A saidStatus is the status of one server.
type saidStatus struct{ State, Error string }

// A core is a process with engines, and nothing around them.
type core interface {
	// tell tells an engine something, and returns what they all want, and say.
	tell(now time.Time, n int, in input) []string
}

// -- Package reconnect

type goCore struct {
	engines []*reconnect.Engine
	closed  []bool
}

func newGoCore(policy Policy, directories int) *goCore {
	pool, random := reconnect.NewPool(policy.Concurrency), rand.New(rand.NewPCG(1, 2)).Float64
	c := &goCore{closed: make([]bool, directories)}
	for range directories {
		c.engines = append(c.engines, reconnect.New(policy, pool, random))
	}
	return c
}

var uses = map[string]reconnect.Use{"prompt": reconnect.Prompt, "busy": reconnect.Busy, "mcp": reconnect.MCP, "load": reconnect.Load, "asked": reconnect.Asked}

func (c *goCore) tell(now time.Time, n int, in input) []string {
	e := c.engines[n]
	switch in.Do {
	case "read":
		status := map[string]reconnect.Status{}
		for name, s := range in.Status {
			status[name] = reconnect.Status{State: s.State, Error: s.Error}
		}
		e.Read(now, status)
	case "none":
		e.Read(now, nil)
	case "settled":
		e.Settled(now, in.Server)
	case "used":
		e.Used(now, uses[in.Use], in.Server)
	case "called":
		e.Called(now, in.Call)
	case "noticesDeaths":
		e.NoticesDeaths(now)
	case "configured":
		e.Configured(now, in.Servers)
	case "pause":
		e.Pause(now, in.On)
	case "retry":
		e.Retry(now, in.Servers, in.Force)
	case "wokeUp":
		e.WokeUp(now)
	case "close":
		e.Close(now)
		c.closed[n] = true
	case "advance":
		e.Advance(now)
	}
	var did []string
	for n, e := range c.engines {
		for _, action := range e.Actions() {
			switch a := action.(type) {
			case reconnect.ReadStatus:
				did = append(did, fmt.Sprintf("%d: status", n))
			case reconnect.Connect:
				did = append(did, fmt.Sprintf("%d: connect %s", n, a.Server))
			case reconnect.Log:
				did = append(did, fmt.Sprintf("%d: %s %s", n, a.Level, lastDigit(a.Text)))
			}
		}
		if c.closed[n] {
			continue
		}
		if at, ok := e.Next(); ok {
			did = append(did, fmt.Sprintf("%d: next %v", n, at.Sub(epoch)))
		}
		for _, s := range e.Servers() {
			did = append(did, fmt.Sprintf("%d: %s %s %q %d %t %t %q %v %v %v", n, s.Name, s.Status, s.Phase, s.Tries, s.Skipped, s.Retried, s.Error,
				sinceEpoch(s.Since), sinceEpoch(s.TriedAt), sinceEpoch(s.DueAt)))
		}
	}
	return did
}

// sinceEpoch is a time that there may be, in milliseconds.
func sinceEpoch(at time.Time) any {
	if at.IsZero() {
		return "-"
	}
	return float64(at.Sub(epoch)) / float64(time.Millisecond)
}

// lastDigit leaves out the last digit of seconds, since JavaScript rounds a half up.
func lastDigit(text string) string {
	if cut, ok := strings.CutSuffix(text, " s)"); ok {
		return cut[:len(cut)-1]
	}
	return text
}

// -- The JavaScript engine

type scriptCore struct {
	t      rapid.TB
	vm     *goja.Runtime
	teller goja.Callable
}

// A saidServer is what the engine says of a server, with times in milliseconds.
type saidServer struct {
	Name, Status, Phase, Error string
	Tries                      int
	Skipped, Retried           bool
	Since, TriedAt, DueAt      *float64
}

var bare sync.Map // policy -> *goja.Program

// bareEngine is the rendered plugin with the engine for its export.
func bareEngine(t rapid.TB, policy Policy) *goja.Program {
	js, err := Render(policy)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := bare.Load(string(js)); ok {
		return p.(*goja.Program)
	}
	result := api.Transform(string(js)+"\nexport { createEngine, createPool }\n", api.TransformOptions{Format: api.FormatCommonJS})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors[0].Text)
	}
	program := goja.MustCompile("engine.js", "(() => {"+string(result.Code)+"})()", false)
	bare.Store(string(js), program)
	return program
}

// newScriptCore has a host of a few lines, which makes text of everything.
func newScriptCore(t rapid.TB, policy Policy, directories int) *scriptCore {
	vm := goja.New()
	c := &scriptCore{vm: vm, t: t}
	vm.Set("random", rand.New(rand.NewPCG(1, 2)).Float64)
	vm.Set("require", func(string) object { return object{} })
	c.run(`var module = {exports: {}}; var process = {env: {}}`)
	if _, err := vm.RunProgram(bareEngine(t, policy)); err != nil {
		t.Fatal(err)
	}
	c.run(fmt.Sprintf(`
		const { createEngine, createPool } = module.exports
		const pool = createPool()
		const engines = Array.from({ length: %d }, () => createEngine(pool, 0, { pump: {}, random }))
		const closed = new Set()
		const inputs = {
			read: (e, at, { Status }) => e.read(at, new Map(Object.entries(Status).map(([name, s]) => [name, { state: s.State || undefined, error: s.Error }]))),
			none: (e, at) => e.read(at, undefined),
			settled: (e, at, { Server }) => e.settled(at, Server),
			used: (e, at, { Use, Server }) => e.used(at, Use, Server),
			called: (e, at, { Call: { ID, Tool, State, Text } }) => e.called(at, { id: ID, tool: Tool, state: State, text: Text }),
			noticesDeaths: (e, at) => e.noticesDeaths(at),
			configured: (e, at, { Servers }) => e.configured(at, Servers ?? []),
			pause: (e, at, { On }) => e.pause(at, On),
			retry: (e, at, { Servers, Force }) => e.retry(at, Servers ?? [], Force ?? []),
			wokeUp: (e, at) => e.wokeUp(at),
			advance: (e, at) => e.advance(at),
			close: (e, at) => (closed.add(e), e.close(at)),
		}
		var tell = (at, n, text) => {
			const input = JSON.parse(text)
			inputs[input.Do](engines[n], at, input)
			return JSON.stringify(engines.map((e) => (closed.has(e) ? { Actions: e.actions() && [] } : { Actions: e.actions(), Next: e.next(), Servers: e.servers() })))
		}`, directories))
	c.teller, _ = goja.AssertFunction(vm.Get("tell"))
	return c
}

func (c *scriptCore) run(js string) {
	if _, err := c.vm.RunString(js); err != nil {
		c.t.Fatal(err)
	}
}

func (c *scriptCore) tell(now time.Time, n int, in input) []string {
	text, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	v, err := c.teller(goja.Undefined(), c.vm.ToValue(float64(now.Sub(epoch))/float64(time.Millisecond)), c.vm.ToValue(n), c.vm.ToValue(string(text)))
	if err != nil {
		c.t.Fatalf("thrown: %v", err)
	}
	var engines []struct {
		Actions []struct{ Do, Server, Level, Text string }
		Next    *float64
		Servers []saidServer
	}
	if err := json.Unmarshal([]byte(v.String()), &engines); err != nil {
		c.t.Fatal(err)
	}
	num := func(f *float64) any {
		if f == nil {
			return "-"
		}
		return *f
	}
	var did []string
	for n, e := range engines {
		for _, a := range e.Actions {
			switch a.Do {
			case "status":
				did = append(did, fmt.Sprintf("%d: status", n))
			case "connect":
				did = append(did, fmt.Sprintf("%d: connect %s", n, a.Server))
			case "log":
				did = append(did, fmt.Sprintf("%d: %s %s", n, a.Level, lastDigit(a.Text)))
			}
		}
		if e.Next != nil {
			did = append(did, fmt.Sprintf("%d: next %v", n, time.Duration(*e.Next*float64(time.Millisecond))))
		}
		slices.SortFunc(e.Servers, func(a, b saidServer) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range e.Servers {
			did = append(did, fmt.Sprintf("%d: %s %s %q %d %t %t %q %v %v %v", n, s.Name, s.Status, s.Phase, s.Tries, s.Skipped, s.Retried, s.Error,
				num(s.Since), num(s.TriedAt), num(s.DueAt)))
		}
	}
	return did
}
