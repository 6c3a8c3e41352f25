package reconnect

import (
	"slices"
	"time"
)

// A Pool is what the engines of one OpenCode process share: the permissions to connect
// (rule 5), and whether to be careful with them (rule 15).
type Pool struct {
	concurrency int
	engines     int // that are not closed
	running     int
	careful     bool      // one connect at a time, until one succeeds
	queue       []*slot   // first come, first served
	granted     []*slot   // to tries that waited for it and have not gone on yet
	pending     []*Engine // in the order in which something happened to them
}

// NewPool returns the pool of a process, for so many connects at once.
func NewPool(concurrency int) *Pool { return &Pool{concurrency: concurrency} }

// Pending returns the engines whose Actions or Next may have changed since their
// Actions were called last.
func (p *Pool) Pending() []*Engine { return slices.Clone(p.pending) }

func (e *Engine) touch() {
	if !e.pending {
		e.pending = true
		e.pool.pending = append(e.pool.pending, e)
	}
}

func (e *Engine) untouch() {
	e.pending = false
	e.pool.pending = slices.DeleteFunc(e.pool.pending, func(other *Engine) bool { return other == e })
}

// A slot is the permission for one connect.
type slot struct {
	engine   *Engine
	record   *record
	held     bool
	released bool
	waits    bool // it was not there at once
}

func (p *Pool) request(e *Engine, s *record) *slot {
	slot := &slot{engine: e, record: s}
	p.queue = append(p.queue, slot)
	p.grant()
	slot.waits = !slot.held
	return slot
}

func (p *Pool) release(s *slot) {
	if s.released {
		return
	}
	s.released = true
	if s.held {
		p.running--
	} else {
		p.queue = slices.DeleteFunc(p.queue, func(other *slot) bool { return other == s })
	}
	p.grant()
}

// leave is called by an engine that closes. What it knew of the machine ends with the last one.
func (p *Pool) leave() {
	if p.engines--; p.engines == 0 {
		p.careful = false
	}
}

func (p *Pool) stopBeingCareful() {
	p.careful = false
	p.grant()
}

func (p *Pool) grant() {
	for len(p.queue) > 0 && (p.running == 0 || p.running < p.concurrency && !p.careful) {
		s := p.queue[0]
		p.queue = p.queue[1:]
		p.running++
		if s.held = true; s.waits {
			p.granted = append(p.granted, s)
		}
	}
}

// continueGranted lets the tries go on that got the slot they waited for: not before
// whoever gave it back has done what it was about to do.
func (p *Pool) continueGranted(now time.Time) {
	for len(p.granted) > 0 {
		s := p.granted[0]
		p.granted = p.granted[1:]
		s.engine.input(now, func() { s.engine.granted(s.record) })
	}
}
