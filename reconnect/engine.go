package reconnect

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// The phases of a record, which template/shared.json explains.
const (
	waiting = "waiting" // a timer is set for its next try
	trying  = "trying"  // from that timer to the status read that shows what came of it
	parked  = "parked"  // given up: tried every probe-interval while in use, or on a prompt
	dormant = "dormant" // no timer: idle or paused, or there was no status; the next status plans anew
	up      = "up"      // connected again, not yet for stable-after: its count of tries lives on
	aside   = "aside"   // neither failed nor connected, so none of our business: nothing is planned
)

// A record is a server that failed. One without a record is well, or was never seen to fail.
type record struct {
	name        string
	phase       string
	timer       *timer // of the next try
	try         *try   // while trying
	tries       int
	error       string
	failedAt    time.Time
	upAt        time.Time
	aliveAt     time.Time // when it was known to be up last
	wokenAt     time.Time
	unconfirmed bool // the last connect was ours, and what came of it is not known
	announced   bool // that it is parked (rule 13)
}

// A try waits, in this order, for a read (rule 3), perhaps for a slot and another
// read (rule 5), for its connect, and for the read that shows what came of it (rule 11).
type try struct {
	slot      *slot
	lease     *timer // releases the slot (rule 5)
	connected bool   // the connect was begun
	settled   bool   // and is over
}

// An Engine reconnects the servers of one instance.
type Engine struct {
	policy    plugin.Policy
	pool      *Pool
	random    func() float64
	now       time.Time // of the call that is under way
	gone      bool      // nothing happens any more (rule 7)
	started   bool      // the instance has shown a sign of use (rule 2)
	paused    bool      // nothing is planned (rule 19)
	pending   bool      // for Pool.Pending
	usedAt    time.Time
	lookedAt  time.Time
	retriedAt time.Time // when the last Retry was asked for

	records []*record            // in the order of their first failure
	triedAt map[string]time.Time // rule 12: the least gap
	seen    map[string]*sighting
	timers  []*timer
	order   int      // of the last timer
	look    *timer   // set while a look is due
	poll    *timer   // set while started and in use, between two reads
	limit   *timer   // of the read under way
	reading *reading // the read under way
	next    *reading // the one that will start when that one ends
	actions []Action
}

// A reading is a status read, with the tries that wait for its answer.
type reading struct{ waiting []*record }

// New returns the engine of an instance. random, in [0, 1), is for the jitter. A sign
// of use starts it; with start=load that is one of the host's.
func New(p plugin.Policy, pool *Pool, random func() float64) *Engine {
	pool.engines++
	return &Engine{policy: p, pool: pool, random: random, triedAt: map[string]time.Time{}, seen: map[string]*sighting{}}
}

// input does what a call of the host's asks for, and what follows from it.
func (e *Engine) input(now time.Time, do func()) {
	if e.gone {
		return
	}
	e.now = now
	e.touch()
	do()
	if !e.gone {
		e.tell()
	}
	e.pool.continueGranted(now)
}

// -- Time

type timer struct {
	at    time.Time
	order int // timers of one time run in the order in which they were set
	do    func()
}

func (e *Engine) after(d time.Duration, do func()) *timer {
	e.order++
	t := &timer{e.now.Add(max(d, 0)), e.order, do}
	e.timers = append(e.timers, t)
	return t
}

func (e *Engine) cancel(t *timer) {
	e.timers = slices.DeleteFunc(e.timers, func(other *timer) bool { return other == t })
}

func (e *Engine) firstTimer() *timer {
	if len(e.timers) == 0 {
		return nil
	}
	return slices.MinFunc(e.timers, func(a, b *timer) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.order - b.order
	})
}

// Next returns when Advance is wanted next, if it is.
func (e *Engine) Next() (at time.Time, ok bool) {
	if t := e.firstTimer(); t != nil {
		return t.at, true
	}
	return time.Time{}, false
}

// Advance does what is due, up to what makes the host act: that comes first, and Next
// says that there is more.
func (e *Engine) Advance(now time.Time) {
	before := len(e.actions)
	for t := e.firstTimer(); t != nil && !t.at.After(now) && len(e.actions) == before; t = e.firstTimer() {
		e.cancel(t)
		e.input(now, t.do)
	}
}

