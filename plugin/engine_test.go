package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/google/go-cmp/cmp"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

const (
	ms     = time.Millisecond
	second = time.Second
	minute = time.Minute
)

func (i *instance) state(name string) string { return i.servers[name].state }

func (i *instance) mustBe(want string, names ...string) {
	i.sim.t.Helper()
	for _, name := range names {
		if got := i.state(name); got != want {
			i.sim.violated("%s is %s at %v, want %s", name, got, i.sim.since(), want)
		}
	}
}

func unusedInstancesCostNothing(t *scenarioT) { // rule 2, C8
	s := simulate(t, nil)
	names := make([]string, 21)
	for n := range names {
		names[n] = fmt.Sprintf("server-%d", n)
	}
	for n := range 34 {
		i := s.load(fmt.Sprintf("/project%%20%d", n), names...)
		i.event("session.created", object{})
		i.event("server.connected", object{})
		i.event("plugin.added", object{})
	}
	s.pass(24 * time.Hour)
	for _, i := range s.instances {
		if i.calls != 0 {
			t.Errorf("%s: %d calls", i.dir, i.calls)
		}
	}
	if n := s.pluginTimers(); n != 0 {
		t.Errorf("%d timers", n)
	}
}

func crashedServerIsBackAfterFirstDelay(t *scenarioT) { // rules 10, 11
	s := simulate(t, nil)
	i := s.load("/p", "a", "b")
	i.prompt()
	s.pass(10 * second)
	i.mustBe("connected", "a", "b")
	i.crash("a")
	s.pass(100*ms + 100*ms + 10*ms)
	i.mustBe("connected", "a")
	if len(i.servers["b"].tried) != 0 {
		t.Error("D43: a healthy neighbour was connected")
	}
	if !slices.ContainsFunc(i.log, func(line string) bool { return strings.HasPrefix(line, "info: mcp-reconnect: a is back (1 try, 0.") }) {
		t.Errorf("rule 17: log is %q", i.log)
	}
}

func allFailedAtStartComeBackAfterOnePrompt(t *scenarioT) { // A1, A2
	for _, names := range [][]string{{"only"}, {"a", "b", "c", "d", "e"}} {
		s := simulate(t, nil)
		i := s.load("/p", names...)
		for _, name := range names {
			i.servers[name].up = false
		}
		i.prompt()
		s.pass(40 * second)
		i.mustBe("failed", names...)
		for _, name := range names {
			i.servers[name].up = true
		}
		s.pass(30*second + second)
		i.mustBe("connected", names...)
	}
}

func backoffAndParking(t *scenarioT) { // rules 12, 13; D45
	s := simulate(t, nil)
	i := s.load("/p", "a")
	a := i.servers["a"]
	a.up, a.takes = false, 0
	i.prompt()
	s.pass(4 * minute)
	var gaps []time.Duration
	for n, at := range a.tried {
		if n > 0 {
			gaps = append(gaps, (at - a.tried[n-1]).Round(100*ms))
		}
	}
	want := []time.Duration{1 * second, 2 * second, 4 * second, 8 * second, 16 * second, 30 * second, 30 * second, 30 * second, 30 * second}
	if diff := cmp.Diff(want, gaps); diff != "" {
		t.Errorf("delays between the tries (-want +got):\n%s", diff)
	}
	warnings := func() (n int) {
		for _, line := range i.log {
			if strings.HasPrefix(line, "warn: ") {
				n++
			}
		}
		return n
	}
	if warnings() != 1 {
		t.Errorf("parked, and %d warnings", warnings())
	}

	tried := len(a.tried)
	s.pass(26 * minute) // the rest of idle-after
	if probes := len(a.tried) - tried; probes < 4 || probes > 6 {
		t.Errorf("%d probes in 26 minutes of use", probes)
	}
	tried = len(a.tried)
	s.pass(24 * time.Hour)
	if probes := len(a.tried) - tried; probes > 0 {
		t.Errorf("%d probes in a day without a prompt", probes)
	}
	if n := s.pluginTimers(); n != 0 {
		t.Errorf("%d timers while idle", n)
	}

	a.up = true
	i.prompt()
	s.pass(second)
	i.mustBe("connected", "a")
	if warnings() != 1 {
		t.Errorf("%d warnings in one outage", warnings())
	}
}

