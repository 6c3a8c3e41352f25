package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const (
	maxStreamDelay = time.Minute      // where the doubling of the delay before a stream is reopened ends
	clockInterval  = 5 * time.Second  // between two looks at the clock on the wall
	clockJump      = 30 * time.Second // more than any machine under load is late
	silence        = 75 * time.Second // of a server that sends heartbeats, which is every 10 to 30 s

	// A stream that is open again so soon after one was lost is the same process's: an
	// OpenCode that is started takes longer until it listens. Of one that is far away, for
	// which every stream takes its time to open, the limit is the other one.
	sameProcess    = 500 * time.Millisecond
	sameProcessFar = 2 * time.Second
	// A stream that was open for so long is opened again at once.
	worthwhile = 10 * time.Second
)

// A target is an OpenCode server that is watched. Its loop, run, is the only goroutine
// that touches its fields and its engines; other goroutines post to it.
type target struct {
	w    *Watcher
	at   address
	id   string
	keep bool
	api  opencode
	// That it has a password is known to others than the loop.
	guarded atomic.Bool
	log     *slog.Logger
	ctx     context.Context // ends with the target
	cancel  context.CancelCauseFunc
	inbox   chan func(now time.Time)
	done    chan struct{}  // closed when everything has ended
	calls   sync.WaitGroup // goroutines of requests
	reads   chan struct{}  // holds one for each status that is being read

	// The stream. It opens, or is open, while closeStream is not nil.
	status      string
	since       time.Time
	error       string
	attempts    int // in a row, without a stream that lasted
	generation  int // of the stream: what comes late from an earlier one does not count
	closeStream context.CancelFunc
	openedAt    time.Time
	openTook    time.Duration   // of the requests that opened it, the last time
	giveUpAt    time.Time       // while it opens
	proveAt     time.Time       // while it opens again, which may still show that the process is the same
	retryAt     time.Time       // while there is none
	lostAt      time.Time       // when an open one was closed last
	trustAt     time.Time       // while it is open, but said to be given up: when it will have lasted
	fickle      bool            // it opened after it was given up, and did not last
	stream      *stream         // while it is open
	reading     context.Context // of the status reads, while it is open
	dialect     *dialect
	lastEventID string
	activeAt    time.Time
	clock       time.Time  // on the wall, at the last look
	complaints  complaints // about the stream
	wanted      []wanted   // for when it is open

	// The directories that are in use.
	pool        *reconnect.Pool
	directories map[string]*directory
	engines     map[*reconnect.Engine]*directory
	paused      bool
	notices     bool          // this OpenCode notices by itself that a local server is gone
	connection  *state.Record // of the connection; nil where none is kept
	unrecorded  bool          // the connection changed since it was written
	recordAt    time.Time     // when state files are written next
	ownersAt    time.Time     // when it is looked next at what those know who look after directories instead of us
	timer       *time.Timer
}

func newTarget(w *Watcher, at address, o Target, paused bool) *target {
	id := at.String()
	t := &target{
		w: w, at: at, id: id, keep: o.Keep,
		api:         newOpencode(w.client, id, o),
		log:         w.options.Log.With("url", id),
		inbox:       make(chan func(time.Time)),
		done:        make(chan struct{}),
		reads:       make(chan struct{}, maxReads),
		status:      Connecting,
		since:       time.Now(),
		activeAt:    time.Now(),
		clock:       w.wall(),
		pool:        reconnect.NewPool(w.options.Policy.Concurrency),
		directories: map[string]*directory{},
		engines:     map[*reconnect.Engine]*directory{},
		paused:      paused,
		timer:       time.NewTimer(0),
	}
	if w.keeper != nil {
		t.connection = state.NewRecord(w.options.StateDir, id, "")
	}
	t.guarded.Store(o.Password != "")
	t.ctx, t.cancel = context.WithCancelCause(w.ctx)
	return t
}

