//go:build linux

package main

import (
	"slices"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
)

const (
	peaceful   = 2 * time.Minute
	secondTime = 65 * time.Second // of prompts: longer than rule 13's minute
	pollEvery  = time.Second
)

// peace makes every server able to run, has a person call each one's tool when it
// begins and once more, and returns how long it took until all were connected; zero
// if that never was.
func (w *world) peace() (took time.Duration) {
	w.mendAll()
	begin := time.Now()
	w.note(subject{}, "peace: every server could run")
	for _, d := range w.dirs {
		w.acting.Go(func() {
			w.callsTools(d, d.servers)
			w.pause(time.Until(begin.Add(secondTime)))
			w.callsTools(d, d.servers)
		})
	}
	for time.Since(begin) < peaceful {
		testbed.Pause(w.ctx, pollEvery)
		if took == 0 && w.allConnected() {
			took = time.Since(begin)
			w.note(subject{}, "peace: every server is connected")
		}
	}
	w.acting.Wait()
	return took
}

// callsTools calls the tools of those of a directory's servers that are on, and
// returns for which it failed.
func (w *world) callsTools(d *directory, servers []*server) (failed []*server) {
	d.asking.Lock()
	defer d.asking.Unlock()
	for _, s := range servers {
		if !w.read(func() bool { return s.off }) && !w.callsTool(s) {
			failed = append(failed, s)
		}
	}
	return failed
}

func (w *world) allConnected() bool {
	for _, d := range w.dirs {
		status, err := w.opencode.MCP(w.ctx, d.path)
		if err != nil {
			return false
		}
		for _, s := range d.servers {
			if status[s.name].Status != "connected" && !w.read(func() bool { return s.off }) {
				return false
			}
		}
	}
	return true
}

// judge finds what is not as it has to be at the end.
func (w *world) judge() {
	w.look()
	expected := []int{w.opencode.Pid}
	right := make([][]*server, len(w.dirs))
	for n, d := range w.dirs {
		status := testbed.Must(w.opencode.MCP(w.ctx, d.path))
		for _, s := range d.servers {
			w.mu.Lock()
			off, lives := s.off, slices.Clone(s.lives)
			w.mu.Unlock()
			for _, l := range lives {
				expected = append(expected, l.pid)
			}
			want, processes := "connected", 1
			if off {
				want, processes = "disabled", 0
			}
			if got := status[s.name]; got.Status != want {
				w.violate(s.subject, "is %s at the end, not %s: %s", got.Status, want, got.Error)
			} else if s.listener == nil && len(lives) != processes {
				w.violate(s.subject, "has %d processes at the end, not %d: %v", len(lives), processes, lives)
			} else {
				right[n] = append(right[n], s)
			}
		}
	}
	for _, pid := range testbed.Must(group(w.opencode.Pid)) {
		if !slices.Contains(expected, pid) {
			w.violate(subject{}, "process %d is left over: %s", pid, commandLine(pid))
		}
	}
	var calls sync.WaitGroup
	for n, d := range w.dirs {
		calls.Go(func() {
			for _, s := range w.callsTools(d, right[n]) {
				w.violate(s.subject, "its tool cannot be called at the end")
			}
		})
	}
	calls.Wait()
}