func promptWakesAParkedServerOnceAMinute(t *scenarioT) { // rule 13
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 1 })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(10 * second)
	tried := len(i.servers["a"].tried)
	for range 30 {
		i.prompt()
		s.pass(second)
	}
	if woken := len(i.servers["a"].tried) - tried; woken != 1 {
		t.Errorf("woken %d times in half a minute of prompts", woken)
	}
	s.pass(31 * second) // what those prompts asked for is not lost
	if woken := len(i.servers["a"].tried) - tried; woken != 2 {
		t.Errorf("woken %d times when the minute was over", woken)
	}
	s.pass(4 * minute)
	if woken := len(i.servers["a"].tried) - tried; woken != 2 {
		t.Errorf("woken %d times without a further prompt", woken)
	}
}

func onlyFailedIsActedOn(t *scenarioT) { // rule 1
	for _, state := range []string{"connected", "disabled", "needs_auth", "needs_client_registration", "pending", "something_new"} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.servers["a"].needs = state
		i.prompt()
		s.pass(time.Hour)
		if n := len(i.servers["a"].tried); n != 0 {
			t.Errorf("%s: %d connects", state, n)
		}
		if state == "needs_auth" && len(i.log) > 1 {
			t.Errorf("A27: log is %q", i.log)
		}
	}
}

func pendingTryIsDroppedWhenTheStateChanges(t *scenarioT) { // rules 1, 3; A26, A29, A30
	for _, state := range []string{"connected", "disabled", "needs_auth", "pending"} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.servers["a"].up = false
		i.prompt()
		s.pass(20 * second) // some tries are over, the next one is some seconds away
		tried := len(i.servers["a"].tried)
		i.servers["a"].state = state
		s.pass(time.Hour)
		if n := len(i.servers["a"].tried) - tried; n != 0 {
			t.Errorf("%s: %d connects", state, n)
		}
	}
}

func vanishedServerIsForgotten(t *scenarioT) { // D6, rule 12
	s := simulate(t, nil)
	i := s.load("/p", "a", "b")
	i.servers["a"].up = false
	i.prompt()
	s.pass(10 * second)
	a := i.servers["a"]
	delete(i.servers, "a")
	s.pass(10 * minute)
	a.tried = nil
	i.servers["a"] = a // and is back, with a full budget
	i.prompt()
	s.pass(25 * minute)
	if len(a.tried) < s.policy.MaxAttempts {
		t.Errorf("%d tries after it returned", len(a.tried))
	}
}

func shortLivedConnectionCountsAsAFailedTry(t *scenarioT) { // rule 12; C9, D48, D49
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(minute)
	for range 40 { // dies 3 s after each start
		if i.state("a") == "connected" {
			i.crash("a")
		}
		s.pass(3 * second)
		for i.state("a") != "connected" && s.since() < 20*minute {
			s.pass(second)
		}
	}
	a := i.servers["a"]
	if n := len(a.tried); n > s.policy.MaxAttempts*3/2+4 { // of three seconds each takes back 0.3
		t.Errorf("a flapping server was connected %d times in %v", n, s.since())
	}
}

func longHealthyPeriodGivesAFullBudget(t *scenarioT) { // A5, D1
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	for n := range 20 {
		i.prompt()
		s.pass(10 * minute)
		i.crash("a")
		s.pass(250 * ms)
		if i.state("a") != "connected" {
			t.Fatalf("drop %d: not back at first-delay", n+1)
		}
	}
}

func hungConnectFreesItsSlotAndIsNotRepeated(t *scenarioT) { // rule 5; A3, A36, D24
	s := simulate(t, func(p *Policy) { p.Concurrency = 1 })
	i := s.load("/p", "hung", "b")
	i.servers["hung"].up, i.servers["b"].up = false, false
	i.prompt()
	s.pass(20 * ms)
	i.servers["hung"].hangs, i.servers["b"].up = true, true
	s.pass(40 * second)
	i.mustBe("connected", "b")
	s.pass(time.Hour)
	if n := len(i.servers["hung"].tried); n != 1 {
		t.Errorf("%d connects to a server whose first one is pending", n)
	}
}

