package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A model is an OpenCode server as far as package watch talks to one.
type model struct {
	version  int
	password string

	mu       sync.Mutex
	servers  map[string]map[string]string // directory -> server -> status
	starts   func(directory, server string) string
	remote   []string // servers, as they are configured
	streams  map[chan string]bool
	opened   []time.Time // of each request for the event stream
	lastIDs  []string    // that those requests had
	requests []string    // every other one: method, path and directory
	answer   http.HandlerFunc
	down     bool
	mute     bool // it sends no heartbeats
	called   int  // tools
	conns    chan net.Conn
	closed   chan struct{}
}

func newModel(version int) *model {
	return &model{
		version: version,
		servers: map[string]map[string]string{},
		starts:  func(string, string) string { return "connected" },
		streams: map[chan string]bool{},
		conns:   make(chan net.Conn),
		closed:  make(chan struct{}),
	}
}

// transport reaches the model without a network, so that time can be virtual.
func (m *model) transport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: -1,
		DisableKeepAlives:   true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			m.mu.Lock()
			down := m.down
			m.mu.Unlock()
			if down {
				return nil, syscall.ECONNREFUSED
			}
			near, far := net.Pipe()
			select {
			case m.conns <- far:
				return near, nil
			case <-m.closed: // the transport goes on dialing for those who want it no more
				return nil, net.ErrClosed
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

func (m *model) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *model) Close() error   { close(m.closed); return nil }
func (m *model) Addr() net.Addr { return &net.IPAddr{} }

// do changes the model.
func (m *model) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// crash ends every stream; while it is down nothing listens.
func (m *model) crash(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
	for s := range m.streams {
		close(s)
	}
	clear(m.streams)
}

func (m *model) set(directory, server, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.servers[directory] == nil {
		m.servers[directory] = map[string]string{}
	}
	m.servers[directory][server] = status
}

// send sends a line of an event to every stream.
func (m *model) send(lines string) {
	m.mu.Lock()
	streams := slices.Collect(maps.Keys(m.streams))
	m.mu.Unlock()
	for _, s := range streams {
		s <- lines
	}
}

// event sends an event of a directory.
func (m *model) event(directory, kind string, properties map[string]any) {
	if m.version == 1 {
		m.send(data(map[string]any{"directory": directory, "payload": map[string]any{"type": kind, "properties": properties}}))
		return
	}
	m.send(data(map[string]any{"id": "evt_1", "created": 1, "type": kind, "location": map[string]string{"directory": directory}, "data": properties}))
}

func data(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("data: %s\n\n", text)
}

// drops has a server die, as OpenCode tells of it.
func (m *model) drops(directory, server string) {
	m.set(directory, server, "failed")
	m.event(directory, map[int]string{1: "mcp.tools.changed", 2: "mcp.status.changed"}[m.version], map[string]any{"server": server})
}

// call has a tool of a server called, with the end that it takes: completed or an error.
func (m *model) call(directory, server, state, text string) {
	m.mu.Lock()
	m.called++
	id := fmt.Sprint("prt_", m.called)
	m.mu.Unlock()
	for _, status := range []string{"pending", "running", state} {
		s := map[string]any{"status": status}
		if status == "error" {
			s["error"] = text
		} else if status == "completed" {
			s["output"] = text
		}
		m.event(directory, "message.part.updated", map[string]any{"part": map[string]any{"type": "tool", "id": id, "callID": "call_1", "tool": server + "_echo", "state": s}})
	}
}

// prompt is the sign of use.
func (m *model) prompt(directory string) {
	if m.version == 1 {
		m.event(directory, "message.updated", map[string]any{"info": map[string]any{"role": "user"}})
		return
	}
	m.event(directory, "session.execution.started", nil)
}

func (m *model) asked(method string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var asked []string
	for _, request := range m.requests {
		if strings.HasPrefix(request, method) {
			asked = append(asked, request)
		}
	}
	return asked
}

func (m *model) opens() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.opened)
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	answer := m.answer
	m.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	m.serve(w, r)
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	stream := map[int]string{1: "/global/event", 2: "/api/event"}[m.version]
	directory := r.URL.Query().Get(map[int]string{1: "directory", 2: "location[directory]"}[m.version])
	if twice, err := url.PathUnescape(directory); err == nil && m.version == 1 { // as OpenCode 1 does
		directory = twice
	}
	m.mu.Lock()
	if r.URL.Path == stream {
		m.opened = append(m.opened, time.Now())
		m.lastIDs = append(m.lastIDs, r.Header.Get("Last-Event-ID"))
	} else {
		m.requests = append(m.requests, r.Method+" "+r.URL.Path+" "+directory)
	}
	m.mu.Unlock()
	if user, password, _ := r.BasicAuth(); m.password != "" && (user != "opencode" || password != m.password) {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	prefix := map[int]string{1: "/mcp", 2: "/api/experimental/mcp"}[m.version]
	switch path := r.URL.Path; {
	case path == stream:
		m.stream(w, r)
	case r.Method == "GET" && (path == "/mcp" && m.version == 1 || path == "/api/mcp" && m.version == 2):
		m.status(w, directory)
	case r.Method == "GET" && path == "/config" && m.version == 1:
		config := map[string]any{}
		for name := range m.servers[directory] {
			config[name] = map[string]any{"type": "local", "command": []string{"x"}, "environment": map[string]string{"TOKEN": "hunter2"}}
		}
		for _, name := range m.remote {
			config[name] = map[string]any{"type": "remote", "url": "http://x"}
		}
		json.NewEncoder(w).Encode(map[string]any{"mcp": config, "plugin": []string{}})
	case r.Method == "POST" && strings.HasPrefix(path, prefix) && strings.HasSuffix(path, "/connect"):
		server := strings.TrimSuffix(strings.TrimPrefix(path, prefix+"/"), "/connect")
		m.mu.Lock()
		starts := m.starts
		m.mu.Unlock()
		m.set(directory, server, starts(directory, server))
		fmt.Fprint(w, "true")
	case m.version == 1: // as OpenCode 1 answers
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html>")
	default:
		http.NotFound(w, r)
	}
}