func (e *Engine) idle() bool { return e.now.Sub(e.usedAt) >= e.policy.IdleAfter }

// WokeUp says that the machine slept: what failed then failed for want of a network (rule 14).
func (e *Engine) WokeUp(now time.Time) {
	e.input(now, func() {
		for _, s := range e.records {
			if (s.phase == waiting || s.phase == parked) && e.mayWake(s) {
				s.tries = 0
				e.plan(s, waiting, e.policy.FirstDelay)
			}
		}
	})
}

// wake tries what was given up (rule 13).
func (e *Engine) wake() {
	for _, s := range e.records {
		if (s.phase == parked || s.phase == dormant) && e.mayWake(s) {
			e.plan(s, waiting, e.policy.FirstDelay)
		}
	}
}

func (e *Engine) mayWake(s *record) bool {
	if e.now.Sub(s.wokenAt) < shared().Constants.WakeGap {
		return false
	}
	s.wokenAt = e.now
	return true
}

// -- Status

// read asks for a status for s, or for nobody (nil): one read at a time (rule 16),
// and one that starts no sooner than it is asked for, so that the answer is never
// older than the question.
func (e *Engine) read(s *record) {
	r := &e.next
	if e.reading == nil {
		e.startRead()
		r = &e.reading
	} else if e.next == nil {
		e.next = &reading{}
	}
	if s != nil {
		(*r).waiting = append((*r).waiting, s)
	}
}

func (e *Engine) startRead() {
	e.cancel(e.poll)
	e.reading = &reading{}
	e.limit = e.after(shared().Constants.ReadLimit, func() { e.answered(nil) })
	e.act(ReadStatus{})
}

// Read takes the answer to the last ReadStatus, by the servers' names; nil where
// there is none: an error, a refusal, something malformed (rule 16).
func (e *Engine) Read(now time.Time, answer map[string]Status) {
	e.input(now, func() {
		if e.reading != nil {
			e.answered(answer)
		}
	})
}

func (e *Engine) answered(answer map[string]Status) {
	e.cancel(e.limit)
	done := e.reading
	e.reading = nil
	if answer != nil {
		e.observe(answer)
	}
	if e.poll = nil; !e.idle() {
		e.poll = e.after(e.policy.PollInterval, func() {
			if !e.idle() {
				e.read(nil)
			}
		})
	}
	for _, s := range done.waiting {
		e.goOn(s, answer)
	}
	if next := e.next; next != nil {
		e.next = nil
		e.startRead()
		e.reading.waiting = next.waiting
	}
}

// lookSoon reads the status, once for all events of a second (rule 10).
func (e *Engine) lookSoon() {
	if e.look != nil {
		return
	}
	e.look = e.after(e.lookedAt.Add(shared().Constants.LookGap).Sub(e.now), func() {
		e.look = nil
		e.lookedAt = e.now
		e.read(nil)
	})
}

