package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// -- Rule 12: back-off is the least time between two starts

func (i *instance) logs(text string) int { return strings.Count(strings.Join(i.log, "\n"), text) }

// starts are those of a server between two times.
func (s *server) starts(from, to time.Duration) (n int) {
	for _, at := range s.tried {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

// restartedServerIsBackAtOnce: its author restarts it again and again.
func restartedServerIsBackAtOnce(t *scenarioT) {
	for _, tt := range []struct {
		every time.Duration
		times int
	}{{8 * second, 20}, {20 * second, 60}, {5 * second, 3}} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.prompt()
		s.pass(5 * second)
		for n := range tt.times {
			i.crash("a")
			s.pass(250 * ms)
			if i.state("a") != "connected" {
				t.Fatalf("every %v: not back at once after restart %d", tt.every, n+1)
			}
			s.pass(tt.every)
		}
		if n := i.logs("still failed"); n != 0 {
			t.Errorf("every %v: parked", tt.every)
		}
	}
}

// flaps lets a server die so long after each start, for so long.
func (i *instance) flaps(name string, life, long time.Duration) {
	for end := i.sim.now.Add(long); i.sim.now.Before(end); i.sim.pass(50 * ms) {
		if srv := i.servers[name]; srv.state == "connected" && i.sim.now.Sub(srv.upSince) >= life {
			i.crash(name)
		}
	}
}

func flappingServerIsParked(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(second)
	i.flaps("a", 300*ms, 10*minute)
	if n := i.servers["a"].starts(second, 91*second); n < 5 || n > 9 {
		t.Errorf("one that dies 300 ms after every start was started %d times in 90 s", n)
	}
	if i.logs("a is still failed after") != 1 {
		t.Errorf("it is not parked, or that was said more than once: %q", i.log)
	}
	s = simulate(t, nil)
	i = s.load("/p", "a")
	i.prompt()
	s.pass(second)
	i.flaps("a", 4*second, 10*minute)
	if i.logs("a is still failed after") != 1 {
		t.Errorf("one that dies 4 s after every start is not parked within ten minutes")
	}
}

func brokenThenRestarted(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(5 * second)
	i.servers["a"].up = false
	i.crash("a")
	s.pass(12 * second)
	i.servers["a"].up = true
	for i.state("a") != "connected" {
		s.pass(100 * ms)
	}
	for n := range 20 {
		s.pass(12 * second)
		i.crash("a")
		s.pass(250 * ms)
		if i.state("a") != "connected" {
			t.Fatalf("not back at once after restart %d", n+1)
		}
	}
}

// promptDuringAPauseIsNotLost: nor does it use up the minute's wake-up.
func promptDuringAPauseIsNotLost(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.InitialDelay, p.MaxDelay = time.Hour, time.Hour })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(5 * second)
	s.files.write("control.json", `{"paused":true}`)
	s.pass(second)
	i.servers["a"].up = true
	i.prompt()
	s.pass(2 * second)
	s.files.write("control.json", `{"paused":false}`)
	s.pass(second)
	i.mustBe("connected", "a")
}

// longBrokenServerIsForgiven: what counts is bounded, however long it was broken.
func longBrokenServerIsForgiven(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.IdleAfter = 48 * time.Hour })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(24 * time.Hour)
	i.servers["a"].up = true
	i.prompt()
	s.pass(second)
	i.mustBe("connected", "a")
	for n := range 10 {
		s.pass(12 * second)
		i.crash("a")
		s.pass(31 * second)
		if i.state("a") != "connected" {
			t.Fatalf("not back after restart %d", n+1)
		}
	}
}

// -- Rule 20: dead, and called connected

// inUse is an instance whose servers are connected and were so for a while.
func (s *simulation) inUse(names ...string) *instance {
	i := s.load("/p", names...)
	i.prompt()
	s.pass(5 * second)
	i.mustBe("connected", names...)
	return i
}

func (i *instance) mustBeTried(want int, names ...string) {
	i.sim.t.Helper()
	for _, name := range names {
		if n := len(i.servers[name].tried); n != want {
			i.sim.violated("%s was started %d times, want %d", name, n, want)
		}
	}
}

