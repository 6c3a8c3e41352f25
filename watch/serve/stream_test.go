package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

// pipes are connections that hold nothing back, and whose deadlines are in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7333} }

// virtually runs a test in virtual time, with a server that has the timeouts of the command.
func virtually(t *testing.T, test func(t *testing.T, w *watch.Watcher, server *httptest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		w, handler := handles(t, serve.Options{})
		p := &pipes{conns: make(chan net.Conn)}
		p.closed, p.close = context.WithCancel(context.Background())
		server := &httptest.Server{Listener: p, Config: &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
		server.Start()
		t.Cleanup(func() {
			handler.Close()
			server.Close()
		})
		server.Client().Transport.(*http.Transport).DialContext = p.dial
		test(t, w, server)
	})
}

// A reader is a client of /events.
type reader struct {
	t      *testing.T
	lines  *bufio.Scanner
	leave  context.CancelFunc
	status int
	id     string // the last one
}

func read(t *testing.T, server *httptest.Server, lastEventID string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode == http.StatusOK && got != "text/event-stream" {
		t.Fatal(got)
	}
	r := &reader{t: t, lines: bufio.NewScanner(res.Body), leave: cancel, status: res.StatusCode}
	r.lines.Buffer(nil, 1<<20)
	return r
}

// block returns the next block's fields; nil at the end.
func (r *reader) block() map[string]string {
	fields := map[string]string{}
	for r.lines.Scan() {
		if r.lines.Text() == "" {
			return fields
		}
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		fields[name] = value
		if name == "id" {
			r.id = value
		}
	}
	return nil
}

// next returns the next event, and whether there was one.
func (r *reader) next() (e watch.Event, ok bool) {
	r.t.Helper()
	for fields := r.block(); fields != nil; fields = r.block() {
		if data, ok := fields["data"]; ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Type != fields["event"] {
				r.t.Fatalf("event %s: %v: %s", fields["event"], err, data)
			}
			return e, true
		}
	}
	return e, false
}

func (r *reader) wants(servers ...string) {
	r.t.Helper()
	for _, want := range servers {
		if e, ok := r.next(); !ok || e.Server != want {
			r.t.Fatalf("%+v, %t; want %s", e, ok, want)
		}
	}
}

func (r *reader) wantsMissed(text string) {
	r.t.Helper()
	if e, ok := r.next(); !ok || e.Type != watch.Missed || e.Error != text || e.Time.IsZero() {
		r.t.Fatalf("%+v, %t; want %s", e, ok, text)
	}
}

func tell(w *watch.Watcher, from, to int) {
	for n := from; n <= to; n++ {
		w.Relay(watch.Event{Type: watch.ToolsChanged, Server: fmt.Sprint("s", n), Time: time.Now()})
	}
}

func TestReplay(t *testing.T) {
	w, server := serving(t, serve.Options{})
	first := read(t, server, "")
	if fields := first.block(); len(fields) != 1 || first.id == "" {
		t.Fatalf("the stream begins with %v", fields)
	}
	before := first.id
	tell(w, 1, 3)
	first.wants("s1", "s2")
	id := first.id
	first.wants("s3")
	read(t, server, before).wants("s1", "s2", "s3") // had no event before it left
	again := read(t, server, id)
	again.wants("s3")
	if again.id != first.id {
		t.Errorf("the same event has the ids %q and %q", first.id, again.id)
	}
	tell(w, 4, 4)
	again.wants("s4") // and nothing twice
	fresh := read(t, server, "")
	fresh.block()
	tell(w, 5, 5)
	fresh.wants("s5") // and nothing from before
}

func TestMissed(t *testing.T) {
	const elsewhere = "events may be lost, since this watch was started after the last one that was taken"
	w, server := serving(t, serve.Options{})
	read(t, server, "another-0").wantsMissed(elsewhere)
	first := read(t, server, "")
	first.block()
	start := first.id
	tell(w, 1, 1500)
	first.wants("s1")
	id := first.id
	for e, ok := first.next(); e.Server != "s1500"; e, ok = first.next() {
		if !ok {
			t.Fatal("the stream ended")
		}
	}
	again := read(t, server, id)
	again.wantsMissed("499 events are lost, since they were not taken in time")
	after := again.id
	again.wants("s501", "s502")
	read(t, server, after).wants("s501") // it knows by now
	read(t, server, start).wantsMissed("500 events are lost, since they were not taken in time")
	epoch, _, _ := strings.Cut(id, "-")
	read(t, server, epoch+"-499").wantsMissed("1 events are lost, since they were not taken in time")
	for _, id := range []string{"another-1", "nonsense", epoch, epoch + "-", epoch + "--1", epoch + "-x", epoch + "-1501"} {
		r := read(t, server, id)
		r.wantsMissed(elsewhere)
		r.wants("s501")
	}
	read(t, server, epoch+"-1499").wants("s1500")

	// The watch says so itself.
	w.Relay(watch.Event{Type: watch.Missed, Error: "7 events are lost", Time: time.Now()})
	again = read(t, server, epoch+"-1500")
	again.wantsMissed("7 events are lost")
}