func (e *Engine) observe(answer map[string]Status) {
	e.show(answer)
	for _, s := range slices.Clone(e.records) {
		if s.phase != trying {
			e.judge(s, answer)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(answer)) {
		if status := answer[name]; status.State == "failed" && e.record(name) == nil && e.concerns(name) {
			s := &record{name: name, error: status.Error, failedAt: e.now}
			e.records = append(e.records, s)
			e.retry(s, false)
		}
	}
}

// judge says what a status means for a server that has a record and no try under way.
func (e *Engine) judge(s *record, answer map[string]Status) {
	status, configured := answer[s.name]
	unconfirmed := s.unconfirmed
	s.unconfirmed = unconfirmed && status.State == "pending" // nor is it yet
	if status.State == "failed" {
		s.error = status.Error
		switch s.phase {
		case waiting, parked:
			return
		case up:
			// Rule 12: only a connection that was seen to last ends an outage.
			if s.aliveAt.Sub(s.upAt) >= e.policy.StableAfter {
				s.tries, s.announced, s.failedAt = 0, false, e.now
			}
		}
		e.retry(s, s.phase == dormant)
		return
	}
	if status.State == "connected" && unconfirmed {
		e.isBack(s)
		return
	}
	if status.State == "connected" && s.phase == up {
		s.aliveAt = e.now
		if s.aliveAt.Sub(s.upAt) < e.policy.StableAfter {
			return
		}
	}
	// Rule 12: connected for good, or without us, or disabled, or no longer configured.
	if !configured || status.State == "connected" || status.State == "disabled" {
		e.forget(s)
		return
	}
	e.move(s, aside) // rule 1
}

// -- A server's schedule. move alone changes a phase, plan alone sets a server's timer (rule 9).

func (e *Engine) move(s *record, phase string) {
	e.cancel(s.timer)
	s.timer = nil
	s.phase = phase
}

func (e *Engine) plan(s *record, phase string, delay time.Duration) {
	if e.paused {
		e.move(s, dormant)
		return
	}
	e.move(s, phase)
	if tried, ok := e.triedAt[s.name]; ok {
		delay = max(delay, tried.Add(e.policy.FirstDelay).Sub(e.now))
	}
	s.timer = e.after(delay, func() { e.attempt(s) })
}

func (e *Engine) forget(s *record) {
	e.cancel(s.timer)
	e.records = slices.DeleteFunc(e.records, func(other *record) bool { return other == s })
}

func (e *Engine) record(name string) *record {
	for _, s := range e.records {
		if s.name == name {
			return s
		}
	}
	return nil
}

// retry plans the next try: after one that failed, after a connection that did not
// last, or at the first sight of a failure; soon, if the last delay has passed unused.
func (e *Engine) retry(s *record, soon bool) {
	overload := says(s.error, "overloaded") != nil // rule 15
	if overload {
		e.pool.careful = true
	}
	limit := e.policy.MaxAttempts
	if says(s.error, "missing") != nil {
		limit = min(limit, shared().Constants.MissingTries)
	}
	switch {
	case s.tries >= limit:
		e.plan(s, parked, e.jittered(e.policy.ProbeInterval))
		if !s.announced {
			s.announced = true
			e.act(Log{"warn", fmt.Sprintf("%s is still failed after %s; it is now tried rarely, and on a prompt", s.name, count(s.tries))})
		}
	case overload:
		e.plan(s, waiting, e.jittered(e.policy.MaxDelay))
	case soon:
		e.plan(s, waiting, e.backoff(0))
	default:
		e.plan(s, waiting, e.backoff(s.tries))
	}
}

// backoff is the delay before the next try of a server that was tried so often in this outage.
func (e *Engine) backoff(tries int) time.Duration {
	if tries == 0 {
		return e.jittered(e.policy.FirstDelay)
	}
	doubled := float64(e.policy.InitialDelay) * math.Pow(2, float64(tries-1))
	return e.jittered(time.Duration(min(float64(e.policy.MaxDelay), doubled)))
}

func (e *Engine) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + e.policy.Jitter*(2*e.random()-1)))
}

func count(tries int) string {
	if tries == 1 {
		return "1 try"
	}
	return fmt.Sprint(tries, " tries")
}

// -- A try

func (e *Engine) attempt(s *record) {
	if e.idle() { // what nobody uses costs nothing
		e.move(s, dormant)
		return
	}
	e.move(s, trying)
	s.try = &try{}
	e.read(s)
}

// goOn goes on with a try after a read that it waited for.
func (e *Engine) goOn(s *record, answer map[string]Status) {
	t := s.try
	switch {
	case t.settled, e.paused, answer[s.name].State != "failed":
		e.settle(s, answer)
		e.endLease(s)
		s.try = nil
	case t.slot != nil && !t.slot.released:
		e.connect(s)
	default:
		// A read holds no slot for longer than a connect may: who had to wait for a slot
		// reads once more, and asks for another slot if that took too long.
		if t.slot = e.pool.request(e, s); t.slot.held {
			e.connect(s)
		}
	}
}

// granted goes on with a try that waited for its slot.
func (e *Engine) granted(s *record) {
	e.lease(s)
	e.read(s)
}

func (e *Engine) connect(s *record) {
	s.tries++
	e.triedAt[s.name] = e.now
	s.try.connected = true
	e.lease(s)
	e.act(Connect{s.name})
}

// Settled says that the connect of the server is over.
func (e *Engine) Settled(now time.Time, server string) {
	e.input(now, func() {
		s := e.record(server)
		if s == nil || s.try == nil || !s.try.connected || s.try.settled {
			return
		}
		s.try.settled = true
		e.endLease(s)
		e.read(s) // rule 11
	})
}