func proofRestartsOnce(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a", "b")
	i.dies("a")
	c := i.begins("a")
	i.servers["a"].proven = "dead"
	for range 30 {
		c.fails(notConnected)
		s.pass(ms)
	}
	s.pass(200 * ms)
	for range 30 {
		c.fails(notConnected)
		s.pass(second)
	}
	i.mustBeTried(1, "a")
	i.mustBeTried(0, "b")
	if i.servers["a"].dead || i.logs("a is back (its connection was dead; 1 try, 0.") != 1 {
		t.Errorf("log is %q", i.log)
	}
	s.pass(10 * minute)
	i.mustBeTried(1, "a")
}

func noProof(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	for _, text := range []string{
		"", "file not found", "MCP error -32602: Input validation error: no text", "MCP error -32603: Internal error",
		"MCP error -32001: Request timed out", "HTTP 401: Unauthorized", "Tool execution aborted",
		"Streamable HTTP error: Error POSTing to endpoint: Forbidden",
		"Streamable HTTP error: Error POSTing to endpoint: Too Many Requests",
		"the database says: Not connected", "Not connected to the database", "Error: Not connected",
		// What only the transport of a remote server says is a local one's tool's own word.
		unreachable, "certificate has expired", "Streamable HTTP error: Error POSTing to endpoint: Session not found",
		// It was closed, perhaps by who connects it anew.
		"MCP error -32000: Connection closed",
		"MCP error -32602: Tool other not found", // which is not the one that was called
	} {
		i.begins("a").fails(text)
		s.pass(2 * minute)
	}
	// Nobody's, and those whose begin was not told.
	for _, tool := range []string{"bash", "_echo", "aecho", "b_echo"} {
		c := &toolCall{i, "x", tool, "a"}
		c.told("running", "")
		c.fails(notConnected)
		s.pass(2 * minute)
	}
	(&toolCall{i, "y", "a_echo", "a"}).fails(notConnected)
	c := i.begins("a")
	c.told("error", "") // and once it has ended, nothing is new
	c.fails(notConnected)
	// What turns out not to be a call of the server.
	c = i.begins("a")
	c.tool = "invalid"
	c.told("running", "")
	c.fails(notConnected)
	s.pass(2 * minute)
	i.mustBeTried(0, "a")

	// Where OpenCode notices the death of a local server, that is a tool's own word, too.
	s = simulate(t, nil)
	i = s.inUse("a")
	for _, version := range []string{"1.17.8", "1.9.30", "", "next", "0.0.0-next-1", "1.17.9"} {
		i.sim.engine.version(i, version)
	}
	i.begins("a").fails(notConnected)
	s.pass(2 * minute)
	i.mustBeTried(0, "a")

	s = simulate(t, func(p *Policy) { p.RestartDead = "off" })
	i = s.inUse("a")
	i.dies("a")
	i.callTool("a")
	s.pass(2 * minute)
	i.mustBeTried(0, "a")
}

// remoteProof: what the transport of a remote server says.
func remoteProof(t *scenarioT) {
	for _, text := range []string{unreachable, notConnected, "Streamable HTTP error: Error POSTing to endpoint: Session not found"} {
		s := simulate(t, nil)
		i := s.load("/p", "web", "local")
		i.servers["web"].remote = true
		i.configure()
		i.sim.engine.version(i, "1.18.33")
		i.prompt()
		s.pass(5 * second)
		for _, name := range []string{"web", "local"} {
			i.servers[name].proven = "dead"
			i.begins(name).fails(text)
		}
		s.pass(second)
		i.mustBeTried(1, "web")
		i.mustBeTried(0, "local")
	}
}

// reconnectedByOthers: a call that another client's reconnect ended proves nothing of what there is now.
func reconnectedByOthers(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.servers["a"].state = "failed" // and seen so
	i.servers["a"].up = false
	i.prompt()
	s.pass(5 * second)
	tried := len(i.servers["a"].tried)
	c := i.begins("a")
	i.servers["a"].state = "connected"
	i.prompt()
	s.pass(2 * second)
	c.fails(notConnected)
	s.pass(5 * minute)
	i.mustBeTried(tried, "a")
}

// forcedAside: a server that waited for a sign-in when it was looked at last.
func forcedAside(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	a := i.servers["a"]
	a.up = false
	i.prompt()
	s.pass(second)
	a.state = "needs_auth"
	s.pass(minute)
	a.state, a.up, a.forced = "connected", true, true
	tried := len(a.tried)
	s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":["a"],"force":["a"]}}`, s.now.UnixMilli()))
	s.pass(2 * second)
	i.mustBeTried(tried+1, "a")
	i.mustBe("connected", "a")
}

