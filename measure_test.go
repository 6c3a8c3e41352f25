//go:build unix

package main

import (
	"fmt"
	"slices"
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

// BenchmarkRecovery: from a server's death until OpenCode calls it connected.
func BenchmarkRecovery(b *testing.B) {
	w := launch(b, stable).project(b).stdios("a")
	w.prompt("hello")
	var starts, recoveries []time.Duration
	for range b.N {
		starts = append(starts, w.restart("a"))
		time.Sleep(1500 * time.Millisecond) // looks at the status are this far apart (rule 10)
		before := w.starts("a")
		began := time.Now()
		w.kill("a")
		w.await(func() bool { return w.starts("a") > before && w.state("a") == "connected" })
		recoveries = append(recoveries, time.Since(began))
	}
	report(b, "recovery", recoveries)
	report(b, "start", starts)
}

// BenchmarkMassRecovery: 8 directories of 6 servers, all killed at once.
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
	var starts, recoveries []time.Duration
	for range b.N {
		starts = append(starts, worlds[0].restart("a"))
		time.Sleep(1500 * time.Millisecond)
		before := map[*world]int{}
		for _, w := range worlds {
			for _, name := range names {
				before[w] += w.starts(name)
			}
		}
		began := time.Now()
		for _, w := range worlds {
			for _, name := range names {
				w.kill(name)
			}
		}
		for _, w := range worlds {
			w.await(func() bool {
				n := 0
				for _, name := range names {
					n += w.starts(name)
				}
				return n == before[w]+len(names) && w.allConnected(len(names))
			})
		}
		recoveries = append(recoveries, time.Since(began))
	}
	report(b, "recovery", recoveries)
	report(b, "start", starts)
	bound := directories*len(names)/concurrency*int(median(starts)) + int(2*time.Second)
	b.ReportMetric(float64(median(recoveries))/float64(bound), "of-bound")
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
		b.ReportMetric(float64(median(times[true]))/float64(median(times[false])), what+"-ratio")
	}
}

// await is eventually without its pauses.
func (w *world) await(holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("still not so")
		}
	}
}

func (w *world) allConnected(want int) bool {
	w.t.Helper()
	status, err := w.server.MCP(w.ctx, w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, s := range status {
		if s.Status == "connected" {
			n++
		}
	}
	return n == want
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
