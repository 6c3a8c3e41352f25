package serve

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

const (
	kept       = 1000             // events that a client that comes back can have
	backlog    = 2 * kept         // events that a client may be behind
	maxClients = 200              // at once: each has a connection and a backlog
	heartbeat  = 15 * time.Second // between two lines on a quiet stream
	patience   = 10 * time.Second // for a client to take what is written
)

// A stream is the events for all clients.
type stream struct {
	epoch string // tells the ids of this process from those of others

	mu      sync.Mutex
	last    int       // number of the newest event
	recent  []message // the newest ones
	clients map[*client]bool
	closed  bool
}

// A message is an event as it is written, with its number.
type message struct {
	number int
	text   *sse.Message
}

// A client reads the stream.
type client struct {
	messages chan message // closed when it is dropped
	dropped  bool         // it gets what it has in messages, and no more
}

func newStream() *stream {
	return &stream{epoch: rand.Text()[:8], clients: map[*client]bool{}}
}

// close drops all clients, and those that come later.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.clients {
		c.drop()
	}
}

func (c *client) drop() {
	if !c.dropped {
		c.dropped = true
		close(c.messages)
	}
}

// take gives an event to every client, and waits for none.
func (s *stream) take(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	m := s.message(s.last, e)
	s.recent = append(s.recent, m)
	s.recent = s.recent[max(0, len(s.recent)-kept):]
	for c := range s.clients {
		if c.dropped {
			continue
		}
		select {
		case c.messages <- m:
		default:
			c.drop() // too slow; it may come back, and have what it missed
		}
	}
}

func (s *stream) message(number int, e watch.Event) message {
	text, err := json.Marshal(e)
	if err != nil {
		text = []byte("{}") // an Event holds nothing that cannot be written
	}
	m := s.position(number)
	m.text.Type = sse.Type(e.Type)
	m.text.AppendData(string(text))
	return m
}

// position is a message without an event. It tells a client that has no event yet from
// where on it is to be told when it comes back.
func (s *stream) position(number int) message {
	return message{number, &sse.Message{ID: sse.ID(fmt.Sprintf("%s-%d", s.epoch, number))}}
}

// join adds a client, with what happened since the event that it had last. It returns
// nil if there are too many.
func (s *stream) join(lastEventID string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) >= maxClients {
		return nil
	}
	c := &client{messages: make(chan message, backlog)}
	first := s.first(lastEventID)
	c.messages <- first
	for _, m := range s.recent {
		if m.number > first.number {
			c.messages <- m
		}
	}
	s.clients[c] = true
	if s.closed {
		c.drop()
	}
	return c
}

// first is what a client is told first: where it begins, and whether it missed more than
// what is kept.
func (s *stream) first(lastEventID string) message {
	if lastEventID == "" {
		return s.position(s.last)
	}
	before := s.last - len(s.recent) // what is kept
	missed := watch.Event{Type: watch.Missed, Time: time.Now()}
	had, ok := s.number(lastEventID)
	switch {
	case !ok:
		missed.Error = "events may be lost, since this watch was started after the last one that was taken"
	case had < before:
		missed.Error = fmt.Sprintf("%d events are lost, since they were not taken in time", before-had)
	default:
		return s.position(had)
	}
	return s.message(before, missed)
}

// number is the number in an event's id, if the id is of this process.
func (s *stream) number(id string) (int, bool) {
	epoch, number, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(number)
	return n, err == nil && epoch == s.epoch && 0 <= n && n <= s.last
}

// leave forgets a client whose answer has ended.
func (s *stream) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.drop()
	delete(s.clients, c)
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // what is written would go nowhere, for ever
	}
	c := s.join(r.Header.Get("Last-Event-ID"))
	if c == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d clients read the events already, and more may not", maxClients), http.StatusServiceUnavailable)
		return
	}
	defer s.leave(c)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	control := http.NewResponseController(w)
	write := func(m *sse.Message) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience))
		_, err := m.WriteTo(w)
		return err == nil && control.Flush() == nil
	}
	beat := &sse.Message{}
	beat.AppendComment("heartbeat")
	quiet := time.NewTicker(heartbeat)
	defer quiet.Stop()
	for {
		select {
		case m, ok := <-c.messages:
			if !ok || !write(m.text) {
				return
			}
		case <-quiet.C:
			if !write(beat) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