// TestReplayWhileEventsFlow: whoever comes and goes has every event once, in order.
func TestReplayWhileEventsFlow(t *testing.T) {
	w, server := serving(t, serve.Options{})
	const events = 3000
	r := read(t, server, "")
	r.block()
	ahead := make(chan bool, 300) // of the reader; fewer than are kept
	go func() {
		for n := range events {
			ahead <- true
			tell(w, n, n)
		}
	}()
	for n := range events {
		r.wants(fmt.Sprint("s", n))
		<-ahead
		if n%20 == 0 {
			r.leave()
			r = read(t, server, r.id)
		}
	}
}

// TestSlowReaders are dropped, and nobody waits for them.
func TestSlowReaders(t *testing.T) {
	virtually(t, func(t *testing.T, w *watch.Watcher, server *httptest.Server) {
		slow, healthy := read(t, server, ""), read(t, server, "")
		const events = 3000
		done := make(chan bool)
		go func() {
			defer close(done)
			for n := range events {
				healthy.wants(fmt.Sprint("s", n+1))
			}
		}()
		for n := 0; n < events; n += 500 {
			tell(w, n+1, n+500)
			synctest.Wait()
		}
		<-done
		had := 0
		for e, ok := slow.next(); ok; e, ok = slow.next() {
			if had++; e.Server != fmt.Sprint("s", had) {
				t.Fatalf("%s is event %d", e.Server, had)
			}
		}
		if had == events {
			t.Error("the slow one was waited for")
		}
		for slow = read(t, server, slow.id); had < events; {
			had++
			slow.wants(fmt.Sprint("s", had))
		}
	})
}

// TestStuckReaders take nothing of what is written, and have their connections closed.
func TestStuckReaders(t *testing.T) {
	virtually(t, func(t *testing.T, w *watch.Watcher, server *httptest.Server) {
		stuck := read(t, server, "")
		w.Relay(watch.Event{Type: watch.StateChanged, Server: "long", Error: strings.Repeat("x", 100_000)})
		time.Sleep(time.Minute)
		if e, ok := stuck.next(); ok {
			t.Errorf("it got %s after a minute", e.Server)
		}
	})
}

// TestQuietStream: it goes on for hours, however soon a request must have been sent.
func TestQuietStream(t *testing.T) {
	virtually(t, func(t *testing.T, w *watch.Watcher, server *httptest.Server) {
		r := read(t, server, "")
		r.block()
		start := time.Now()
		for range 4 * 60 * 3 {
			if fields := r.block(); fields[""] != "heartbeat" {
				t.Fatalf("%v after %v", fields, time.Since(start))
			}
		}
		if quiet := time.Since(start); quiet != 3*time.Hour {
			t.Errorf("the heartbeats took %v", quiet)
		}
		tell(w, 1, 1)
		r.wants("s1")
	})
}

func TestTooManyReaders(t *testing.T) {
	virtually(t, func(t *testing.T, w *watch.Watcher, server *httptest.Server) {
		for range 3 { // who only asks whether it is there reads nothing
			if got := do(t, server, "HEAD", "/events", "", nil); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("HEAD: %s %v", got.Status, got.Header)
			}
		}
		var readers []*reader
		for range 200 {
			readers = append(readers, read(t, server, ""))
		}
		if got := do(t, server, "GET", "/events", "", nil); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
			t.Errorf("one more got %s %v", got.Status, got.Header)
		}
		if got := do(t, server, "GET", "/states", "", nil); got.StatusCode != http.StatusOK {
			t.Errorf("nor has it the states: %s", got.Status)
		}
		readers[0].leave()
		synctest.Wait()
		if got := read(t, server, ""); got.status != http.StatusOK {
			t.Errorf("in the place of another one it got %d", got.status)
		}
		tell(w, 1, 1)
		readers[199].wants("s1")
	})
}

func TestClose(t *testing.T) {
	w, handler := handles(t, serve.Options{})
	server := httptest.NewServer(handler)
	defer server.Close()
	before := read(t, server, "")
	before.block()
	handler.Close()
	handler.Close() // does nothing
	for name, r := range map[string]*reader{"before": before, "after": read(t, server, ""), "again": read(t, server, before.id)} {
		tell(w, 1, 1)
		if e, ok := r.next(); ok || r.status != http.StatusOK {
			t.Errorf("a client from %s the end has %d, %+v", name, r.status, e)
		}
	}
}