func budgetIsOneForAllInstances(t *scenarioT) { // rule 5; A4, A24
	s := simulate(t, func(p *Policy) { p.Concurrency = 2 })
	for n := range 15 {
		i := s.load(fmt.Sprintf("/project%%20%d", n), "a", "b", "c", "d", "e")
		for _, server := range i.servers {
			server.up = false
		}
		i.prompt()
	}
	s.pass(50 * ms)
	for _, i := range s.instances {
		for _, server := range i.servers {
			server.up = true
		}
	}
	s.pass(15 * second) // 75 connects of 100 ms, two at a time, are 3.75 s
	for _, i := range s.instances {
		i.mustBe("connected", "a", "b", "c", "d", "e")
	}
	if s.most != 2 {
		t.Errorf("%d connects were in flight at once", s.most)
	}
}

func noAnswerIsNoFailure(t *scenarioT) { // rule 16; A35, A40
	answers := map[string]answer{
		"throws":    {fails: "throws"},
		"rejects":   {fails: "rejects"},
		"error":     {body: object{"error": "Unauthorized", "response": object{"status": 401}}},
		"undefined": {},
		"null data": {body: object{"data": nil}},
		"list":      {body: object{"data": []any{"a"}}},
		"text":      {body: object{"data": "<html>"}},
	}
	for name, odd := range answers {
		t.Run(name, func(t *scenarioT) {
			s := simulate(t, nil)
			i := s.load("/p", "a")
			i.servers["a"].up = false
			i.prompt()
			s.pass(50 * ms) // failed was seen, the first try is due in 50 ms
			i.answer = func() answer { return odd }
			s.pass(10 * minute)
			if n := len(i.servers["a"].tried); n != 0 {
				t.Errorf("%d connects without an answer", n)
			}
			if n := len(i.log); n > 2 {
				t.Errorf("%d log lines: %q", n, i.log)
			}
			i.answer, i.servers["a"].up = nil, true
			s.pass(s.policy.PollInterval + second)
			i.mustBe("connected", "a")
		})
	}
}

func malformedStatusOfAServerStopsNothing(t *scenarioT) { // rules 1, 16
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.answer = func() answer {
		return answer{body: object{"data": object{"a": object{"status": "failed"}, "b": nil, "c": 3, "d": object{"status": 1}}}}
	}
	i.prompt()
	s.pass(50 * ms)
	i.answer, i.servers["a"].up = nil, true
	s.pass(second)
	i.mustBe("connected", "a")
}

func hungStatusReadIsGivenUp(t *scenarioT) { // rule 16
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(50 * ms)
	i.answer = func() answer { return answer{fails: "never"} }
	s.pass(minute)
	i.servers["a"].up = true
	i.answer = nil
	s.pass(3*minute + s.policy.PollInterval)
	i.mustBe("connected", "a")
}

func TestBareStringStatus(t *testing.T) { // rule 1; A37
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.answer = func() answer { return answer{body: object{"data": object{"a": i.state("a")}}} }
	i.prompt()
	s.pass(20 * ms)
	i.servers["a"].up = true
	s.pass(second)
	i.mustBe("connected", "a")
}

func nothingHappensAfterDisposal(t *scenarioT) { // rules 6, 7; A41, A42, A43
	disposals := map[string]func(i *instance){
		"hook":  func(i *instance) { i.dispose() },
		"event": func(i *instance) { i.event("server.instance.disposed", object{"directory": i.dir}) },
	}
	for name, dispose := range disposals {
		// At every moment of a recovery: what is awaited ends with one of the model's
		// or the plugin's timers, so disposal comes between each two of them.
		for step := range 40 {
			s := simulate(t, nil)
			i := s.load("/p", "a", "b")
			s.pass(2 * second) // past the first second of the copy's life
			i.servers["a"].up = false
			i.prompt()
			for range step {
				s.next()
			}
			dispose(i)
			i.disposed = true
			if n := s.pluginTimers(); n != 0 {
				t.Fatalf("%s at step %d: %d timers are left", name, step, n)
			}
			if left := s.engine.left(); left != "" {
				t.Fatalf("%s at step %d: %s is left", name, step, left)
			}
			s.pass(time.Hour)
			i.crash("b")
			i.prompt()
			s.pass(time.Hour)
			if t.Failed() {
				t.Fatalf("%s at step %d", name, step)
			}
		}
	}
}

