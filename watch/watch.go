// Package watch reconnects the MCP servers of OpenCode servers from outside, over
// HTTP, and tells whoever subscribes what becomes of them: for an OpenCode whose
// environment nobody sets, so that no plugin is in it. It never starts a server,
// looks for none, and asks about no directory that has not shown a sign of use itself, or
// was named by somebody.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// MaxTargets is how many targets a Watcher has at most.
const MaxTargets = 50

// ErrClosed says that the Watcher was closed.
var ErrClosed = errors.New("the watch is closed")

// Options say how to watch.
type Options struct {
	// Policy is that of the reconnecting, and of the streams: a stream is given
	// ConnectTimeout to open, with further requests beside the first while none is
	// answered, is reopened after InitialDelay, doubling to a minute, at most MaxAttempts
	// times in a row, and every ProbeInterval from then on; it lasted if it lived for
	// StableAfter, and is idle after IdleAfter.
	Policy plugin.Policy
	// StateDir is plugin.Location's StateDir: what a running plugin says there that it
	// manages is left to it, what plugins are told there is obeyed, and state files there
	// say what is known, for status and retry. "" for none. A process has one Watcher with
	// the same directory.
	StateDir string
	// Log takes lines for people, of the levels that it wants, whatever Policy.Log is
	// (rule 17); nil for none.
	Log *slog.Logger
	// Transport makes the requests; nil for one of its own. Whose it is closes its
	// connections in the end.
	Transport http.RoundTripper
}

// A Target is an OpenCode server.
type Target struct {
	URL      string // http or https, without credentials
	Username string // "" for OpenCode's default, opencode
	Password string // "" for none
	Keep     bool   // it is never forgotten, however long it cannot be reached
}

// The states of a target.
const (
	Connecting   = "connecting"   // for the first time
	Connected    = "connected"    // its events arrive
	Waiting      = "waiting"      // its stream was lost, or did not open, and is tried again soon
	GivenUp      = "given_up"     // tried too often in a row: tried every ProbeInterval
	Unauthorized = "unauthorized" // it wants another password: tried every ProbeInterval
	Idle         = "idle"         // nothing happens there; the stream is open, and nothing is asked
	Closed       = "closed"       // disconnected, or forgotten
)

// TargetState is what is known of a target.
type TargetState struct {
	URL         string           `json:"url"` // as an ID
	State       string           `json:"state"`
	OpenCode    int              `json:"opencode"` // 1 or 2; 0 for not known yet
	Error       string           `json:"error"`
	Attempt     int              `json:"attempt"`           // tries in a row
	Since       time.Time        `json:"since,omitzero"`    // when it got its state
	NextTry     time.Time        `json:"next_try,omitzero"` // zero if none is planned
	Directories []DirectoryState `json:"directories"`
}

// DirectoryState is what is known of a project directory that is in use.
type DirectoryState struct {
	Directory string `json:"directory"`
	// ByOther says that another one does the work: a plugin of ours in that OpenCode, or
	// another watch.
	ByOther bool `json:"by_other"`
	// Servers is empty while it is not known how they are, as after a lost stream.
	Servers []ServerState `json:"servers"`

	known bool // a status was read since the stream was opened
}

func (d DirectoryState) servers() (servers []state.Server) {
	for _, s := range d.Servers {
		servers = append(servers, state.Server{Name: s.Name, Status: s.Status, Skipped: s.Status == "failed" && s.State == "failed"})
	}
	return servers
}

// ServerState is a state.Server, with the word of the last state event about it.
type ServerState struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Status  string    `json:"status"` // OpenCode's word
	Tries   int       `json:"tries"`
	Error   string    `json:"error"`
	Since   time.Time `json:"since,omitzero"`
	NextTry time.Time `json:"next_try,omitzero"`
}

// A Watcher holds a connection to each of its targets.
type Watcher struct {
	options Options
	client  *http.Client
	own     *http.Transport // nil if the caller gave one
	ctx     context.Context // ends with Close
	close   context.CancelFunc
	wall    func() time.Time // the clock on the wall, which a sleep of the machine moves

	audience audience
	plugins  plugins

	mu      sync.Mutex
	targets map[string]*target // by the place of their addresses
	paused  bool
	running sync.WaitGroup // of the targets, and of steer

	keeper *keeper // nil without a plugin's directory
}

// New returns a Watcher without targets. Close ends it. An error says what is wrong with
// the policy.
func New(o Options) (*Watcher, error) {
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	return newWatcher(o, time.Now), nil
}

