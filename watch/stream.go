package watch

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmaxmax/go-sse"
)

// A stream is an open event stream.
type stream struct {
	*dialect
	body   io.ReadCloser
	took   time.Duration // to open
	heard  moment        // when something was read last
	active moment        // when an event of a directory was read last
	beats  atomic.Bool   // it sends heartbeats
	lastID atomic.Value  // of its events, a string
	places places        // that events told of
}

// A moment is a time that one goroutine sets and others read. It keeps what the monotonic
// clock said: somebody who sets the other one makes no silence.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set(at time.Time) { m.at.Store(&at) }
func (m *moment) get() time.Time   { return *m.at.Load() }

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if n > 0 {
		s.heard.set(time.Now())
	}
	return n, err
}

// follow passes on the signals of a stream until it ends, or pass refuses one.
func (s *stream) follow(pass func(signal) bool) error {
	events := &excerpt{source: s, commented: func() { s.beats.Store(true) }}
	for {
		if err := s.read(events, pass); err != nil {
			return err
		}
	}
}

// read reads events up to a large one, which whoever parses them would keep a buffer for.
func (s *stream) read(events *excerpt, pass func(signal) bool) error {
	const large = 64 << 10
	for event, err := range sse.Read(events, &sse.ReadConfig{MaxEventSize: eventLimit}) {
		if err != nil {
			return err
		}
		if id := event.LastEventID; id != "" {
			s.lastID.Store(usableID(id))
		}
		got := signal{kind: oversized}
		if event.Type != tooLong {
			got = s.decode([]byte(event.Data)).bounded()
		}
		switch got.kind {
		case heartbeat:
			s.beats.Store(true)
		case malformed, greeting:
		default:
			s.active.set(time.Now())
		}
		s.places.take(got)
		if !pass(got) {
			return io.EOF
		}
		if len(event.Data) > large {
			return nil
		}
	}
	return io.EOF
}

// usableID is an event's id, or "" if a header cannot hold it: with that one, the stream
// could not be opened again.
func usableID(id string) string {
	if len(id) > nameLimit || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return id
}

// places are the directories that the events of a stream told of: an OpenCode has them
// open. One goroutine adds to them, and others ask.
type places struct {
	mu   sync.Mutex
	open map[string]bool
}

func (p *places) take(got signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case got.kind == allDisposed:
		clear(p.open)
	case got.kind == disposed:
		delete(p.open, got.directory)
	case got.kind == malformed || !isDirectory(got.directory):
	case p.open == nil:
		p.open = map[string]bool{got.directory: true}
	case len(p.open) < maxDirectories:
		p.open[got.directory] = true
	}
}

func (p *places) has(directory string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[directory]
}