func TestDisposalOfAnotherDirectoryOrAtBirthIsIgnored(t *testing.T) { // rule 7
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.event("server.instance.disposed", object{"directory": "/p"}) // of the copy before: up to 1.1.34
	s.pass(2 * second)
	i.event("server.instance.disposed", object{"directory": "/other"})
	i.prompt()
	s.pass(second)
	i.crash("a")
	s.pass(second)
	i.mustBe("connected", "a")
}

func TestTwoCopiesForOneDirectoryActAsOne(t *testing.T) { // rule 6; A23, B11
	s := simulate(t, nil)
	i := s.load("/p", "a")
	first := i.hooks
	i.prompt()
	s.pass(second)
	i.reload()
	second := i.hooks
	for _, hooks := range []*goja.Object{first, second} {
		i.hooks = hooks
		i.prompt()
	}
	s.pass(5 * minute)
	i.servers["a"].state = "failed"
	for _, hooks := range []*goja.Object{first, second} {
		i.hooks = hooks
		i.event("mcp.tools.changed", object{"server": "a"})
	}
	s.pass(2 * minute)
	i.mustBe("connected", "a")
	if n := len(i.servers["a"].tried); n != 1 {
		t.Errorf("%d connects", n)
	}
}

func TestQuietBesideOpenChamber(t *testing.T) { // rule 6
	s := simulate(t, nil)
	i := s.load("/p", "a")
	s.run(`globalThis.__openchamberMcpReconnectCoordinator = {}`)
	i.servers["a"].up = false
	for range 5 {
		i.prompt()
		s.pass(minute)
	}
	if len(i.log) != 1 || i.reads != 0 {
		t.Errorf("%d reads, log %q", i.reads, i.log)
	}
}

func eventStormIsOneReadInASecond(t *scenarioT) { // rule 10; D11
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(5 * second)
	before := i.reads
	for range 1000 {
		for range 10 {
			i.event("mcp.tools.changed", object{"server": "a"})
		}
		s.pass(ms - ms/100)
	}
	if n := i.reads - before; n != 1 {
		t.Errorf("%d reads in a second of 10,000 events", n)
	}
}

func TestMalformedEventsAreSurvived(t *testing.T) { // rule 8; A33, A44
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.used = true // the last one is a sign of use
	for _, arg := range []any{nil, object{}, object{"event": nil}, object{"event": 3}, object{"event": object{}},
		object{"event": object{"type": nil}}, object{"event": object{"type": "session.status"}},
		object{"event": object{"type": "server.instance.disposed"}}, object{"event": object{"type": "mcp.foo"}}} {
		i.hook("event", arg)
		s.pass(second)
	}
	i.hook("event")
}

func everyNameOfTheEventWakes(t *scenarioT) { // A33
	for _, kind := range []string{"mcp.tools.list_changed", "mcp.tools.changed", "mcp.status.changed"} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.event(kind, object{})
		s.pass(second)
		if i.reads != 1 {
			t.Errorf("%s: %d reads", kind, i.reads)
		}
	}
}

