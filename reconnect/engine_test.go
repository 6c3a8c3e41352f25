package reconnect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
)

// The scenarios of this package, and its random histories, are those of the plugin:
// plugin/engine_test.go. Here is what only a host written in Go sees.

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func middle() float64 { return 0.5 } // no jitter

// actions are those of an engine, as text.
func actions(e *reconnect.Engine) []string {
	all := []string{}
	for _, action := range e.Actions() {
		switch a := action.(type) {
		case reconnect.ReadStatus:
			all = append(all, "read")
		case reconnect.Connect:
			all = append(all, "connect "+a.Server)
		case reconnect.Log:
			all = append(all, a.Level+": "+a.Text)
		case reconnect.Transition:
			all = append(all, fmt.Sprintf("%s: %q to %q, %d, %q", a.Server, a.From, a.To, a.Attempt, a.Error))
		}
	}
	return all
}

// advance lets an engine do what is due next, and returns the time.
func advance(t *testing.T, e *reconnect.Engine) time.Time {
	t.Helper()
	at, ok := e.Next()
	if !ok {
		t.Fatal("nothing is due")
	}
	e.Advance(at)
	return at
}

type answer = map[string]reconnect.Status

// TestActions follows an outage from its beginning to its end.
func TestActions(t *testing.T) {
	e := reconnect.New(plugin.DefaultPolicy(), reconnect.NewPool(4), middle)
	now := epoch
	failed := reconnect.Status{State: "failed", Error: "got https://ann:hunter2@host/x"}
	const told = "got https://…@host/x"
	want := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, actions(e)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", now.Sub(epoch), diff)
		}
	}
	e.Used(now, reconnect.Prompt, "")
	want("info: active")
	now = advance(t, e)
	want("read")
	e.Read(now, answer{"a": {State: "connected"}, "b": {}, "c": {State: "disabled"}})
	want(`a: "" to "connected", 0, ""`, `b: "" to "unknown", 0, ""`, `c: "" to "disabled", 0, ""`)
	e.Used(now, reconnect.MCP, "a")
	now = advance(t, e)
	want("read")
	e.Read(now, answer{"a": failed, "c": {State: "disabled"}})
	want(`a: "connected" to "waiting", 0, "`+told+`"`, `b: "unknown" to "", 0, ""`)
	now = advance(t, e)
	want("read", `a: "waiting" to "trying", 0, "`+told+`"`)
	e.Read(now, answer{"a": failed})
	want("connect a", `c: "disabled" to "", 0, ""`)
	e.Settled(now, "a")
	want("read")
	e.Read(now, answer{"a": failed})
	want(`a: "trying" to "waiting", 1, "` + told + `"`)
	now = advance(t, e)
	e.Read(now, answer{"a": failed})
	e.Settled(now, "a")
	e.Actions()
	e.Read(now, answer{"a": {State: "connected"}})
	want("info: a is back (2 tries, 1.1 s)", `a: "trying" to "connected", 2, ""`)
	e.Used(now, reconnect.MCP, "a")
	now = advance(t, e)
	e.Read(now, answer{"a": failed})
	want("read", `a: "connected" to "waiting", 2, "`+told+`"`)
	e.Pause(now, true)
	want(`a: "waiting" to "dormant", 2, "` + told + `"`)
}

// TestReleasedSlotLetsAnotherEngineAct (rule 5): the pool says which.
func TestReleasedSlotLetsAnotherEngineAct(t *testing.T) {
	for name, release := range map[string]func(*reconnect.Engine, time.Time){
		"settled": func(e *reconnect.Engine, now time.Time) { e.Settled(now, "a") },
		"closed":  func(e *reconnect.Engine, now time.Time) { e.Close(now) },
		"timeout": func(e *reconnect.Engine, now time.Time) {
			for at, ok := e.Next(); ok && !at.After(now.Add(15*time.Second)); at, ok = e.Next() {
				e.Advance(at)
				actions(e)
			}
		},
	} {
		pool := reconnect.NewPool(1)
		first, second := reconnect.New(plugin.DefaultPolicy(), pool, middle), reconnect.New(plugin.DefaultPolicy(), pool, middle)
		now := epoch
		for _, e := range []*reconnect.Engine{first, second} {
			e.Used(epoch, reconnect.Prompt, "")
			e.Advance(epoch)
			e.Read(epoch, answer{"a": {State: "failed"}})
			actions(e)
			now = advance(t, e)
			e.Read(now, answer{"a": {State: "failed"}})
			if got, want := slices.Contains(actions(e), "connect a"), e == first; got != want {
				t.Errorf("%s: connects %t, want %t", name, got, want)
			}
		}
		release(first, now)
		if !slices.Contains(pool.Pending(), second) {
			t.Errorf("%s: nobody is told that the second engine goes on", name)
		}
		if got := actions(second); !slices.Equal(got, []string{"read"}) { // rule 3
			t.Errorf("%s: the second engine does %q", name, got)
		}
		second.Read(now, answer{"a": {State: "failed"}})
		if got := actions(second); !slices.Equal(got, []string{"connect a"}) {
			t.Errorf("%s: the second engine does %q after its read", name, got)
		}
	}
}

