//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	before = 20              // entries of a time line, up to a violation
	after  = 5 * time.Second // of it, from a violation on
)

// A subject is a server of a directory; without a server it is the directory, and
// without that everything.
type subject struct{ dir, server string }

func (s subject) String() string {
	switch {
	case s.dir == "":
		return "everything"
	case s.server == "":
		return s.dir
	}
	return s.dir + "/" + s.server
}

// concerns reports whether what happened to s matters to other.
func (s subject) concerns(other subject) bool {
	return (s.dir == "" || other.dir == "" || s.dir == other.dir) &&
		(s.server == "" || other.server == "" || s.server == other.server)
}

type entry struct {
	at time.Time
	subject
	text      string
	violation bool
}

// A history is what happened, and what of it was wrong. Any goroutine may write it.
type history struct {
	begin   time.Time
	verbose bool

	mu      sync.Mutex
	entries []entry
	counts  map[string]int
}

func newHistory(verbose bool) *history {
	return &history{begin: time.Now(), verbose: verbose, counts: map[string]int{}}
}

func (h *history) write(e entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.at = time.Now()
	h.entries = append(h.entries, e)
	if h.verbose || e.violation {
		h.print(os.Stderr, e)
	}
}

func (h *history) print(w io.Writer, e entry) {
	mark := ""
	if e.violation {
		mark = "VIOLATION: "
	}
	fmt.Fprintf(w, "%8.2f s  %-14s %s%s\n", e.at.Sub(h.begin).Seconds(), e.subject, mark, e.text)
}

// note writes what happened.
func (h *history) note(s subject, format string, args ...any) {
	h.write(entry{subject: s, text: fmt.Sprintf(format, args...)})
}

// violate writes what must not be.
func (h *history) violate(s subject, format string, args ...any) {
	h.write(entry{subject: s, text: fmt.Sprintf(format, args...), violation: true})
}

// count counts something for the summary.
func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// counted is the summary: how often each thing happened.
func (h *history) counted() (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(h.counts)) {
		lines = append(lines, fmt.Sprintf("%5d  %s", h.counts[what], what))
	}
	return lines
}

// violations prints each with the time line around it, and returns how many there are.
func (h *history) violations(w io.Writer) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, v := range h.entries {
		if !v.violation {
			continue
		}
		n++
		fmt.Fprintf(w, "\nviolation %d, of %v:\n", n, v.subject)
		first := at
		for seen := 0; first > 0 && seen < before; first-- {
			if h.entries[first-1].concerns(v.subject) {
				seen++
			}
		}
		for _, e := range h.entries[first:] {
			if e.at.After(v.at.Add(after)) {
				break
			}
			if e.concerns(v.subject) {
				h.print(w, e)
			}
		}
	}
	return n
}