func start(t *scenarioT) { // rule 2
	signs := map[string]func(*instance){
		"mcp":     func(i *instance) { i.event("mcp.tools.changed", object{"server": "a"}) },
		"prompt":  func(i *instance) { i.prompt() },
		"busy":    func(i *instance) { i.event("session.status", object{"status": object{"type": "busy"}}) },
		"message": func(i *instance) { i.event("message.updated", object{}) },
		"nothing": func(*instance) {},
	}
	for _, tt := range []struct {
		start string
		acts  []string
	}{
		{"auto", []string{"mcp", "prompt", "busy", "message"}},
		{"use", []string{"mcp", "prompt", "busy", "message"}},
		{"load", []string{"mcp", "prompt", "busy", "message", "nothing"}},
		{"mcp", []string{"mcp"}},
	} {
		for sign, show := range signs {
			s := simulate(t, func(p *Policy) { p.Start = tt.start })
			i := s.load("/p", "a")
			show(i)
			s.pass(minute)
			if got, want := i.reads > 0, slices.Contains(tt.acts, sign); got != want {
				t.Errorf("start=%s, sign %s: acts %v, want %v", tt.start, sign, got, want)
			}
		}
	}
}

func TestAutoStartsTheTerminalsOwnDirectory(t *testing.T) { // rule 2
	s := simulate(t, nil)
	s.run(`process.argv = ["bun", "/$bunfs/root/src/cli/tui/worker.js"]; process.cwd = () => "/p"`)
	own, other := s.load("/p", "a"), s.load("/other", "a")
	own.used = true
	own.servers["a"].up = false
	s.pass(1500 * ms)
	own.servers["a"].up = true
	s.pass(10 * second)
	own.mustBe("connected", "a")
	if other.calls != 0 {
		t.Errorf("%d calls for another directory", other.calls)
	}
}

func idleInstanceIsNotPolled(t *scenarioT) { // rule 2, idle-after
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(30 * minute)
	if i.reads < 50 || i.reads > 62 {
		t.Errorf("%d reads in half an hour of use", i.reads)
	}
	before := i.reads
	s.pass(24 * time.Hour)
	if n := i.reads - before; n > 1 {
		t.Errorf("%d reads in an idle day", n)
	}
	i.prompt()
	s.pass(5 * minute)
	if n := i.reads - before; n < 8 {
		t.Errorf("%d reads after the next prompt", n)
	}
}

func sleepOfTheMachineResetsTheSchedule(t *scenarioT) { // rule 14
	s := simulate(t, func(p *Policy) { p.MaxDelay = 20 * minute })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(10 * minute) // the next try is minutes away
	s.sleep(time.Hour)
	s.pass(31 * second) // the next timer shows it, and the network takes a while to come back
	i.servers["a"].up = true
	s.pass(35 * second)
	i.mustBe("connected", "a")
}

func clockOnTheWallMayJump(t *scenarioT) { // rules 10 and 12 count the time that passed
	for _, jump := range []time.Duration{-time.Hour, time.Hour, -48 * time.Hour} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.prompt()
		s.pass(second)
		s.wall += jump
		i.crash("a")
		s.pass(250 * ms)
		i.mustBe("connected", "a")
		s.pass(29 * minute)
		if i.reads < 50 || i.reads > 70 {
			t.Errorf("a jump of %v: %d reads in half an hour", jump, i.reads)
		}
	}
}

func overloadGoesToMaxDelayOneByOne(t *scenarioT) { // rule 15
	s := simulate(t, func(p *Policy) { p.StableAfter = 0 })
	i := s.load("/p", "a", "b", "c")
	for _, server := range i.servers {
		server.up, server.reason, server.takes = false, "spawn EAGAIN", 200*ms
	}
	i.prompt()
	s.pass(5 * second)
	for _, server := range i.servers {
		if len(server.tried) > 1 {
			t.Errorf("%s was tried %d times in 5 s", server.name, len(server.tried))
		}
	}
	s.most = 0
	s.pass(33 * second)
	if s.most != 1 {
		t.Errorf("%d connects at once while the machine is overloaded", s.most)
	}
	i.servers["a"].up = true
	i.servers["b"].reason, i.servers["c"].reason = "gone", "gone"
	s.pass(2 * minute)
	i.mustBe("connected", "a")
	i.servers["b"].up, i.servers["c"].up = true, true
	s.pass(2 * minute)
	i.mustBe("connected", "b", "c")
	s.most = 0
	i.crash("b")
	i.crash("c")
	s.pass(second)
	if s.most != 2 {
		t.Errorf("%d connects at once after one succeeded, want 2", s.most)
	}
}