// pauseForgetsWhatWasProven: by the end of it, somebody may have reconnected the server.
func pauseForgetsWhatWasProven(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a", "b")
	i.begins("a") // keeps its restart waiting
	i.dies("a")
	i.callTool("a")
	s.files.write("control.json", `{"paused":true}`)
	s.pass(second)
	i.servers["a"].dead, i.servers["a"].proven = false, ""
	s.files.write("control.json", fmt.Sprintf(`{"paused":true,"retry":{"at":%d,"servers":["b"],"force":["b"]}}`, s.now.UnixMilli()))
	s.pass(20 * minute)
	s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":["b"],"force":["b"]}}`, s.now.Add(-20*minute).UnixMilli()))
	s.pass(5 * minute)
	i.mustBeTried(0, "a", "b")
}

// endlessCallDelaysOneRestart: what began on a connection that is no more keeps nothing waiting.
func endlessCallDelaysOneRestart(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.begins("a") // its end is never told
	for n := range 3 {
		i.dies("a")
		i.callTool("a")
		if n == 0 {
			s.pass(s.policy.ConnectTimeout)
		}
		s.pass(250 * ms)
		i.mustBeTried(n+1, "a")
		i.callTool("a")
		s.pass(10 * second)
	}
}

func proofOfAFailedServerGoesItsUsualWay(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	c := i.begins("a")
	i.fail("a")
	c.fails(notConnected)
	s.pass(250 * ms)
	i.mustBe("connected", "a")
	if i.logs("a is back (1 try") != 1 {
		t.Errorf("log is %q", i.log)
	}
	for _, state := range []string{"disabled", "needs_auth", "pending"} {
		s := simulate(t, nil)
		i := s.inUse("a")
		c := i.begins("a")
		i.servers["a"].state = state
		c.fails(notConnected)
		s.pass(5 * minute)
		i.mustBeTried(0, "a")
	}
}

func restartWaitsForOtherCalls(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a", "b")
	i.begins("b") // another server's
	i.dies("a")
	other := i.begins("a")
	i.callTool("a")
	s.pass(10 * second)
	i.mustBeTried(0, "a")
	if got := i.saved().server("a"); got.Phase != "dead" || got.Status != "connected" || got.Error != notConnected || got.DueAt == nil {
		t.Errorf("it is %+v", got)
	}
	other.fails("aborted")
	s.pass(250 * ms)
	i.mustBeTried(1, "a")

	// Several that end at once prove it once, and keep nobody waiting.
	s = simulate(t, nil)
	i = s.inUse("a")
	i.dies("a")
	i.servers["a"].proven = "dead"
	one, two := i.begins("a"), i.begins("a")
	one.fails(notConnected)
	two.fails(notConnected)
	s.pass(250 * ms)
	i.mustBeTried(1, "a")

	s = simulate(t, nil)
	i = s.inUse("a")
	i.dies("a")
	i.begins("a") // never ends
	i.callTool("a")
	s.pass(s.policy.ConnectTimeout + 250*ms)
	i.mustBeTried(1, "a")
}

func completedCallDisproves(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	other := i.begins("a")
	i.servers["a"].proven = "dead"
	i.begins("a").fails(notConnected)
	s.pass(second)
	other.completes()
	s.pass(5 * minute)
	i.mustBeTried(0, "a")
	if phase := i.saved().server("a").Phase; phase != "" {
		t.Errorf("it is %q", phase)
	}
}

func callOfTheConnectionBeforeProvesNothing(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.dies("a")
	late := i.begins("a")
	i.callTool("a")
	s.pass(20 * second) // it was waited for, in vain
	i.mustBeTried(1, "a")
	late.fails(notConnected)
	s.pass(5 * minute)
	i.mustBeTried(1, "a")
}

func hundredProofsInTenMinutes(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 1000 })
	i := s.inUse("a")
	for range 100 {
		i.dies("a")
		i.callTool("a")
		s.pass(6 * second)
	}
	if n := len(i.servers["a"].tried); n < 9 || n > 12 {
		t.Errorf("%d restarts", n)
	}
	// What completes in between shows that it helps.
	s = simulate(t, nil)
	i = s.inUse("a")
	for n := range 20 {
		i.dies("a")
		i.callTool("a")
		s.pass(250 * ms)
		i.mustBeTried(n+1, "a")
		i.callTool("a")
		s.pass(10 * second)
	}
}