// TestUnusedEngineDoesNothing (rule 2), whatever it is told but a sign of use.
func TestUnusedEngineDoesNothing(t *testing.T) {
	policy := plugin.DefaultPolicy()
	policy.Start = "mcp"
	e := reconnect.New(policy, reconnect.NewPool(1), middle)
	e.Pause(epoch, true)
	e.Pause(epoch, false)
	e.Retry(epoch, nil, nil)
	e.WokeUp(epoch)
	e.Settled(epoch, "a")
	e.Read(epoch, answer{"a": {State: "failed"}})
	for _, use := range []reconnect.Use{reconnect.Prompt, reconnect.Busy, reconnect.Load} {
		e.Used(epoch, use, "a")
	}
	e.Advance(epoch.Add(time.Hour))
	if got := actions(e); len(got) > 0 {
		t.Errorf("it does %q", got)
	}
	if at, ok := e.Next(); ok {
		t.Errorf("it is due at %v", at)
	}
}

// TestEngineThatClosesInLineHoldsNothing (rules 5, 7).
func TestEngineThatClosesInLineHoldsNothing(t *testing.T) {
	pool := reconnect.NewPool(1)
	var engines []*reconnect.Engine
	for range 3 {
		e := reconnect.New(plugin.DefaultPolicy(), pool, middle)
		engines = append(engines, e)
		e.Used(epoch, reconnect.Prompt, "")
		e.Advance(epoch)
		e.Read(epoch, answer{"a": {State: "failed"}})
		now := advance(t, e)
		e.Read(now, answer{"a": {State: "failed"}})
		actions(e)
	}
	now := epoch.Add(time.Second)
	engines[1].Close(now)
	engines[0].Close(now)
	engines[2].Read(now, answer{"a": {State: "failed"}})
	if got := actions(engines[2]); !slices.Equal(got, []string{"read", "connect a"}) {
		t.Errorf("the third in line does %q", got)
	}
}

// TestHostsMistakes lets a host call anything at any time: nothing panics, nothing is
// done twice, the same calls have the same actions, and a closed engine is silent.
func TestHostsMistakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := plugin.DefaultPolicy()
		policy.Concurrency = rapid.IntRange(1, 3).Draw(t, "concurrency")
		policy.ConnectTimeout = time.Hour // each connect holds its slot
		type world struct {
			pool    *reconnect.Pool
			engines []*reconnect.Engine
		}
		worlds := make([]world, 2)
		for n := range worlds {
			worlds[n].pool = reconnect.NewPool(policy.Concurrency)
			for range 3 {
				worlds[n].engines = append(worlds[n].engines, reconnect.New(policy, worlds[n].pool, middle))
			}
		}
		now := epoch
		connecting, closed := map[string]bool{}, map[int]bool{}
		name := rapid.SampledFrom([]string{"a", "b", "", "nobody"})
		state := rapid.SampledFrom([]string{"failed", "failed", "failed", "connected", "disabled", ""})
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			n := rapid.IntRange(0, 2).Draw(t, "engine")
			now = now.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, time.Minute}).Draw(t, "time"))
			var call func(e *reconnect.Engine)
			switch rapid.IntRange(0, 9).Draw(t, "call") {
			case 0, 1:
				status := rapid.MapOf(name, state).Draw(t, "status")
				call = func(e *reconnect.Engine) {
					read := answer{}
					for name, state := range status {
						read[name] = reconnect.Status{State: state, Error: "spawn EAGAIN"}
					}
					e.Read(now, read)
				}
			case 2:
				call = func(e *reconnect.Engine) { e.Read(now, nil) }
			case 3:
				server := name.Draw(t, "server")
				delete(connecting, fmt.Sprint(n, server))
				call = func(e *reconnect.Engine) { e.Settled(now, server) }
			case 4:
				server, use := name.Draw(t, "server"), reconnect.Use(rapid.IntRange(0, 4).Draw(t, "use"))
				call = func(e *reconnect.Engine) { e.Used(now, use, server) }
			case 5:
				paused := rapid.Bool().Draw(t, "paused")
				call = func(e *reconnect.Engine) { e.Pause(now, paused) }
			case 6:
				server := name.Draw(t, "server")
				call = func(e *reconnect.Engine) { e.Retry(now, []string{server}, nil); e.WokeUp(now) }
			case 7:
				if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
					closed[n] = true
					for _, server := range []string{"a", "b", "", "nobody"} {
						delete(connecting, fmt.Sprint(n, server))
					}
					call = func(e *reconnect.Engine) { e.Close(now) }
					break
				}
				fallthrough
			default:
				call = func(e *reconnect.Engine) { e.Advance(now) }
			}
			var did [2][3][]string
			for w, world := range worlds {
				call(world.engines[n])
				pending := world.pool.Pending()
				for k, e := range world.engines {
					did[w][k] = actions(e)
					if len(did[w][k]) > 0 && !slices.Contains(pending, e) {
						t.Fatalf("%q, of an engine that is not pending", did[w][k])
					}
				}
			}
			if diff := cmp.Diff(did[0], did[1]); diff != "" {
				t.Fatalf("the same calls, other actions:\n%s", diff)
			}
			for k, done := range did[0] {
				_, due := worlds[0].engines[k].Next()
				if closed[k] && (len(done) > 0 || due) {
					t.Fatalf("closed, and yet %q, due %t", done, due)
				}
				for _, action := range done {
					var server string
					if n, _ := fmt.Sscanf(action+"|", "connect %s", &server); n != 1 {
						continue
					}
					id := fmt.Sprint(k, server[:len(server)-1])
					if connecting[id] {
						t.Fatalf("rule 5: a second connect to %s", id)
					}
					if connecting[id] = true; len(connecting) > policy.Concurrency {
						t.Fatalf("rule 5: %d connects at once", len(connecting))
					}
				}
			}
		}
	})
}