func leastGapBetweenTwoTries(t *scenarioT) { // rule 12; the model checks the gap
	s := simulate(t, func(p *Policy) { p.FirstDelay, p.InitialDelay = second, 10*ms })
	i := s.load("/p", "a")
	i.servers["a"].up, i.servers["a"].takes = false, 0
	i.prompt()
	s.pass(minute)
	if len(i.servers["a"].tried) < 5 {
		t.Errorf("%d tries", len(i.servers["a"].tried))
	}
}

func crashLoopDoesNotKeepAnInstanceInUse(t *scenarioT) { // rules 2, 13
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	for s.since() < 6*time.Hour {
		if i.state("a") == "connected" {
			i.crash("a")
		}
		s.pass(second)
	}
	if i.reads > 500 {
		t.Errorf("%d reads in six hours, of which nobody prompted after the first second", i.reads)
	}
	if n := s.pluginTimers(); n != 0 {
		t.Errorf("%d timers in the end", n)
	}
}

func countSurvivesMissingAnswers(t *scenarioT) { // rule 16: nothing forgotten
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	for range 20 {
		s.pass(40 * second)
		i.answer = func() answer { return answer{} }
		s.pass(40 * second)
		i.answer = nil
	}
	if n := len(i.servers["a"].tried); n > s.policy.MaxAttempts+10 { // the rest are probes
		t.Errorf("%d tries in %v", n, s.since())
	}
	if n := strings.Count(strings.Join(i.log, "\n"), "still failed"); n != 1 {
		t.Errorf("%d warnings: %q", n, i.log)
	}
}

func statusReadsNeverOverlap(t *scenarioT) { // rule 16; the model checks it
	s := simulate(t, nil)
	i := s.load("/p", "a", "b", "c", "d")
	for _, server := range i.servers {
		server.up, server.throws = false, true
	}
	i.readTime = 40 * second // longer than the poll interval
	i.prompt()
	s.pass(20 * minute)
	if i.reads < 10 || i.reads > 31 {
		t.Errorf("%d reads in %v", i.reads, s.since())
	}
	if len(i.servers["a"].tried) == 0 {
		t.Error("reads that take longer than connect-timeout keep a server from being tried")
	}
}

func missingCommandIsParkedAfterThreeTries(t *scenarioT) { // rule 15; A25
	for _, reason := range []string{
		"ENOENT: no such file or directory, posix_spawn '/nonexistent/cmd'",
		"EACCES: permission denied, posix_spawn '/etc/passwd'",
		`Executable not found in $PATH: "no-such-command"`,
		"spawn npx ENOENT",
	} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.servers["a"].up, i.servers["a"].reason = false, reason
		i.prompt()
		s.pass(4 * minute)
		if n := len(i.servers["a"].tried); n != 3 {
			t.Errorf("%s: %d tries", reason, n)
		}
	}
}

func patterns(t *scenarioT) {
	for _, tt := range []struct {
		only, skip []string
		acts       []string
	}{
		{nil, nil, []string{"git", "github", "pg-1", "pg.1"}},
		{[]string{"git*"}, nil, []string{"git", "github"}},
		{[]string{"git"}, nil, []string{"git"}},
		{[]string{"pg?1"}, nil, []string{"pg-1", "pg.1"}},
		{[]string{"pg.1"}, nil, []string{"pg.1"}},
		{nil, []string{"*"}, nil},
		{[]string{"git*", "pg*"}, []string{"github"}, []string{"git", "pg-1", "pg.1"}},
	} {
		s := simulate(t, func(p *Policy) { p.Only, p.Skip = tt.only, tt.skip })
		i := s.load("/p", "git", "github", "pg-1", "pg.1")
		for _, server := range i.servers {
			server.up = false
		}
		i.prompt()
		s.pass(minute)
		var acts []string
		for name, server := range i.servers {
			if len(server.tried) > 0 {
				acts = append(acts, name)
			}
		}
		slices.Sort(acts)
		if diff := cmp.Diff(tt.acts, acts); diff != "" {
			t.Errorf("only %q, skip %q (-want +got):\n%s", tt.only, tt.skip, diff)
		}
	}
}