func newWatcher(o Options, wall func() time.Time) *Watcher {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var own *http.Transport
	if o.Transport == nil {
		own = &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			// net/http goes on with a dial whose request was canceled, and the system does
			// so for minutes: of an address that swallows packets, hundreds would pile up.
			// The target gives up a stream first, and says so in its words.
			DialContext:            (&net.Dialer{Timeout: 2 * o.Policy.ConnectTimeout}).DialContext,
			ForceAttemptHTTP2:      true, // as without a DialContext
			MaxIdleConnsPerHost:    o.Policy.Concurrency,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
		o.Transport = own
	}
	w := &Watcher{
		options: o,
		own:     own,
		client: &http.Client{
			Transport: o.Transport,
			// A server that sends elsewhere is none that was to be watched, nor is the
			// other one to get the password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		wall:    wall,
		targets: map[string]*target{},
	}
	w.ctx, w.close = context.WithCancel(context.Background())
	w.audience.log = o.Log
	w.plugins = plugins{dir: o.StateDir, now: wall}
	if o.StateDir != "" {
		w.keeper = newKeeper()
		go w.keeper.run(o.Log)
		w.obey()
	}
	return w
}

// Connect begins to watch a target, and returns its state. One that is watched already
// takes a password that is given, and Keep.
func (w *Watcher) Connect(o Target) (TargetState, error) {
	at, err := parseAddress(o.URL)
	if err != nil {
		return TargetState{}, err
	}
	for {
		t, fresh, err := w.join(at, o)
		if err != nil {
			return TargetState{}, err
		}
		if !fresh {
			t.post(func(now time.Time) { t.update(now, o) })
		}
		if s, ok := t.state(); ok {
			return s, nil
		}
		<-t.done // it was disconnected meanwhile
	}
}

// join returns the target at this address, which may be a fresh one.
func (w *Watcher) join(at address, o Target) (t *target, fresh bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t = w.targets[at.place()]
	switch {
	case w.ctx.Err() != nil:
		return nil, false, ErrClosed
	case t != nil:
		return t, false, nil
	case len(w.targets) >= MaxTargets:
		return nil, false, fmt.Errorf("there are %d targets already, and more are not watched", MaxTargets)
	}
	t = newTarget(w, at, o, w.paused)
	w.targets[at.place()] = t
	w.running.Go(t.run)
	return t, true, nil
}

// Disconnect ends the connection to a target, for good, and reports whether there was one.
// The URL may be in another spelling than the target's.
func (w *Watcher) Disconnect(url string) bool {
	t := w.target(url)
	if t == nil {
		return false
	}
	t.stop("disconnected")
	<-t.done
	return true
}

// Has reports whether a target is watched, in whatever spelling.
func (w *Watcher) Has(url string) bool { return w.target(url) != nil }

func (w *Watcher) target(url string) *target {
	at, err := parseAddress(url)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.targets[at.place()]
}

// remove forgets a target that has ended. None takes its place before.
func (w *Watcher) remove(t *target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.targets, t.at.place())
}

func (w *Watcher) all() []*target {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*target
	for _, t := range w.targets {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *target) int { return cmp.Compare(a.id, b.id) })
	return all
}

// HasPassword reports whether a password is known for a target: who has the Watcher ask
// that OpenCode for something may have none.
func (w *Watcher) HasPassword() bool {
	return slices.ContainsFunc(w.all(), func(t *target) bool { return t.guarded.Load() })
}

// States returns the state of every target, in the order of their URLs.
func (w *Watcher) States() []TargetState {
	states := []TargetState{}
	for _, t := range w.all() {
		if s, ok := t.state(); ok {
			states = append(states, s)
		}
	}
	return states
}

// Pause says whether reconnecting MCP servers is paused. Events are told all the same.
func (w *Watcher) Pause(paused bool) {
	w.mu.Lock()
	w.paused = paused
	w.mu.Unlock()
	for _, t := range w.all() {
		t.post(func(now time.Time) { t.pause(now, w.Paused()) }) // what was said last, whoever comes first here
	}
}

// Paused reports whether reconnecting is paused.
func (w *Watcher) Paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
}

// Subscribe has the listener called with every event from now on, one at a time, on a
// goroutine of its own. One that is thousands of events behind misses the oldest, and is
// told so. After unsubscribe has returned it is not called again; a call may still be
// under way.
func (w *Watcher) Subscribe(listener func(Event)) (unsubscribe func()) {
	return w.audience.add(listener)
}

// Relay tells subscribers of an event of another Watcher, which its Origin names.
func (w *Watcher) Relay(e Event) { w.audience.tell(e) }

// Close ends every connection and goroutine. A listener that is being called keeps its
// goroutine until it returns.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.close()
	w.mu.Unlock()
	w.running.Wait()
	if w.keeper != nil {
		w.keeper.close()
	}
	w.audience.close()
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}

// random is for jitter.
func random() float64 { return rand.Float64() }

// errText is an error in one line, without what net/http puts before it: the URL is
// told beside it, and has the directory in it.
func errText(err error) string {
	var wrapped *url.Error
	sent := errors.As(err, &wrapped)
	if sent {
		err = wrapped.Err
	}
	if refused(err) {
		return "nothing listens there: connection refused"
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed the connection"
	}
	text := shown(strings.Join(strings.Fields(err.Error()), " "), errorLimit)
	if sent { // where the address of a proxy may have a password in it
		return reconnect.Harmless(text)
	}
	return text
}

// shown is a text that a server had a say in, so that it can be shown: at most so many
// characters, none of which steers a terminal.
func shown(text string, limit int) string {
	text = oneline.Text(text)
	if characters := []rune(text); len(characters) > limit {
		text = string(characters[:limit-1]) + "…"
	}
	return text
}
