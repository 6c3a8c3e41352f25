package reconnect

import (
	"fmt"
	"time"
)

// A try waits, in this order, for a read (rule 3), perhaps for a slot and another
// read (rule 5), for its connect, and for the read that shows what came of it (rule 11).
type try struct {
	slot      *slot
	lease     *timer // releases the slot (rule 5)
	connected bool   // the connect was begun
	settled   bool   // and is over
}

func (e *Engine) attempt(s *record) {
	if e.idle() { // what nobody uses costs nothing
		e.move(s, dormant)
		return
	}
	if s.wanted {
		e.mayWake(s)
	}
	e.move(s, trying)
	s.try = &try{}
	e.read(s)
}

// goOn goes on with a try after a read that it waited for.
func (e *Engine) goOn(s *record, answer map[string]Status) {
	t := s.try
	state := answer[s.name].State
	switch {
	case t.settled, e.paused, state != "failed" && (state != "connected" || s.cause == ""):
		e.settle(s, answer)
		e.endLease(s)
		s.try = nil
	case t.slot != nil && !t.slot.released:
		e.connect(s, state)
	default:
		// A read holds no slot for longer than a connect may: who had to wait for a slot
		// reads once more, and asks for another slot if that took too long.
		if t.slot = e.pool.request(e, s); t.slot.held {
			e.connect(s, state)
		}
	}
}

// granted goes on with a try that waited for its slot.
func (e *Engine) granted(s *record) {
	e.lease(s)
	e.read(s)
}

// connect starts a server that is failed, or one that is connected and has a cause.
func (e *Engine) connect(s *record, state string) {
	if s.reason = ""; state == "connected" {
		s.reason = s.cause
		e.restarts(s)
	}
	s.cause = ""
	s.tries++
	// One more than parks it is enough: however long it was broken, a life of a sixth of
	// stable-after is a beginning.
	s.count = min(s.count+1, float64(e.policy.MaxAttempts+1))
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
		if seen := e.seen[server]; seen != nil {
			seen.connectedAt = e.now // what was called before says nothing of it (rule 20)
		}
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
	e.act(Log{"info", fmt.Sprintf("%s is back (%s%s, %.1f s)", s.name, shared().Reasons[s.reason], count(s.tries), e.now.Sub(s.outageAt).Seconds())})
}