func jitterSpreadsFirstTries(t *scenarioT) { // A10, D12
	s := simulate(t, func(p *Policy) { p.Jitter, p.Concurrency, p.FirstDelay = 0.2, 64, second })
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	i := s.load("/p", names...)
	for _, server := range i.servers {
		server.up = false
	}
	i.prompt()
	s.pass(1500 * ms)
	seen := map[time.Duration]bool{}
	for _, server := range i.servers {
		if len(server.tried) != 1 {
			t.Fatalf("%s was tried %d times", server.name, len(server.tried))
		}
		at := server.tried[0]
		seen[at.Round(ms)] = true
		if at < 800*ms || at > 1250*ms {
			t.Errorf("%s was tried after %v", server.name, at)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d different times", len(seen))
	}
}

func idleInstanceWithoutAnswersIsLeftAlone(t *scenarioT) { // rule 16, idle-after
	s := simulate(t, nil)
	i := s.load("/p", "a", "b")
	i.servers["a"].up = false
	i.prompt()
	s.pass(second)
	i.answer = func() answer { return answer{} }
	s.pass(31 * minute)
	before := i.reads
	s.pass(24 * time.Hour)
	if i.reads != before || s.pluginTimers() != 0 {
		t.Errorf("%d reads in an idle day, %d timers", i.reads-before, s.pluginTimers())
	}
	i.answer, i.servers["a"].up = nil, true
	i.event("message.updated", object{}) // any sign of use
	s.pass(second)
	i.mustBe("connected", "a")
}

func longIntervalsEndWithIdleAfter(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.PollInterval, p.MaxAttempts = 2*time.Hour, 1000 })
	i := s.load("/p", "a", "b")
	i.servers["a"].up = false
	i.prompt()
	s.pass(31 * minute)
	before := i.reads
	s.pass(12 * time.Hour)
	if i.reads != before {
		t.Errorf("%d reads in twelve idle hours", i.reads-before)
	}
}

func flappingServerWhoseDeathsMakeNoSignIsParked(t *scenarioT) { // rule 12, before 1.17.9
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	for s.since() < 2*time.Hour {
		if i.state("a") == "connected" && s.now.Sub(i.servers["a"].upSince) >= 4*second {
			i.fail("a")
		}
		s.pass(second)
		if s.since()%(10*minute) < second {
			i.event("message.updated", object{}) // in use all the time
		}
	}
	if n := len(i.servers["a"].tried); n > s.policy.MaxAttempts+2*60/5+1 {
		t.Errorf("%d connects in two hours", n)
	}
	if n := strings.Count(strings.Join(i.log, "\n"), "still failed"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

func slowReadsHoldNoSlot(t *scenarioT) { // rules 5, 9
	s := simulate(t, func(p *Policy) { p.Concurrency = 1 })
	slow, quick := s.load("/slow", "a"), s.load("/quick", "b")
	slow.prompt()
	quick.prompt()
	s.pass(second)
	slow.readTime = 2 * minute
	slow.crash("a")
	s.pass(second)
	quick.crash("b")
	s.pass(250 * ms)
	quick.mustBe("connected", "b")
	s.pass(10 * minute)
	slow.mustBe("connected", "a")
}

func slotOutlivedByAReadIsAskedForAgain(t *scenarioT) { // rule 5; the model counts
	s := simulate(t, func(p *Policy) { p.Concurrency, p.PollInterval = 1, time.Hour })
	slow, quick := s.load("/slow", "a", "b"), s.load("/quick", "c")
	slow.prompt()
	quick.prompt()
	s.pass(2 * second)
	slow.servers["a"].takes, quick.servers["c"].takes = 10*second, 10*second
	slow.crash("a")
	slow.crash("b")
	s.pass(second) // b waits for the slot of a
	slow.readTime = 40 * second
	s.pass(9200 * ms)   // a is connected, and b has the slot until its second read from here has taken too long
	s.pass(75 * second) // which ends in 5 s
	quick.crash("c")
	s.pass(10200 * ms)
	quick.mustBe("connected", "c")
	slow.mustBe("failed", "b")
	s.pass(2 * minute)
	slow.mustBe("connected", "a", "b")
}

func serverSwitchedOffByTheUserStartsAnew(t *scenarioT) { // rule 12
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 3 })
	i := s.load("/p", "a")
	a := i.servers["a"]
	a.up = false
	i.prompt()
	s.pass(20 * second)
	a.state = "disabled"
	s.pass(31 * second)
	tried := len(a.tried)
	a.state = "failed" // it is switched on again, in vain
	a.reset(s.now)
	s.pass(40 * second)
	if n := len(a.tried) - tried; n != 3 {
		t.Errorf("%d tries, want a full budget of 3", n)
	}
}

