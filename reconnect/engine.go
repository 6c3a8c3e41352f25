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
	up      = "up"      // connected again, and its count of tries has not gone down to nothing yet
	aside   = "aside"   // neither failed nor connected, so none of our business: nothing is planned

	// OpenCode calls the server connected, and it is to be restarted (rule 20).
	dead     = "dead"     // a call proved that the connection is gone
	outdated = "outdated" // the server itself denied a tool that OpenCode offers; no timer: left alone
)

// forced is why a connected server is restarted that somebody named. The other causes
// have the names of their phases.
const forced = "forced"

// A record is a server that failed, or that is to be restarted. One without a record is
// well, or was never seen to fail.
type record struct {
	name    string
	phase   string
	timer   *timer // of the next try
	try     *try   // while trying
	error   string
	count   float64   // of tries, for the back-off: as it was when the server was connected last (rule 12)
	upAt    time.Time // since when it is connected
	aliveAt time.Time // when it was known to be up last
	cause   string    // why it is to be restarted though it is connected: dead, outdated or forced
	reason  string    // the cause of the last try

	wokenAt     time.Time
	wanted      bool // it was asked for within the minute after wokenAt (rule 13)
	unconfirmed bool // the last connect was ours, and what came of it is not known
	announced   bool // that it is parked (rule 13)

	// The outage, for people: it ends when the count has gone down to nothing.
	outageAt time.Time // when it began
	tries    int       // in it
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
	triedAt map[string]time.Time // when a server was started last (rule 12)
	seen    map[string]*sighting
	calls   calls    // that are running
	remotes []string // the servers that are reached over a network (rule 20)

	configured    bool // that is known
	noticesDeaths bool // OpenCode notices by itself that a local server is gone
	timers        []*timer
	order         int      // of the last timer
	look          *timer   // set while a look is due
	poll          *timer   // set while started and in use, between two reads
	limit         *timer   // of the read under way
	reading       *reading // the read under way
	next          *reading // the one that will start when that one ends
	actions       []Action
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
				s.count = 0
				e.plan(s, waiting, e.policy.FirstDelay)
			}
		}
	})
}

// wake tries what was given up (rule 13): now, or when the minute is over.
func (e *Engine) wake() {
	for _, s := range e.records {
		switch {
		case s.phase != parked && s.phase != dormant || s.cause != "":
		case !e.paused && e.mayWake(s):
			e.plan(s, waiting, e.policy.FirstDelay)
		default:
			s.wanted = true
			if s.phase == parked {
				e.plan(s, parked, min(s.timer.at.Sub(e.now), e.untilAwake(s)))
			}
		}
	}
}

func (e *Engine) mayWake(s *record) bool {
	if !s.wokenAt.IsZero() && e.untilAwake(s) > 0 {
		return false
	}
	s.wokenAt, s.wanted = e.now, false
	return true
}

// untilAwake is how long it takes until the server may be woken again.
func (e *Engine) untilAwake(s *record) time.Duration {
	return s.wokenAt.Add(shared().Constants.WakeGap).Sub(e.now)
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
		if e.reading == nil { // else one of those has started it
			e.startRead()
		}
		e.reading.waiting = append(e.reading.waiting, next.waiting...)
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
			s := e.newRecord(name)
			s.error = status.Error
			e.retry(s)
		}
	}
}

// judge says what a status means for a server that has a record and no try under way.
func (e *Engine) judge(s *record, answer map[string]Status) {
	status, configured := answer[s.name]
	connected := status.State == "connected"
	unconfirmed := s.unconfirmed
	s.unconfirmed = unconfirmed && status.State == "pending" // nor is it yet
	switch {
	case status.State == "failed":
		s.error, s.cause, s.reason = status.Error, "", ""
		if s.phase == waiting || s.phase == parked {
			return
		}
		if s.phase == up {
			e.settleCount(s)
		}
		e.retry(s)
	case connected && unconfirmed:
		e.isBack(s)
	case connected && s.cause != "": // the restart is still to come
		if s.timer == nil {
			e.planRestart(s)
		}
	case connected && s.phase == outdated:
	case connected && s.phase == up && e.stillCounts(s):
	case connected, !configured, status.State == "disabled":
		e.forget(s) // rule 12: connected for good, or without us, or disabled, or no longer configured
	default:
		s.cause = ""
		e.move(s, aside) // rule 1
	}
}

// stillCounts notes that the server is alive, and reports whether its tries still count.
func (e *Engine) stillCounts(s *record) bool {
	s.aliveAt = e.now
	return e.left(s) > 0
}