func (m *model) status(w http.ResponseWriter, directory string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := map[string]any{}
	two := []any{}
	for name, status := range m.servers[directory] {
		s := map[string]string{"status": status}
		if status == "failed" {
			s["error"] = "Connection closed"
		}
		one[name] = s
		two = append(two, map[string]any{"name": name, "status": s})
	}
	w.Header().Set("Content-Type", "application/json")
	if m.version == 1 {
		json.NewEncoder(w).Encode(one)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"location": map[string]string{"directory": directory}, "data": two})
}

func (m *model) stream(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string)
	m.do(func() { m.streams[lines] = true })
	defer m.do(func() { delete(m.streams, lines) })
	w.Header().Set("Content-Type", "text/event-stream")
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	text := data(map[string]any{"payload": map[string]any{"type": "server.connected", "properties": map[string]any{}}})
	if m.version == 2 {
		text = data(map[string]any{"id": "evt_0", "created": 1, "type": "server.connected", "data": map[string]any{}})
	}
	for {
		io.WriteString(w, text)
		w.(http.Flusher).Flush()
		var open bool
		select {
		case text, open = <-lines:
			if !open {
				return
			}
		case <-beat.C:
			m.mu.Lock()
			mute := m.mute
			m.mu.Unlock()
			if mute {
				text = ""
				continue
			}
			text = data(map[string]any{"payload": map[string]any{"type": "server.heartbeat", "properties": map[string]any{}}})
			if m.version == 2 {
				text = ": heartbeat\n\n"
			}
		case <-r.Context().Done():
			return
		}
	}
}

// steady is the default policy without chance in it.
func steady() plugin.Policy {
	p := plugin.DefaultPolicy()
	p.Jitter = 0
	return p
}

const (
	modelURL = "http://opencode.test:4096"
	dir      = "/home/ann/project"
)

// A scene is a Watcher and its target in virtual time.
type scene struct {
	*testing.T
	*model
	w      *Watcher
	logged *testenv.Text
	jump   time.Duration // of the clock on the wall

	mu     sync.Mutex
	events []Event
}

// play has the scene happen in a bubble, which ends only if no goroutine is left.
func play(t *testing.T, m *model, change func(*Options), then func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, model: m, logged: &testenv.Text{}}
		m.conns, m.closed = make(chan net.Conn), make(chan struct{}) // of this bubble
		server := &http.Server{Handler: m}
		go server.Serve(m)
		o := Options{Policy: steady(), Log: slog.New(slog.NewTextHandler(s.logged, nil)), Transport: m.transport()}
		if change != nil {
			change(&o)
		}
		s.w = newWatcher(o, func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Now().Add(s.jump)
		})
		s.w.Subscribe(func(e Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		})
		defer func() {
			server.Close()
			time.Sleep(time.Hour) // for its handlers
		}()
		defer func() { s.w.Close() }()
		then(s)
	})
}

func (s *scene) connect() *scene {
	s.Helper()
	if _, err := s.w.Connect(Target{URL: modelURL, Password: s.password, Keep: true}); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
	return s
}

// after lets time pass.
func (s *scene) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns the events since the last call, in short.
func (s *scene) told() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, e := range s.events {
		switch e.Type {
		case ToolsChanged:
			told = append(told, "tools "+e.Server)
		case StateChanged:
			told = append(told, fmt.Sprintf("%s %s>%s", e.Server, e.From, e.To))
		case TargetChanged:
			told = append(told, fmt.Sprintf("%s>%s", e.From, e.To))
		}
	}
	s.events = nil
	return told
}

func (s *scene) wantTold(want ...string) {
	s.Helper()
	if got := s.told(); !slices.Equal(got, want) {
		s.Errorf("told %q, want %q", got, want)
	}
}

func (s *scene) target() TargetState {
	s.Helper()
	states := s.w.States()
	if len(states) != 1 {
		s.Fatalf("%d targets: %+v", len(states), states)
	}
	return states[0]
}

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