func TestConnectInFlightIsTakenOverByTheNextCopy(t *testing.T) { // rules 5, 6; the model checks it
	s := simulate(t, func(p *Policy) { p.Concurrency = 1 })
	i := s.load("/p", "a", "b")
	i.servers["a"].takes = 10 * second
	i.prompt()
	s.pass(second)
	i.crash("a")
	s.pass(200 * ms)
	i.reload()
	i.prompt()
	i.crash("b")
	s.pass(5 * second) // b waits for the slot, which a holds
	i.mustBe("failed", "a", "b")
	s.pass(6 * second)
	i.mustBe("connected", "a", "b")
	if n := len(i.servers["a"].tried); n != 1 {
		t.Errorf("%d connects", n)
	}
}

func overloadIsKnownAtFirstSight(t *scenarioT) { // rule 15
	s := simulate(t, nil)
	i := s.load("/p", "a", "b", "c", "d", "e", "f", "g", "h")
	for _, server := range i.servers {
		server.up, server.reason = false, "EAGAIN: resource temporarily unavailable, posix_spawn 'node'"
	}
	i.prompt()
	s.pass(20 * second)
	if s.most != 0 {
		t.Errorf("%d connects at once, within %v of the mass failure", s.most, s.since())
	}
}

func shortIdleAfterDoesNotStrandAParkedServer(t *scenarioT) { // rule 13
	s := simulate(t, func(p *Policy) { p.IdleAfter, p.MaxAttempts = 20*second, 1 })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(10 * minute)
	i.servers["a"].up = true
	for range 3 {
		i.prompt()
		s.pass(40 * second)
	}
	i.mustBe("connected", "a")
}

func lateConfirmationIsOurs(t *scenarioT) { // rules 11, 12, 17
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	i.crash("a")
	s.pass(150 * ms) // the connect is under way
	i.answer = func() answer { return answer{} }
	s.pass(10 * second)
	i.answer = nil
	s.pass(minute)
	if n := strings.Count(strings.Join(i.log, "\n"), "a is back (1 try"); n != 1 {
		t.Errorf("log is %q", i.log)
	}
}

func patternsAreMatchedInLinearTime(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.Only = []string{strings.Repeat("*a", 30) + "*b", "*漢?"} })
	long := strings.Repeat("a", 2000)
	i := s.load("/p", long, long+"b", "x漢字", "x漢")
	for _, server := range i.servers {
		server.up = false
	}
	i.prompt()
	s.pass(minute)
	for name, want := range map[string]bool{long: false, long + "b": true, "x漢字": true, "x漢": false} {
		if got := len(i.servers[name].tried) > 0; got != want {
			t.Errorf("%.20q of %d bytes: acted on %v, want %v", name, len(name), got, want)
		}
	}
}

func TestOlderCopyThatThrowsIsSurvived(t *testing.T) { // rule 8
	s := simulate(t, nil)
	s.run(`globalThis[Symbol.for("mcp-reconnect/2")] = {residents: new Map([["/p", {dispose() { throw new Error("old") }}]]), pool: {running: 0, careful: false, queue: [], granted: [], pending: new Set()}}`)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	i.crash("a")
	s.pass(second)
	i.mustBe("connected", "a")
}
