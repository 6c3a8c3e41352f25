package watch

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// The types of events.
const (
	// ToolsChanged: the tools of a server that is connected are others than before, as it
	// came back or says so. A status that was read says that it is connected.
	ToolsChanged = "tools_changed"
	// StateChanged: a server went from one state to another, which are the words of
	// reconnect.Transition.
	StateChanged = "state"
	// TargetChanged: a target went from one state to another. While it is not connected
	// nothing is known of its servers.
	TargetChanged = "target"
	// Missed: this listener was too slow, and events before this one are lost to it. States
	// says how things are.
	Missed = "missed"
)

// An Event is what subscribers are told. What does not concern it is empty.
type Event struct {
	Type      string    `json:"type"`
	Server    string    `json:"server"`
	Directory string    `json:"directory"`
	URL       string    `json:"url"` // of the target, as an ID
	From      string    `json:"from"`
	To        string    `json:"to"`
	Attempt   int       `json:"attempt"` // tries in this outage
	Error     string    `json:"error"`   // the last one, without secrets
	Time      time.Time `json:"time"`
	Origin    string    `json:"origin,omitempty"` // the Watcher that told it, if that is another one
}

// backlog is how many events a listener may be behind before the oldest are lost to it.
const backlog = 10_000

// audience is the listeners. Each has its own goroutine and its own queue, so that
// none can hurt another one, or a target.
type audience struct {
	log     *slog.Logger
	mu      sync.Mutex
	members map[*member]bool
	closed  bool
}

type member struct {
	listener func(Event)
	mu       sync.Mutex
	queue    []Event
	missed   int // events in front of those in the queue
	gone     bool
	wake     chan struct{} // holds one, so that whoever tells never waits
}

func (a *audience) add(listener func(Event)) (remove func()) {
	m := &member{listener: listener, wake: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return func() {}
	}
	if a.members == nil {
		a.members = map[*member]bool{}
	}
	a.members[m] = true
	go m.run(a.log)
	return func() { a.remove(m) }
}

func (a *audience) remove(m *member) {
	a.mu.Lock()
	delete(a.members, m)
	a.mu.Unlock()
	m.end()
}

func (a *audience) tell(e Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for m := range a.members {
		m.take(e)
	}
}

func (a *audience) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for m := range a.members {
		m.end()
	}
	a.members = nil
}

func (m *member) take(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= backlog {
		m.queue = m.queue[1:]
		m.missed++
	}
	m.queue = append(m.queue, e)
	m.signal()
}

func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone, m.queue = true, nil
	m.signal()
}

func (m *member) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// next returns the first event in the queue, and whether there is to be another one.
func (m *member) next() (e Event, some, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone || len(m.queue) == 0 {
		return e, false, m.gone
	}
	if m.missed > 0 {
		e = Event{Type: Missed, Error: fmt.Sprintf("%d events are lost, since they were not taken in time", m.missed), Time: m.queue[0].Time}
		m.missed = 0
		return e, true, false
	}
	e = m.queue[0]
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil // the array behind it
	}
	return e, true, false
}

func (m *member) run(log *slog.Logger) {
	for range m.wake {
		for {
			e, some, gone := m.next()
			if gone {
				return
			}
			if !some {
				break
			}
			m.call(e, log)
		}
	}
}

func (m *member) call(e Event, log *slog.Logger) {
	defer func() {
		if problem := recover(); problem != nil {
			log.Error(fmt.Sprintf("a listener panicked: %v", problem), "stack", string(debug.Stack()))
		}
	}()
	m.listener(e)
}
