//go:build linux

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

const (
	lookEvery = 200 * time.Millisecond
	ofStart   = connectTimeout + 3*time.Second // for which there may be two processes of a server
)

// lookOn looks until the end of ctx.
func (w *world) lookOn(ctx context.Context) {
	for ctx.Err() == nil {
		w.look()
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// look notes what happened since the last time, and what of it must not be.
func (w *world) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.servers() {
		if s.listener != nil {
			w.lookAtSessions(s)
		} else {
			w.lookAtProcesses(s)
		}
	}
	w.lookAtLog()
}

func (w *world) lookAtSessions(s *server) {
	opened, err := s.listener.Sessions()
	if err != nil {
		w.violate(s.subject, "%v", err)
	}
	for ; s.seen < opened; s.seen++ {
		w.count("session of a remote server")
		w.note(s.subject, "session opened")
		w.lookAtSwitch(s, time.Now())
	}
}

func (w *world) lookAtProcesses(s *server) {
	starts, err := s.dir.mcp.Starts(s.name)
	if err != nil {
		w.violate(s.subject, "%v", err)
	}
	for _, start := range starts[s.seen:] {
		w.count("process of a stdio server")
		w.note(s.subject, "process %d started", start.Pid)
		p, _ := process.Find(start.Pid)
		s.lives = append(s.lives, life{start.Pid, p.Began, start.At})
		w.lookAtSwitch(s, start.At)
	}
	s.seen = len(starts)
	s.lives = slices.DeleteFunc(s.lives, func(l life) bool {
		p, alive := process.Find(l.pid)
		ended := !alive || p.Began != l.began
		if ended {
			w.note(s.subject, "process %d ended", l.pid)
		}
		return ended
	})
	switch {
	case len(s.lives) < 2:
		s.two = time.Time{}
	case s.two.IsZero():
		s.two = time.Now()
		w.count("two processes of a server for a moment")
	case time.Since(s.two) > ofStart && !s.told:
		s.told = true // once is enough
		w.violate(s.subject, "%d processes for longer than a start takes: %v", len(s.lives), s.lives)
	}
}

// lookAtSwitch judges a start at a moment.
func (w *world) lookAtSwitch(s *server, at time.Time) {
	switch since := at.Sub(s.offSince); {
	case !s.off || since < 0:
	case since < grace:
		w.count("start of a server that was just switched off")
	default:
		w.violate(s.subject, "started %.1f s after it was switched off", since.Seconds())
	}
}

// lookAtLog notes what the plugin said in OpenCode's log, which does not name the
// directory.
func (w *world) lookAtLog() {
	log := w.opencode.Log()
	end := strings.LastIndexByte(log, '\n') + 1
	for line := range strings.Lines(log[w.logged:end]) {
		if _, said, ok := strings.Cut(line, `message="mcp-reconnect: `); ok {
			name, _, _ := strings.Cut(said, " ")
			s := subject{server: strings.TrimSuffix(name, ":")}
			if !slices.ContainsFunc(everyDirectory, func(k kindOfServer) bool { return k.name == s.server }) {
				s.server = ""
			}
			w.note(s, "log: %s", strings.TrimRight(said, "\"\n"))
		}
	}
	w.logged = end
}