// left is what is left of the count of tries. While the server is connected it goes down
// by one in every sixth of stable-after, and to nothing after all of it (rule 12), as far
// as the connection is known to have lived.
func (e *Engine) left(s *record) float64 {
	if s.phase != up {
		return s.count
	}
	lived := s.aliveAt.Sub(s.upAt)
	if lived >= e.policy.StableAfter {
		return 0
	}
	return max(0, s.count-6*float64(lived)/float64(e.policy.StableAfter))
}

// settleCount leaves the count as it is, since the connection has ended. With nothing left,
// what follows is another outage.
func (e *Engine) settleCount(s *record) {
	if s.count = e.left(s); s.count == 0 {
		s.announced, s.outageAt, s.tries = false, e.now, 0
	}
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

func (e *Engine) newRecord(name string) *record {
	s := &record{name: name, outageAt: e.now}
	e.records = append(e.records, s)
	return s
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
// last, or at the first sight of a failure. Back-off is the least time between two
// starts (rule 12).
func (e *Engine) retry(s *record) {
	overload := says(s.error, "overloaded") != nil // rule 15
	if overload {
		e.pool.careful = true
	}
	wanted := time.Duration(math.MaxInt64)
	if s.wanted {
		wanted = max(e.untilAwake(s), e.policy.FirstDelay)
	}
	limit := e.policy.MaxAttempts
	if says(s.error, "missing") != nil {
		limit = min(limit, shared().Constants.MissingTries)
	}
	switch {
	case s.count >= float64(limit):
		e.plan(s, parked, min(e.jittered(e.policy.ProbeInterval), wanted))
		if !s.announced {
			s.announced = true
			e.act(Log{"warn", fmt.Sprintf("%s is still failed after %s; it is now tried rarely, and on a prompt", s.name, count(s.tries))})
		}
	case overload:
		e.plan(s, waiting, e.jittered(e.policy.MaxDelay))
	default:
		delay := e.jittered(e.policy.FirstDelay)
		if backoff := e.jittered(e.backoff(s.count)); backoff > 0 {
			delay = max(delay, e.triedAt[s.name].Add(backoff).Sub(e.now))
		}
		e.plan(s, waiting, min(delay, wanted))
	}
}

// backoff is the least time from one start of a server to the next, for a count of tries.
func (e *Engine) backoff(count float64) time.Duration {
	if count == 0 {
		return 0
	}
	return time.Duration(min(float64(e.policy.MaxDelay), float64(e.policy.InitialDelay)*math.Pow(2, count-1)))
}

// jittered is a delay with its random part, in whole milliseconds.
func (e *Engine) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + e.policy.Jitter*(2*e.random()-1))).Round(time.Millisecond)
}

func count(tries int) string {
	if tries == 1 {
		return "1 try"
	}
	return fmt.Sprint(tries, " tries")
}

// -- What the host tells

// Used says that the instance shows a sign of use (rule 2), perhaps of one server.
func (e *Engine) Used(now time.Time, use Use, server string) {
	e.input(now, func() {
		if !e.started {
			if e.policy.Start == "mcp" && use != MCP && use != Asked {
				return
			}
			e.started = true
			e.act(Log{"info", "active"})
		}
		if s := e.record(server); s != nil && s.phase == up {
			s.aliveAt = e.now // it was alive until it said so, or dropped
		} else if s != nil && use == MCP {
			e.disprove(s) // its connection has ended, or OpenCode reads its tools anew
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
		for _, s := range slices.Clone(e.records) {
			switch {
			case !paused:
				continue
			case s.phase == dead:
				e.forget(s) // by then, who knows: the next call proves it anew
				continue
			}
			if s.cause = ""; s.timer != nil {
				e.move(s, dormant)
			}
		}
	})
}

// Retry forgets the back-off of the servers, of all if none is named, and tries them now
// (rule 19). Those in force are restarted if they are connected. An instance that is not
// in use stays so (rule 2).
func (e *Engine) Retry(now time.Time, servers, force []string) {
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
		for _, name := range force {
			if known(name) {
				e.force(name)
			}
		}
		for _, s := range e.records {
			if len(servers) > 0 && !slices.Contains(servers, s.name) {
				continue
			}
			// Not bound to rule 13's minute: it is no loop that asks.
			s.count, s.announced = 0, false
			if s.try != nil && s.try.connected && !s.try.settled {
				s.count = 1 // the one under way counts
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
		e.records, e.calls, e.reading, e.next = nil, nil, nil, nil
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
