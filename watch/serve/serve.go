// Package serve is the HTTP side of a Watcher for front ends: its events as server-sent
// events, its states, a request to try now, and a page that shows them. It answers no
// page of another origin and no other name than its own, unless told so.
package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

const (
	kept      = 1000             // events that a client that comes back can have
	backlog   = 2 * kept         // events that a client may be behind
	heartbeat = 15 * time.Second // between two lines on a quiet stream
	patience  = 10 * time.Second // for a client to take what is written
	bodyLimit = 64 << 10         // of a request
)

//go:embed page.html page.css page.js
var page embed.FS

// Options say who may ask.
type Options struct {
	Token   string   // that every request must have; "" for none
	Origins []string // of pages that may read besides our own, such as http://localhost:3000
	Hosts   []string // names of this server besides localhost, its addresses and the machine's name
}

// A Server is an http.Handler.
type Server struct {
	watcher     *watch.Watcher
	options     Options
	mux         http.ServeMux
	cross       *http.CrossOriginProtection
	unsubscribe func()
	epoch       string // tells the ids of this process from those of others

	mu      sync.Mutex
	last    int       // id of the newest event
	recent  []message // the newest ones
	clients map[*client]bool
	closed  bool
}

// A message is an event with its id.
type message struct {
	id    int
	event watch.Event
}

// A client reads /events.
type client struct {
	messages chan message // closed when it is dropped
}

// New returns a server of the Watcher's. Close ends its streams.
func New(w *watch.Watcher, o Options) (*Server, error) {
	s := &Server{watcher: w, options: o, cross: http.NewCrossOriginProtection(), epoch: rand.Text()[:8], clients: map[*client]bool{}}
	for _, origin := range o.Origins {
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("%q is no origin such as http://localhost:3000", origin)
		}
	}
	s.mux.HandleFunc("GET /events", s.events)
	s.mux.HandleFunc("GET /states", s.states)
	s.mux.HandleFunc("POST /retry", s.retry)
	s.mux.HandleFunc("GET /{$}", s.page("page.html"))
	s.mux.HandleFunc("GET /page.css", s.page("page.css"))
	s.mux.HandleFunc("GET /page.js", s.page("page.js"))
	s.unsubscribe = w.Subscribe(s.take)
	return s, nil
}

// Close ends the streams of all clients.
func (s *Server) Close() {
	s.unsubscribe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.clients {
		s.drop(c)
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer") // the page's address may have the token
	if !s.knows(r.Host) {
		// A page elsewhere whose name was made to lead here would read everything.
		http.Error(w, "this server is asked by a name that is not its own", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		if !slices.Contains(s.options.Origins, origin) {
			http.Error(w, "pages of other origins may not read this", http.StatusForbidden)
			return
		}
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Vary", "Origin")
		if r.Method == http.MethodOptions {
			header.Set("Access-Control-Allow-Headers", "authorization, content-type")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if err := s.cross.Check(r); err != nil {
		http.Error(w, "pages of other origins may not ask for this", http.StatusForbidden)
		return
	}
	if !s.admits(w, r) {
		header.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN", http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// knows reports whether a Host header names this server. Addresses cannot be made to
// lead elsewhere.
func (s *Server) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	machine, _ := os.Hostname()
	return name == "localhost" || net.ParseIP(name) != nil || machine != "" && name == strings.ToLower(machine) ||
		slices.ContainsFunc(s.options.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

const cookieName = "mcp-reconnect-token"

// admits checks the token. A browser gets it as a cookie: its EventSource sends no header.
func (s *Server) admits(w http.ResponseWriter, r *http.Request) bool {
	if s.options.Token == "" {
		return true
	}
	is := func(token string) bool {
		return subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) == 1
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && is(token) {
		return true
	}
	if cookie, err := r.Cookie(cookieName); err == nil && is(cookie.Value) {
		return true
	}
	if is(r.URL.Query().Get("token")) {
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: s.options.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		return true
	}
	return false
}

func (s *Server) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, name) }
}

func (s *Server) states(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, struct {
		Targets []watch.TargetState `json:"targets"`
	}{s.watcher.States()})
}

func (s *Server) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

// retry takes {"servers":[…],"directories":[…]}, none of which means all.
func (s *Server) retry(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Servers, Directories []string
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&asked)
	if err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, `the body is nothing, or JSON such as {"servers":["github"],"directories":["/home/ann/project"]}`, http.StatusBadRequest)
		return
	}
	s.watcher.Retry(asked.Servers, asked.Directories)
	w.WriteHeader(http.StatusAccepted)
}

// take gives an event to every client, and waits for none.
func (s *Server) take(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	m := message{s.last, e}
	s.recent = append(s.recent, m)
	if len(s.recent) >= 2*kept { // seldom, so that it costs nothing
		s.recent = slices.Clone(s.recent[len(s.recent)-kept:])
	}
	for c := range s.clients {
		select {
		case c.messages <- m:
		default:
			s.drop(c) // too slow; it may come back, and have what it missed
		}
	}
}

func (s *Server) drop(c *client) {
	if s.clients[c] {
		delete(s.clients, c)
		close(c.messages)
	}
}

// join adds a client, with what happened since the event that it had last.
func (s *Server) join(lastEventID string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &client{make(chan message, backlog)}
	if s.closed {
		close(c.messages)
		return c
	}
	for _, m := range s.recent[max(0, len(s.recent)-kept):] {
		if m.id > s.number(lastEventID) {
			c.messages <- m
		}
	}
	s.clients[c] = true
	return c
}

// number is the number in an event's id. Without one, nothing is sent again; with one
// of another process everything is, since what was missed is not known.
func (s *Server) number(id string) int {
	if id == "" {
		return s.last
	}
	epoch, number, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(number)
	if err != nil || epoch != s.epoch {
		return 0
	}
	return n
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	c := s.join(r.Header.Get("Last-Event-ID"))
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(c)
	}()
	control := http.NewResponseController(w)
	quiet := time.NewTicker(heartbeat)
	defer quiet.Stop()
	write := func(m *sse.Message) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience))
		_, err := m.WriteTo(w)
		return err == nil && control.Flush() == nil
	}
	beat := &sse.Message{}
	beat.AppendComment("heartbeat")
	if !write(beat) {
		return
	}
	for {
		select {
		case m, ok := <-c.messages:
			if !ok {
				return
			}
			if !write(s.encode(m)) {
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

func (s *Server) encode(m message) *sse.Message {
	text, err := json.Marshal(m.event)
	if err != nil {
		text = []byte("{}") // an Event holds nothing that cannot be written
	}
	out := &sse.Message{ID: sse.ID(fmt.Sprintf("%s-%d", s.epoch, m.id)), Type: sse.Type(m.event.Type)}
	out.AppendData(string(text))
	return out
}