// post has the loop do something, and reports whether it will.
func (t *target) post(do func(now time.Time)) bool {
	select {
	case t.inbox <- do:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// state asks the loop for the target's state.
func (t *target) state() (s TargetState, ok bool) {
	answer := make(chan TargetState, 1)
	if !t.post(func(time.Time) { answer <- t.snapshot() }) {
		return s, false
	}
	return <-answer, true
}

// stop ends the target, for good.
func (t *target) stop(why string) { t.cancel(errors.New(why)) }

func (t *target) run() {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	t.moved(time.Now())
	t.open(time.Now())
	for {
		t.wait()
		select {
		case <-t.ctx.Done():
			t.end()
			return
		case do := <-t.inbox:
			do(time.Now())
		case <-t.timer.C:
		case <-ticker.C:
			t.look(time.Now())
		}
		t.advance(time.Now())
	}
}

// wait sets the timer for whatever is due next.
func (t *target) wait() {
	var next time.Time
	due := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	due(t.giveUpAt)
	due(t.proveAt)
	due(t.retryAt)
	due(t.trustAt)
	due(t.recordAt)
	if t.stream != nil {
		due(t.ownersAt)
		for _, d := range t.directories {
			if at, ok := d.engine.Next(); ok {
				due(at)
			}
		}
	}
	t.timer.Stop()
	if !next.IsZero() {
		t.timer.Reset(time.Until(next))
	}
}

// advance does what is due.
func (t *target) advance(now time.Time) {
	if due(t.giveUpAt, now) {
		t.lose(now, fmt.Errorf("the server did not answer within %v", t.w.options.Policy.ConnectTimeout))
	}
	if due(t.proveAt, now) {
		t.forgetProcess(now)
	}
	if due(t.retryAt, now) {
		t.open(now)
	}
	if due(t.trustAt, now) {
		t.trustAt = time.Time{}
		t.move(now, Connected, "")
	}
	if due(t.recordAt, now) {
		t.record()
	}
	if t.stream != nil && due(t.ownersAt, now) {
		t.lookAtOwners()
	}
	// Nothing is planned by what is known from before a lost stream.
	if t.stream != nil {
		for _, d := range t.directories {
			d.engine.Advance(now)
		}
	}
	t.drain(now)
}

// drain does what the engines ask for.
func (t *target) drain(now time.Time) {
	for pending := t.pool.Pending(); len(pending) > 0; pending = t.pool.Pending() {
		for _, engine := range pending {
			d := t.engines[engine]
			if d != nil {
				t.changed(now, d)
			}
			for _, action := range engine.Actions() {
				if d != nil {
					t.perform(d, action)
				}
			}
		}
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// end closes everything. What comes from now on is not looked at.
func (t *target) end() {
	now := time.Now()
	t.timer.Stop()
	t.shut()
	for _, d := range t.directories {
		t.drop(now, d)
	}
	if t.connection != nil {
		t.w.keeper.remove(t.connection)
	}
	t.calls.Wait()
	t.w.remove(t)
	if t.w.ctx.Err() == nil {
		why := context.Cause(t.ctx).Error()
		t.log.Info(why)
		t.tell(Event{Type: TargetChanged, From: t.status, To: Closed, Error: why}, now)
	}
	close(t.done)
}

// -- The stream

// open opens the stream. Whatever comes of an earlier one is late.
func (t *target) open(now time.Time) {
	t.shut()
	t.generation++
	t.attempts++
	t.retryAt = time.Time{}
	t.giveUpAt = now.Add(t.w.options.Policy.ConnectTimeout)
	if len(t.directories) > 0 { // nothing is known in a process unless it is the same
		t.proveAt = now.Add(min(max(sameProcess, 2*t.openTook), sameProcessFar))
	}
	ctx, cancel := context.WithCancel(t.ctx)
	t.closeStream = cancel
	generation, lastEventID, api := t.generation, t.lastEventID, t.api
	t.calls.Go(func() {
		defer cancel()
		s, err := api.subscribe(ctx, &t.calls, lastEventID)
		if err == nil {
			defer s.body.Close()
			if ctx.Err() != nil || !t.post(func(now time.Time) { t.opened(now, generation, s, ctx) }) {
				return // too late
			}
			err = s.follow(func(got signal) bool {
				// Most of what happens is of no concern; it has been noted in the stream.
				if got.kind == greeting || got.kind == heartbeat || got.kind == seen && t.w.options.Policy.Start != "load" {
					return ctx.Err() == nil
				}
				return ctx.Err() == nil && t.post(func(now time.Time) { t.signal(now, generation, got) })
			})
		}
		t.post(func(now time.Time) {
			if generation == t.generation && t.closeStream != nil {
				t.lose(now, err)
			}
		})
	})
}

// shut closes the stream, or stops its opening.
func (t *target) shut() {
	if t.stream != nil {
		t.lastEventID = t.stream.lastID.Load().(string)
		t.lostAt = time.Now()
		for _, d := range t.directories {
			d.stale = true
			t.changed(t.lostAt, d)
		}
	}
	if t.closeStream != nil {
		t.closeStream()
	}
	t.closeStream, t.stream, t.giveUpAt, t.trustAt = nil, nil, time.Time{}, time.Time{}
}

func (t *target) opened(now time.Time, generation int, s *stream, reading context.Context) {
	if generation != t.generation || t.closeStream == nil {
		return
	}
	t.stream, t.reading, t.dialect, t.openedAt, t.openTook = s, reading, s.dialect, now, s.took
	t.giveUpAt, t.proveAt = time.Time{}, time.Time{}
	s.active.set(now) // that it is there again is news
	if t.status == GivenUp && t.fickle {
		t.trustAt = now.Add(t.w.options.Policy.StableAfter)
	} else {
		t.move(now, Connected, "")
	}
	for _, d := range t.directories {
		if d.reads { // what it was for is planned anew by the next one
			d.reads = false
			d.engine.Read(now, nil)
		}
		// Nobody has to use it for it to be looked at: it was in use before.
		if now.Sub(d.usedAt) < t.w.options.Policy.IdleAfter {
			d.engine.Used(now, reconnect.MCP, "")
		}
	}
	t.visitWanted(now)
}

// lose deals with a stream that has ended, or did not open.
func (t *target) lose(now time.Time, err error) {
	policy := t.w.options.Policy
	wasOpen, lived := t.stream != nil, now.Sub(t.openedAt)
	t.shut()
	t.wanted = nil
	if wasOpen {
		t.fickle = t.status == GivenUp || t.attempts >= policy.MaxAttempts
		if lived >= policy.StableAfter {
			t.attempts, t.fickle = 0, false
			t.complaints = complaints{}
		}
	}
	if refused(err) {
		t.lastEventID = "" // of a process that is no more
	}
	slow := now.Add(t.jittered(policy.ProbeInterval))
	switch {
	case errors.Is(err, errUnauthorized):
		t.attempts = 0
		t.retryAt = slow
		t.move(now, Unauthorized, errText(err))
	case t.attempts >= policy.MaxAttempts:
		t.retryAt = slow
		t.move(now, GivenUp, errText(err))
	case wasOpen && lived >= worthwhile:
		t.move(now, Waiting, errText(err))
		t.open(now)
		return
	default:
		doubled := float64(policy.InitialDelay) * math.Pow(2, float64(max(0, t.attempts-1)))
		t.retryAt = now.Add(t.jittered(time.Duration(min(float64(maxStreamDelay), doubled))))
		t.move(now, Waiting, errText(err))
	}
	t.forgetProcess(now)
	if !t.keep && (t.status == GivenUp || t.status == Unauthorized) && now.Sub(t.reached()) >= policy.IdleAfter {
		t.stop("forgotten: it could not be reached for " + policy.IdleAfter.String())
	}
}

// forgetProcess forgets what was known in a process that may have ended: reading a
// status in another one would start servers there that nobody uses (rule 2).
func (t *target) forgetProcess(now time.Time) {
	t.proveAt, t.notices = time.Time{}, false
	for _, d := range t.directories {
		t.drop(now, d)
	}
}

// reached is when the target was there last, or since when it is watched.
func (t *target) reached() time.Time {
	if t.lostAt.After(t.openedAt) {
		return t.lostAt
	}
	if t.openedAt.IsZero() {
		return t.activeAt
	}
	return t.openedAt
}

func (t *target) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + t.w.options.Policy.Jitter*(2*random()-1)))
}

// move alone changes the target's state.
func (t *target) move(now time.Time, to, problem string) {
	from := t.status
	if from != to || t.error != problem {
		t.moved(now)
	}
	t.error = problem
	switch first := problem != "" && t.complaints.first(problem); {
	case to == GivenUp && from != to:
		tries := fmt.Sprint(t.attempts, " tries")
		if t.attempts == 1 {
			tries = "1 try"
		}
		t.log.Warn(fmt.Sprintf("given up after %s, and tried every %v from now on: %s", tries, t.w.options.Policy.ProbeInterval, problem))
	case first, problem != "" && from != to:
		t.log.Warn(problem)
	case from != to:
		t.log.Info(map[string]string{Connected: "connected", Idle: "no sign of use for " + t.w.options.Policy.IdleAfter.String()}[to])
	}
	if from == to {
		return
	}
	t.status, t.since = to, now
	t.tell(Event{Type: TargetChanged, From: from, To: to, Attempt: t.attempts, Error: problem}, now)
}

// complain says what is wrong, once until a stream lasts.
func (t *target) complain(problem string) {
	if t.complaints.first(problem) {
		t.log.Warn(problem)
	}
}

func (t *target) tell(e Event, now time.Time) {
	e.URL, e.Time = t.id, now.UTC().Truncate(time.Millisecond)
	t.w.audience.tell(e)
}

// look sees what no event tells: the clock on the wall, silence, and that nothing happens.
func (t *target) look(now time.Time) {
	policy := t.w.options.Policy
	wall := t.w.wall()
	late := wall.Round(0).Sub(t.clock.Round(0)) - clockInterval
	if t.clock = wall; late > clockJump || late < -clockJump {
		t.attempts = 0
		for _, d := range t.directories {
			d.engine.WokeUp(now)
		}
		t.log.Info("the clock jumped, as after a sleep of the machine")
		t.open(now)
		return
	}
	if t.stream == nil {
		return
	}
	if t.stream.beats.Load() && now.Sub(t.stream.heard.get()) > silence {
		t.lose(now, fmt.Errorf("the server was silent for %v", silence))
		return
	}
	t.activeAt = t.stream.active.get()
	if !t.trustAt.IsZero() {
		return
	}
	switch idle := now.Sub(t.activeAt) >= policy.IdleAfter && !t.repairs(); {
	case idle && t.status == Connected:
		t.move(now, Idle, "")
	case !idle && t.status == Idle:
		t.move(now, Connected, "")
	}
}

// repairs reports whether a server is being seen to.
func (t *target) repairs() bool {
	for _, d := range t.directories {
		for _, s := range d.engine.Servers() {
			if s.Phase == "trying" || !s.DueAt.IsZero() {
				return true
			}
		}
	}
	return false
}

// update takes what a second Connect says.
func (t *target) update(now time.Time, o Target) {
	t.keep = t.keep || o.Keep
	api := newOpencode(t.w.client, t.api.base, o)
	if o.Password == "" || api == t.api {
		return
	}
	t.api = api
	t.guarded.Store(true)
	if t.stream == nil { // an open one was let in with the old ones
		t.open(now)
	}
}
