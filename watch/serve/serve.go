// Package serve is the HTTP side of a Watcher for front ends: its events as server-sent
// events, its states, a request to try now, and a page that shows them. It answers no
// page of another origin and no other name than its own, unless told so.
package serve

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mcp-reconnect/mcp-reconnect/state"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

const bodyLimit = 64 << 10 // of a request

//go:embed page.html page.css page.js
var page embed.FS

// Options say who may ask.
type Options struct {
	// Token is what every request must have; "" for none. It has at least 16 characters,
	// of those that a Bearer token may have (RFC 6750).
	Token string
	// Origins are those of pages that may read besides our own, such as
	// http://localhost:3000. Their hosts are names of this server as well, for one that
	// is behind a proxy.
	Origins []string
	// Hosts are names of this server besides localhost, its addresses and the machine's
	// name. Where there is a Token it has every name.
	Hosts []string
}

// A Server is an http.Handler.
type Server struct {
	watcher     *watch.Watcher
	access      *access
	mux         http.ServeMux
	stream      *stream
	unsubscribe func()
}

// New returns a server of the Watcher's. Close ends its streams. An error says what is
// wrong with the Options, without the token.
func New(w *watch.Watcher, o Options) (*Server, error) {
	access, err := newAccess(o)
	if err != nil {
		return nil, err
	}
	s := &Server{watcher: w, access: access, stream: newStream()}
	s.mux.Handle("GET /events", s.stream)
	s.mux.HandleFunc("GET /states", s.states)
	s.mux.HandleFunc("POST /retry", s.retry)
	s.mux.HandleFunc("GET /{$}", s.start)
	s.mux.HandleFunc("GET /page.css", file("page.css"))
	s.mux.HandleFunc("GET /page.js", file("page.js"))
	s.unsubscribe = w.Subscribe(s.stream.take)
	return s, nil
}

// Close ends the streams of all clients.
func (s *Server) Close() {
	s.unsubscribe()
	s.stream.close()
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer") // the page's address may have the token
	if !s.access.knows(r.Host) {
		http.Error(w, "this server is asked by a name that is not its own", http.StatusForbidden)
		return
	}
	if !s.access.trusts(r) {
		http.Error(w, "pages of other origins may not ask for this", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); s.access.origins[origin] {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Vary", "Origin")
		if r.Method == http.MethodOptions { // whether it may ask; the token comes with what it asks
			header.Set("Access-Control-Allow-Headers", "authorization, content-type, last-event-id")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if !s.access.admits(r) {
		header.Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the token is missing or wrong: Authorization: Bearer TOKEN, or ?token=TOKEN, where + is written %2B", http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, name) }
}

// start is the page. Its address does not keep the token, which would stay in the history.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	if s.access.tokenInAddress(r) {
		s.access.setCookie(w, r)
		w.Header().Set("Location", "./") // relative, as a proxy may have it below a path
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	file("page.html")(w, r)
}

func (s *Server) states(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // a client that is gone needs no answer
		Paused  bool                `json:"paused"`
		Targets []watch.TargetState `json:"targets"`
	}{s.watcher.Paused(), s.watcher.States()})
}

// retry takes {"servers":[…],"directories":[…],"urls":[…],"force":true}. None of the
// lists means all; force takes servers that are named. Directories that are named are
// looked at, whether they are in use or not, but for whoever has neither a token nor the
// password of the OpenCodes. The answer has what it is passed on to.
func (s *Server) retry(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Servers     []string `json:"servers"`
		Directories []string `json:"directories"`
		URLs        []string `json:"urls"`
		Force       bool     `json:"force"`
	}
	if err := readBody(http.MaxBytesReader(w, r.Body, bodyLimit), &asked); err != nil {
		http.Error(w, `the body is nothing, or JSON with servers, directories, urls, force and nothing else, such as {"servers":["github"],"directories":["/home/ann/project"]}`, http.StatusBadRequest)
		return
	}
	if asked.Force && len(asked.Servers) == 0 {
		http.Error(w, `force restarts connected servers, and takes those alone that are named: {"servers":["github"],"force":true}`, http.StatusBadRequest)
		return
	}
	if s.watcher.Paused() {
		http.Error(w, "reconnecting is paused; mcp-reconnect resume ends that", http.StatusConflict)
		return
	}
	retry := state.Retry{Servers: asked.Servers, Directories: asked.Directories, Use: asked.Directories}
	// An OpenCode with a password is not to start what the configuration of a directory
	// says because somebody asked who has neither that nor a token.
	withheld := len(asked.Directories) > 0 && s.access.token == "" && s.watcher.HasPassword()
	if withheld {
		retry.Use = nil
	}
	if asked.Force {
		retry.Force = asked.Servers
	}
	matched, err := s.watcher.Retry(retry, asked.URLs...)
	var ambiguous *watch.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		example, _ := json.Marshal(map[string][]string{"urls": ambiguous.URLs[:1]}) // a list of strings has no error
		http.Error(w, fmt.Sprintf("%v, as in %s", err, example), http.StatusConflict)
	case err != nil && withheld:
		http.Error(w, err.Error()+"; what is not in use is looked at if this server asks for a token (--token-file), since OpenCode has a password", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(struct {
			Matched []watch.Match `json:"matched"`
		}{matched})
	}
}

// readBody reads one JSON value, or nothing. A field that nobody knows is an error: a
// misspelt one would widen what is asked to all.
func readBody(body io.Reader, v any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(v); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("there is something behind the value")
	}
	return nil
}
