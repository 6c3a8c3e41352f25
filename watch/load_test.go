package watch

import (
	"flag"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var load = flag.Duration("load", 6*time.Second, "how long TestLoad goes on, on a machine that keeps up")

// TestLoad: 50 targets send 1,000 events a second, or as many as this machine can, most of
// which are of no concern. Every 3 s a server of each dies, if it is back. A healthy
// subscriber hears of every single one, in order, and memory does not grow.
func TestLoad(t *testing.T) {
	policy := steady()
	policy.StableAfter = 0 // or what dies every 3 s would be tried ever more slowly
	w, err := New(Options{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()

	var mu sync.Mutex
	back := map[string]int{}   // target -> servers that came back
	last := map[string]Event{} // target -> the last change of its server
	events := 0
	w.Subscribe(func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events++
		switch e.Type {
		case StateChanged:
			if previous, ok := last[e.URL]; ok && previous.To != e.From {
				t.Errorf("%+v follows %+v", e, previous)
			}
			last[e.URL] = e
		case ToolsChanged:
			back[e.URL]++
		}
	})
	w.Subscribe(func(Event) { select {} }) // one that blocks for ever

	const rate = 1000
	models := make([]*model, MaxTargets)
	urls := make([]string, MaxTargets)
	for n := range models {
		models[n] = newModel(1)
		server := httptest.NewServer(models[n])
		t.Cleanup(func() { // after the Watcher, which would open its stream again at once
			server.CloseClientConnections()
			server.Close()
		})
		models[n].set(dir, "s", "connected")
		urls[n] = server.URL
		if _, err := w.Connect(Target{URL: server.URL}); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("still not so: " + what)
			}
		}
	}
	eventually("all are connected", func() bool {
		for _, s := range w.States() {
			if s.State != Connected {
				return false
			}
		}
		return true
	})
	for _, m := range models {
		m.prompt(dir)
	}
	known := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(last)
	}
	eventually("all servers are known", func() bool { return known() == MaxTargets })

	noise := strings.Repeat("x", 500)
	heap := func() int {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int(s.HeapAlloc) >> 10
	}
	drops := make([]int, MaxTargets)
	isBack := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return back[urls[n]] == drops[n] && last[urls[n]].To == "connected"
	}
	sent := 0
	start, before := time.Now(), 0
	const second = rate / MaxTargets // in ticks, each of which has an event of each target
	ticks := second * int(*load/time.Second)
	for tick := range ticks {
		if tick == ticks/4 {
			before = heap()
		}
		for n, m := range models {
			if tick < ticks-3*second && (tick+n)%(3*second) == 0 && isBack(n) {
				m.drops(dir, "s")
				drops[n]++
			} else {
				m.event(dir, "message.part.updated", map[string]any{"part": map[string]string{"text": noise}})
			}
			sent++
		}
		time.Sleep(time.Until(start.Add(time.Duration(tick+1) * time.Second / second)))
	}
	took := time.Since(start)
	for n, url := range urls {
		eventually("the server of "+url+" is back", func() bool { return isBack(n) })
	}
	after := heap()
	total := 0
	for _, n := range drops {
		total += n
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d events in %v (%.0f/s), %d servers died and came back, %d events told; heap %d KiB, then %d KiB",
		sent, took.Round(time.Second), float64(sent)/took.Seconds(), total, events, before, after)
	if total < MaxTargets {
		t.Error("not every server died")
	}
	if after > before+4<<10 {
		t.Errorf("the heap grew from %d to %d KiB", before, after)
	}
}
