//go:build unix

package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// The benchmarks measure the real OpenCode, each in one go:
//
//	go test . -run '^$' -bench Recovery -benchtime 20x
//	go test . -run '^$' -bench StartPath -benchtime 10x

// A connection is stable at once, so that each kill begins an outage of its own.
var stable = setup{policy: []string{"MCP_RECONNECT_STABLE_AFTER=0"}}

// BenchmarkRecovery: from a server's death until OpenCode calls it connected,
// and, as the least that can take, OpenCode's own time to start it.
func BenchmarkRecovery(b *testing.B) {
	w := launch(b, stable).project(b).stdios("a")
	w.prompt("hello")
	var starts, recoveries []time.Duration
	for range b.N {
		starts = append(starts, w.restart("a"))
		quiet()
		began := time.Now()
		before := w.connections("a")
		w.kill("a")
		w.await("a", before+1)
		recoveries = append(recoveries, time.Since(began))
	}
	report(b, "recovery", recoveries)
	report(b, "start", starts)
	b.ReportMetric(float64(median(recoveries))/float64(median(starts)), "recovery/start")
}

// BenchmarkMassRecovery: 8 directories of 6 servers, all killed at once. The least
// that can take is to have OpenCode start them all, as many at a time.
func BenchmarkMassRecovery(b *testing.B) {
	const directories, concurrency = 8, 4
	names := []string{"a", "b", "c", "d", "e", "f"}
	app := launch(b, stable)
	var worlds []*world
	for range directories {
		w := app.project(b).stdios(names...)
		w.prompt("hello")
		worlds = append(worlds, w)
	}
	each := func(do func(w *world, name string)) {
		for _, w := range worlds {
			for _, name := range names {
				do(w, name)
			}
		}
	}
	var starts, restarts, recoveries []time.Duration
	for range b.N {
		for range 5 {
			starts = append(starts, worlds[0].restart("a"))
		}
		quiet()
		began := time.Now()
		var group sync.WaitGroup
		slots := make(chan struct{}, concurrency)
		each(func(w *world, name string) {
			slots <- struct{}{}
			group.Go(func() {
				w.restart(name)
				<-slots
			})
		})
		group.Wait()
		restarts = append(restarts, time.Since(began))
		quiet()
		before := map[*world]map[string]int{}
		each(func(w *world, name string) {
			if before[w] == nil {
				before[w] = map[string]int{}
			}
			before[w][name] = w.connections(name)
		})
		began = time.Now()
		each((*world).kill)
		each(func(w *world, name string) { w.await(name, before[w][name]+1) })
		recoveries = append(recoveries, time.Since(began))
	}
	report(b, "recovery", recoveries)
	report(b, "restart", restarts)
	report(b, "start", starts)
	b.ReportMetric(float64(median(recoveries))/float64(median(restarts)), "recovery/restart")
	bound := time.Duration(directories*len(names)/concurrency)*median(starts) + 2*time.Second
	b.ReportMetric(float64(median(recoveries))/float64(bound), "recovery/bound")
}

// BenchmarkStartPath: what the plugin adds until OpenCode listens, and until it
// has answered the first prompt, in turns without it and with it.
func BenchmarkStartPath(b *testing.B) {
	binary := testenv.OpenCode(b, testenv.OpenCodeVersion())
	model := opencode.NewModel()
	b.Cleanup(model.Close)
	listens, answers := map[bool][]time.Duration{}, map[bool][]time.Duration{}
	for n := range b.N {
		for _, plugin := range []bool{n%2 == 0, n%2 != 0} {
			a := &app{root: b.TempDir(), ctx: b.Context(), model: model}
			home := a.mkdir(b, "home")
			environ := []string{"OPENCODE_CONFIG_CONTENT=" + a.content(b), "MCP_RECONNECT_DATA_DIR=" + home}
			if plugin {
				environ[0] = "OPENCODE_CONFIG_CONTENT=" + merged(b, environ)
			}
			began := time.Now()
			var err error
			a.server, err = opencode.Start(a.ctx, opencode.Options{
				Command:   []string{binary},
				Home:      home,
				ConfigDir: configDir(b, testenv.OpenCodeVersion()),
				Dir:       a.mkdir(b, "start"),
				Environ:   environ,
			})
			if err != nil {
				b.Fatal(err)
			}
			listens[plugin] = append(listens[plugin], time.Since(began))
			w := a.project(b).stdios("a", "b")
			began = time.Now()
			w.prompt("hello")
			answers[plugin] = append(answers[plugin], time.Since(began))
			a.server.Stop()
			<-a.server.Ended()
		}
	}
	for what, times := range map[string]map[bool][]time.Duration{"listening": listens, "answer": answers} {
		report(b, what+"-without", times[false])
		report(b, what+"-with", times[true])
		b.ReportMetric(float64(median(times[true]))/float64(median(times[false])), what+"-with/without")
	}
}

// quiet lets events be over: looks at the status are a second apart (rule 10).
func quiet() { time.Sleep(1500 * time.Millisecond) }

// connections counts how often a server was connected, as it sees it: reading the
// status the whole time would take the time from OpenCode.
func (w *world) connections(name string) int {
	w.t.Helper()
	return len(w.lines(name, "tools"))
}

// await waits for the nth connection of a server, and until OpenCode says so.
func (w *world) await(name string, n int) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); w.connections(name) < n || w.state(name) != "connected"; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s is still not connected", name)
		}
	}
}

// restart has OpenCode start a server again, and says how long that takes: what
// no plugin can be faster than.
func (w *world) restart(name string) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.post("/mcp/" + name + "/connect")
	return time.Since(began)
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// report prints the median in milliseconds, and the extremes to the log.
func report(b *testing.B, what string, times []time.Duration) {
	b.ReportMetric(float64(median(times).Microseconds())/1000, what+"-ms")
	b.Log(what, fmt.Sprintf("%d times: %v to %v", len(times), slices.Min(times), slices.Max(times)))
}
