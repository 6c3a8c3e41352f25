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
	Relayed   bool      `json:"-"` // another Watcher told it
}

// backlog is how many events a listener may be behind.
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
		if !m.take(e) {
			delete(a.members, m)
			m.end()
			a.log.Warn(fmt.Sprintf("a listener is %d events behind, and is not told any more", backlog))
		}
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

func (m *member) take(e Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= backlog {
		return false
	}
	m.queue = append(m.queue, e)
	m.signal()
	return true
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