func (e *Engine) lease(s *record) {
	slot := s.try.slot
	e.cancel(s.try.lease)
	s.try.lease = e.after(e.policy.ConnectTimeout, func() { e.pool.release(slot) })
}

func (e *Engine) endLease(s *record) {
	e.cancel(s.try.lease)
	if s.try.slot != nil {
		e.pool.release(s.try.slot)
	}
}

// settle ends a try by what the status says.
func (e *Engine) settle(s *record, answer map[string]Status) {
	s.unconfirmed = s.unconfirmed || s.try.settled
	if answer == nil {
		// Rule 16: no answer is no failure; nothing is counted, nothing forgotten.
		e.move(s, dormant)
		return
	}
	e.judge(s, answer)
}

func (e *Engine) isBack(s *record) {
	s.upAt, s.aliveAt = e.now, e.now
	e.move(s, up)
	e.pool.stopBeingCareful()
	e.act(Log{"info", fmt.Sprintf("%s is back (%s, %.1f s)", s.name, count(s.tries), s.upAt.Sub(s.failedAt).Seconds())})
}

// -- What the host tells

// Used says that the instance shows a sign of use (rule 2), perhaps of one server.
func (e *Engine) Used(now time.Time, use Use, server string) {
	e.input(now, func() {
		if !e.started {
			if e.policy.Start == "mcp" && use != MCP {
				return
			}
			e.started = true
			e.act(Log{"info", "active"})
		}
		if s := e.record(server); s != nil && s.phase == up {
			s.aliveAt = e.now // it was alive until it said so, or dropped
		}
		wasIdle := e.idle()
		// A crash is an mcp event: it must not keep an instance in use that nobody prompts.
		if use != MCP || wasIdle {
			e.usedAt = e.now
		}
		if use == Prompt || wasIdle {
			e.wake()
		}
		if use == Prompt || use == MCP || wasIdle {
			e.lookSoon()
		}
	})
}

// Pause says whether reconnecting is paused (rule 19).
func (e *Engine) Pause(now time.Time, paused bool) {
	e.input(now, func() {
		if e.paused == paused {
			return
		}
		e.paused = paused
		if !paused && e.started {
			e.wake()
			e.lookSoon()
		}
		for _, s := range e.records {
			if paused && (s.phase == waiting || s.phase == parked) {
				e.move(s, dormant)
			}
		}
	})
}

// Retry forgets the back-off of the servers, of all if none is named, and tries them now
// (rule 19). An instance that is not in use stays so (rule 2).
func (e *Engine) Retry(now time.Time, servers []string) {
	e.input(now, func() {
		if !e.started {
			return
		}
		e.retriedAt = e.now
		known := func(name string) bool { return e.seen[name] != nil && e.seen[name].state != "" }
		if len(servers) > 0 && len(e.seen) > 0 && !slices.ContainsFunc(servers, known) {
			return // it is about other instances
		}
		e.usedAt = e.now // somebody waits for it
		for _, s := range e.records {
			if len(servers) > 0 && !slices.Contains(servers, s.name) {
				continue
			}
			// Not bound to rule 13's minute: it is no loop that asks.
			s.tries, s.announced, s.failedAt = 0, false, e.now
			if s.try != nil && s.try.connected && !s.try.settled {
				s.tries = 1 // the one under way counts
			}
			if s.phase == waiting || s.phase == parked || s.phase == dormant {
				e.plan(s, waiting, 0)
			}
		}
		e.lookSoon()
	})
}

// Close ends the engine, as the instance's disposal does (rule 7): its slots are given
// back, and nothing happens any more.
func (e *Engine) Close(now time.Time) {
	e.input(now, func() {
		e.gone = true
		e.timers = nil
		e.Actions()
		for _, s := range e.records {
			if s.try != nil && s.try.slot != nil {
				e.pool.release(s.try.slot)
			}
		}
		e.records, e.reading, e.next = nil, nil, nil
		e.pool.leave()
	})
}

// -- What the host is told

func (e *Engine) act(a Action) { e.actions = append(e.actions, a) }

// Actions returns what is to be done, in its order, and forgets it.
func (e *Engine) Actions() []Action {
	actions := e.actions
	e.actions = nil
	e.untouch()
	return actions
}