func reconnectingThatDoesNotHelpStops(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 3 })
	i := s.inUse("a")
	proofs := func() {
		for range 20 {
			i.prompt()
			i.dies("a")
			i.callTool("a")
			s.pass(70 * second)
		}
	}
	proofs()
	i.mustBeTried(3, "a")
	if i.logs("a: reconnecting does not help") != 1 {
		t.Errorf("log is %q", i.log)
	}
	i.servers["a"].dead = false
	i.callTool("a")
	proofs()
	i.mustBeTried(6, "a")
}

func restartThatFailsBeginsAnOutage(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.dies("a")
	i.servers["a"].up = false
	i.callTool("a")
	s.pass(5 * second)
	i.mustBe("failed", "a")
	if n := len(i.servers["a"].tried); n != 3 { // at once, after 1 s, and 2 s later
		t.Errorf("%d tries", n)
	}
	i.servers["a"].up = true
	s.pass(5 * second)
	i.mustBe("connected", "a")
	if i.logs("a is back (4 tries, 7.") != 1 {
		t.Errorf("log is %q", i.log)
	}
}

func restartObeysThePolicyAndThePause(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.Skip = []string{"b"} })
	i := s.inUse("a", "b")
	i.dies("b")
	i.callTool("b")
	s.files.write("control.json", `{"paused":true}`)
	s.pass(2 * second)
	i.dies("a")
	i.callTool("a")
	s.pass(2 * minute)
	i.mustBeTried(0, "a", "b")
	s.files.write("control.json", `{"paused":false}`)
	s.pass(second)
	i.mustBeTried(0, "a", "b")
	i.callTool("a")
	s.pass(second)
	i.mustBeTried(1, "a")
	i.mustBeTried(0, "b")
}

// outdatedTools: the server itself denies a tool that OpenCode offers.
func outdatedTools(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "web", "local")
	i.servers["web"].remote = true
	i.configure()
	i.prompt()
	s.pass(5 * second)
	for _, name := range []string{"web", "local"} {
		for range 3 {
			i.servers[name].proven = "outdated"
			i.begins(name).fails(noSuchTool)
			s.pass(second)
		}
	}
	i.mustBeTried(1, "web")
	i.mustBeTried(0, "local")
	if i.logs("web is back (its tools were out of date; 1 try") != 1 || i.logs("local: OpenCode offers tools that the server no longer has") != 1 {
		t.Errorf("log is %q", i.log)
	}
	if got := i.saved().server("local"); got.Phase != "outdated" || got.Status != "connected" || got.DueAt != nil {
		t.Errorf("local is %+v", got)
	}
	s.pass(10 * minute)
	i.prompt()
	s.pass(second)
	if got := i.saved().server("local").Phase; got != "outdated" {
		t.Errorf("later it is %q", got)
	}
	// Its restart may be forced; and OpenCode may read the list anew by itself.
	i.servers["local"].forced = true
	s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":["local"],"force":["local"]}}`, s.now.UnixMilli()))
	s.pass(second)
	i.mustBeTried(1, "local")
	s.pass(2 * minute)
	i.begins("local").fails(noSuchTool)
	i.event("mcp.tools.changed", object{"server": "local"})
	s.pass(second)
	if got := i.saved().server("local").Phase; got != "" {
		t.Errorf("its tools were read, and it is %q", got)
	}
	// Dead is dead.
	i.begins("local").fails(noSuchTool)
	i.dies("local")
	i.callTool("local")
	s.pass(second)
	i.mustBeTried(2, "local")
}

