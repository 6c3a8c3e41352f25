package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
)

// maxLines is how many lines standard error may be behind before the oldest are dropped.
const maxLines = 1000

// A lineQueue writes lines on a goroutine of its own: a terminal that somebody stopped, or
// a pipe that nobody reads, stops whoever writes to it, and must stop nothing else.
type lineQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	lines   []string
	dropped int // that stood in front of lines
	closed  bool
	written chan struct{} // closed when all is written, after close
}

func newLineQueue(w io.Writer) *lineQueue {
	q := &lineQueue{written: make(chan struct{})}
	q.changed.L = &q.mu
	go func() {
		defer close(q.written)
		for text, ok := q.next(); ok; text, ok = q.next() {
			_, _ = fmt.Fprintf(w, "mcp-reconnect: %s\n", text) // there is nowhere else to say that it fails
		}
	}()
	return q
}

// add takes a line, and never waits.
func (q *lineQueue) add(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == maxLines {
		q.lines = q.lines[1:]
		q.dropped++
	}
	q.lines = append(q.lines, oneline.Text(text))
	q.changed.Signal()
}

// next waits for a line. There is none when the queue is closed and empty.
func (q *lineQueue) next() (text string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.changed.Wait()
	}
	if n := q.dropped; n > 0 {
		q.dropped = 0
		return fmt.Sprintf("%d lines were dropped, since they were not taken in time", n), true
	}
	if len(q.lines) == 0 {
		return "", false
	}
	text = q.lines[0]
	q.lines = q.lines[1:]
	return text, true
}

// close waits until the lines are written, for so long at most.
func (q *lineQueue) close(most time.Duration) {
	q.mu.Lock()
	q.closed = true
	q.changed.Signal()
	q.mu.Unlock()
	select {
	case <-q.written:
	case <-time.After(most):
	}
}

// logLevels are the lines that each word of the policy for a log lets through.
var logLevels = map[string]slog.Level{
	"info": slog.LevelInfo,
	"warn": slog.LevelWarn,
	"none": slog.LevelError + 1,
}

// A lineHandler writes a log in this program's words: "URL: DIR: text".
type lineHandler struct {
	queue  *lineQueue
	level  slog.Level
	before string // what the attributes are written as
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := h.before
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "stack" {
			line += a.Value.String() + ": "
		}
		return true
	})
	h.queue.add(line + r.Message)
	return nil
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.before += a.Value.String() + ": "
	}
	return &with
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }
