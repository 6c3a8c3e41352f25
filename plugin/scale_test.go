package plugin_test

import (
	"fmt"
	"runtime"
	"time"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// everythingFailsAtOnce: 34 directories with 21 servers each, all in use. The
// bound is that of a queue with `concurrency` counters: each server holds a slot for
// its connect and one read, and the longest wait is that of the last in line,
// after the first delay and its jitter. To it comes the read that notices.
func everythingFailsAtOnce(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.Jitter = 0.2 })
	names := make([]string, 21)
	for n := range names {
		names[n] = fmt.Sprintf("server-%02d", n)
	}
	for n := range 34 {
		s.load(fmt.Sprintf("/project-%d", n), names...).prompt()
	}
	s.pass(10 * second)
	for _, i := range s.instances {
		i.mustBe("connected", names...)
		for _, name := range names {
			i.crash(name)
		}
	}
	servers := len(s.instances) * len(names)
	const connect, read = 100 * ms, ms
	bound := 120*ms + read + time.Duration(servers/s.policy.Concurrency+1)*(connect+2*read)
	s.pass(bound)
	for _, i := range s.instances {
		i.mustBe("connected", names...)
		for _, name := range names {
			if n := len(i.servers[name].tried); n != 1 {
				t.Errorf("%s in %s took %d tries", name, i.dir, n)
			}
		}
	}
	if s.most != s.policy.Concurrency {
		t.Errorf("at most %d connects were in flight, want %d", s.most, s.policy.Concurrency)
	}
	t.Logf("%d servers are back within %v", servers, bound)
}

// memoryStaysFlat lets a server crash once an hour, and a second one fail for
// good, for a month.
func memoryStaysFlat(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a", "broken")
	i.servers["broken"].up = false
	day := func() uint64 {
		for range 24 {
			i.prompt()
			s.pass(30 * minute)
			i.crash("a")
			s.pass(30 * minute)
			i.mustBe("connected", "a")
		}
		// What the model remembers is not the engine's.
		s.history, i.log, i.servers["a"].tried, i.servers["broken"].tried = nil, nil, nil, nil
		runtime.GC()
		runtime.GC() // and what the finalizers of the first one let go
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	day()
	first := day()
	timers := s.pluginTimers()
	var last uint64
	for range 28 {
		last = day()
	}
	if last > first+64<<10 {
		t.Errorf("%d KiB after a month, %d KiB after two days", last>>10, first>>10)
	}
	if n := s.pluginTimers(); n != timers {
		t.Errorf("%d timers after a month, %d after two days", n, timers)
	}
}

// registryAfterManyLives: nothing of a thousand instances is left (A43).
func registryAfterManyLives(t *scenarioT) {
	s := simulate(t, nil)
	for n := range 1000 {
		i := s.load(fmt.Sprintf("/project-%d", n%7), "a")
		i.prompt()
		s.pass(20 * ms)
		i.crash("a")
		s.pass(time.Duration(n%300) * ms)
		i.dispose()
		i.disposed = true
		s.instances = s.instances[:0]
	}
	if left := s.engine.left(); left != "" {
		t.Errorf("%s is left", left)
	}
	if n := s.pluginTimers(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}