func toolsBelongToTheLongestName(t *scenarioT) {
	s := simulate(t, nil)
	names := []string{"web", "web_search", "a.b", "a/b", "漢", "🚀x"}
	i := s.inUse(names...)
	tried := func(want string) {
		t.Helper()
		var got []string
		for _, name := range names {
			if len(i.servers[name].tried) > 0 {
				got = append(got, name)
			}
			i.servers[name].tried = nil
		}
		if strings.Join(got, " ") != want {
			t.Errorf("restarted were %q, want %q", got, want)
		}
		s.pass(2 * minute)
		i.prompt()
		s.pass(2 * second)
	}
	prove := func(tool string) {
		for _, name := range names {
			i.servers[name].proven = "dead"
		}
		c := &toolCall{i, tool, tool, ""}
		c.told("running", "")
		c.fails(notConnected)
		s.pass(second)
	}
	prove("web_search_query")
	tried("web_search")
	prove("web_query")
	tried("web")
	prove("a_b_c") // of one of two
	tried("")
	prove("__query")
	tried("漢")
	prove("__x_query") // two UTF-16 units
	tried("🚀x")
}

func forcedRetryRestarts(t *scenarioT) { // rule 19
	s := simulate(t, func(p *Policy) { p.Skip = []string{"not-*"} })
	i := s.load("/p", "a", "b", "off", "not-mine")
	i.servers["off"].state = "disabled"
	i.prompt()
	s.pass(5 * second)
	force := func(names string) {
		s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":[%[2]s],"force":[%[2]s]}}`, s.now.UnixMilli(), names))
		s.pass(second)
	}
	i.servers["a"].forced = true
	force(`"a","off","not-mine","nobody"`)
	i.mustBeTried(1, "a")
	i.mustBeTried(0, "b", "off", "not-mine")
	if !i.saved().server("a").Retried || i.logs("a is back (restarted as asked; 1 try") != 1 {
		t.Errorf("log is %q", i.log)
	}
	if !i.saved().server("not-mine").Skipped || i.saved().server("a").Skipped {
		t.Error("it is not said what the policy leaves alone")
	}
	// As often as somebody asks, and without any that is named nothing.
	i.servers["a"].forced = true
	force(`"a"`)
	i.mustBeTried(2, "a")
	force(``)
	i.mustBeTried(2, "a")
	i.mustBeTried(0, "b")
}

// runningCallsAreBounded: what never ends costs nothing for ever.
func runningCallsAreBounded(t *scenarioT) {
	s := simulate(t, nil)
	i := s.inUse("a")
	first := i.begins("a")
	for range 1000 {
		i.begins("a")
	}
	i.dies("a")
	first.fails(notConnected) // is forgotten, and proves nothing
	s.pass(20 * second)
	i.mustBeTried(0, "a")
}

// -- Rule 21: the first prompt has its tools

// TestPromptIsHeldForWhatMayBeBackSoon.
func TestPromptIsHeldForWhatMayBeBackSoon(t *testing.T) {
	for _, tt := range []struct {
		name       string
		takes      time.Duration // a connect of the server that failed at start
		back       bool
		least, max time.Duration
	}{
		{"it can start now", 100 * ms, true, 200 * ms, 300 * ms},
		{"it takes long", 10 * second, true, 2 * second, 2100 * ms},
		{"it stays broken", 100 * ms, false, second, 1300 * ms}, // two tries
	} {
		s := simulate(t, nil)
		i := s.load("/p", "a", "b")
		a := i.servers["a"]
		a.up, a.takes = false, tt.takes
		i.start()
		a.up = tt.back
		i.prompt()
		s.pass(20 * second)
		if i.heldFor < tt.least || i.heldFor > tt.max {
			t.Errorf("%s: the first prompt was held for %v", tt.name, i.heldFor)
		}
		i.heldFor = 0
		i.prompt()
		s.pass(20 * second)
		if i.heldFor != 0 {
			t.Errorf("%s: the second prompt was held for %v", tt.name, i.heldFor)
		}
	}
}

// TestSecondPromptIsNotHeldForWhatHangs: one prompt waits for a try, and no other one.
func TestSecondPromptIsNotHeldForWhatHangs(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up, i.servers["a"].takes = false, 30*second
	i.prompt()
	s.pass(5 * second)
	if i.heldFor < 2*second {
		t.Errorf("the first prompt was held for %v", i.heldFor)
	}
	for range 20 {
		i.heldFor = 0
		i.prompt()
		s.pass(7 * second)
		if i.heldFor != 0 {
			t.Fatalf("at %v a prompt was held for %v", s.since(), i.heldFor)
		}
	}
}

func TestPromptIsNotHeldForNothing(t *testing.T) {
	for name, change := range map[string]func(*simulation, *instance){
		"all is well": func(s *simulation, i *instance) {},
		"parked": func(s *simulation, i *instance) {
			i.servers["a"].up = false
			i.crash("a")
			s.pass(5 * minute)
		},
		"far into its back-off": func(s *simulation, i *instance) {
			i.servers["a"].up = false
			i.crash("a")
			s.pass(10 * second)
		},
		"switched off": func(s *simulation, i *instance) { i.servers["a"].state = "disabled"; s.pass(minute) },
		"paused": func(s *simulation, i *instance) {
			s.files.write("control.json", `{"paused":true}`)
			s.pass(second)
			i.crash("a")
			s.pass(second)
		},
	} {
		s := simulate(t, nil)
		i := s.inUse("a", "b")
		change(s, i)
		i.heldFor = 0
		i.prompt()
		if len(i.held) != 0 || i.heldFor != 0 {
			t.Errorf("%s: a prompt is held", name)
		}
	}
	s := simulate(t, func(p *Policy) { p.HoldPrompt = 0 })
	i := s.load("/p", "a")
	i.prompt()
	if len(i.held) != 0 {
		t.Error("switched off, and yet a prompt is held")
	}
}

// TestPromptIsHeldWhileARestartIsUnderWay: what a call proved dead is there for the next prompt.
func TestPromptIsHeldWhileARestartIsUnderWay(t *testing.T) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.servers["a"].takes = second
	i.dies("a")
	i.callTool("a")
	s.pass(50 * ms)
	i.prompt()
	s.pass(5 * second)
	if i.heldFor < 900*ms || i.heldFor > 1100*ms {
		t.Errorf("held for %v", i.heldFor)
	}
}

// TestPromptIsHeldUntilADropIsLookedAt: events are looked at once a second.
func TestPromptIsHeldUntilADropIsLookedAt(t *testing.T) {
	s := simulate(t, nil)
	i := s.inUse("a")
	i.event("mcp.tools.changed", object{"server": "a"})
	s.pass(10 * ms)
	i.crash("a") // within a second of the last look
	i.prompt()
	s.pass(5 * second)
	if i.heldFor < second || i.heldFor > 1300*ms {
		t.Errorf("held for %v", i.heldFor)
	}
}

// TestChattyServerHoldsNoPrompt: what is told after a prompt is not what it waits for.
func TestChattyServerHoldsNoPrompt(t *testing.T) {
	s := simulate(t, nil)
	i := s.inUse("a", "b")
	for n := range 500 {
		i.event("mcp.tools.changed", object{"server": "a"})
		if n%100 == 50 {
			i.prompt()
		}
		s.pass(20 * ms)
		if i.heldFor > 1010*ms {
			t.Fatalf("a prompt was held for %v", i.heldFor)
		}
	}
}

// TestColdPromptWaitsAsOpenCodeDoes: the time counts from the first status, for which OpenCode waits as well.
func TestColdPromptWaitsAsOpenCodeDoes(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.readTime = 5 * second // the servers' own start
	i.servers["a"].up = false
	i.start()
	i.servers["a"].up = true
	i.prompt()
	s.pass(4 * second)
	i.readTime = ms
	s.pass(10 * second)
	i.mustBe("connected", "a")
	if i.heldFor < 5*second || i.heldFor > 5300*ms {
		t.Errorf("held for %v", i.heldFor)
	}

	s = simulate(t, nil) // and gives up if there is none
	i = s.load("/p", "a")
	i.answer = func() answer { return answer{fails: "never"} }
	i.prompt()
	s.pass(minute)
	if i.heldFor != 30*second {
		t.Errorf("without an answer it was held for %v", i.heldFor)
	}
	i.heldFor = 0
	i.prompt()
	s.pass(minute)
	if i.heldFor != 0 {
		t.Errorf("the second one was held for %v", i.heldFor)
	}
}

func TestDisposalLetsPromptsGo(t *testing.T) {
	for _, dispose := range []func(*instance){
		func(i *instance) { i.dispose() },
		func(i *instance) { i.reload() },
	} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.servers["a"].up, i.servers["a"].takes = false, 10*second
		i.prompt()
		s.pass(500 * ms)
		held := slices.Clone(i.held)
		if len(held) != 1 {
			t.Fatal("no prompt is held")
		}
		dispose(i)
		s.jobs()
		s.checkHeld()
		if len(i.held) != 0 {
			t.Error("a prompt is still held")
		}
	}
}
