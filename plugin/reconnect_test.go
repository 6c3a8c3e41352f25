package plugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"pgregory.net/rapid"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// library is the engine of package reconnect, with a host that feeds it as the plugin's
// does, from the same events and the same control file.
type library struct {
	sim     *simulation
	pool    *reconnect.Pool
	random  func() float64
	engines map[*instance]*hosted
}

// hosted is an instance's engine with what its host must remember.
type hosted struct {
	*reconnect.Engine
	i         *instance
	timer     int64 // for Next
	at        time.Time
	wall      time.Duration // what the clock on the wall was ahead
	reads     int
	started   bool
	paused    bool
	retriedAt int64
	words     map[string]string // the last transition of each server
}

func newReconnect(t rapid.TB, policy Policy) *simulation {
	s := &simulation{t: t, policy: policy, now: epoch}
	l := &library{s, reconnect.NewPool(policy.Concurrency), rand.New(rand.NewPCG(1, 2)).Float64, map[*instance]*hosted{}}
	s.engine = l
	s.files = newFiles(s)
	s.files.changed = l.controlled
	return s
}

func (l *library) load(i *instance) {
	l.dispose(i)
	e := &hosted{Engine: reconnect.New(l.sim.policy, l.pool, l.random), i: i, wall: l.sim.wall, words: map[string]string{}}
	l.engines[i] = e
	e.retriedAt = told(l.sim.files.content[controlFile]).Retry.At // that was asked of others
	l.control(e, l.sim.files.content[controlFile])
	if l.sim.policy.Start == "load" {
		l.sim.add(0, true, func() {
			if l.engines[i] == e {
				l.feed(func() { e.Used(l.sim.now, reconnect.Load, "") })
			}
		})
	}
}

func (l *library) prompt(i *instance) { l.used(i, reconnect.Prompt, "") }

func (l *library) event(i *instance, kind string, properties object) {
	status, _ := properties["status"].(object)
	switch {
	case regexp.MustCompile(`^mcp\.`).MatchString(kind):
		server, _ := properties["server"].(string)
		l.used(i, reconnect.MCP, server)
	case kind == "message.updated", kind == "session.status" && status["type"] == "busy":
		l.used(i, reconnect.Busy, "")
	case kind == "server.instance.disposed" && properties["directory"] == i.dir:
		l.dispose(i)
	}
}

func (l *library) version(i *instance, version string) {
	if e := l.engines[i]; e != nil && reconnect.NoticesDeaths(version) {
		l.feed(func() { e.NoticesDeaths(l.sim.now) })
	}
}

func (l *library) configure(i *instance, remotes map[string]bool) {
	if e := l.engines[i]; e != nil {
		maps.DeleteFunc(remotes, func(_ string, remote bool) bool { return !remote })
		l.feed(func() { e.Configured(l.sim.now, slices.Collect(maps.Keys(remotes))) })
	}
}

func (l *library) call(i *instance, id, tool, state, text string) {
	if e := l.engines[i]; e != nil {
		l.feed(func() { e.Called(l.sim.now, reconnect.Call{ID: id, Tool: tool, State: state, Text: text}) })
	}
}

func (l *library) used(i *instance, use reconnect.Use, server string) {
	l.sim.note("%s: use %v %s", i.dir, use, server)
	if e := l.engines[i]; e != nil {
		l.feed(func() { e.Used(l.sim.now, use, server) })
	}
}

func (l *library) dispose(i *instance) {
	if e := l.engines[i]; e != nil {
		l.sim.timers.remove(e.timer)
		l.feed(func() { e.Close(l.sim.now) })
		delete(l.engines, i)
	}
}

func (l *library) settle() {}

func (l *library) left() string {
	// What fmt shows of a pool: nothing is running, queued or pending.
	if pool := fmt.Sprintf("%+v", *l.pool); !regexp.MustCompile(`running:0 .*queue:\[\] granted:\[\] pending:\[\]`).MatchString(pool) {
		return pool
	}
	return ""
}

// feed tells an engine something, and does what it and the others then want.
func (l *library) feed(tell func()) {
	tell()
	for pending := l.pool.Pending(); len(pending) > 0; pending = l.pool.Pending() {
		for _, engine := range pending {
			actions := engine.Actions()
			for _, e := range l.engines {
				if e.Engine == engine {
					for _, action := range actions {
						l.do(e, action)
					}
					l.schedule(e)
				}
			}
		}
	}
}

func (l *library) do(e *hosted, action reconnect.Action) {
	s, i := l.sim, e.i
	switch a := action.(type) {
	case reconnect.ReadStatus:
		e.reads++
		read := e.reads
		answer := func(status map[string]reconnect.Status) {
			if e.reads == read { // it was not given up
				e.Read(s.now, status)
			}
		}
		instead := i.status(func() {
			status := map[string]reconnect.Status{}
			for name, server := range i.servers {
				status[name] = reconnect.Status{State: server.state, Error: server.reason}
			}
			l.feed(func() { answer(status) })
		})
		switch {
		case instead == nil || instead.fails == "never":
		case instead.takes > 0:
			s.after(instead.takes, func() { l.feed(func() { answer(statuses(instead.body)) }) })
		default:
			answer(statuses(instead.body))
		}
	case reconnect.Connect:
		if i.connect(a.Server, func() { l.feed(func() { e.Settled(s.now, a.Server) }) }) {
			e.Settled(s.now, a.Server)
		}
	case reconnect.Log:
		if a.Text == "active" {
			e.started = true
		}
		i.logged(a.Level, "mcp-reconnect: "+a.Text)
	case reconnect.Transition:
		s.note("%s: %+v", i.dir, a)
		if a.From != e.words[a.Server] || a.From == a.To {
			s.violated("transition %+v after %q", a, e.words[a.Server])
		}
		e.words[a.Server] = a.To
	}
}

// schedule sets a timer for the engine's next moment. A timer that fires far too late
// shows that the machine slept.
func (l *library) schedule(e *hosted) {
	at, ok := e.Next()
	if e.timer != 0 && ok && at.Equal(e.at) {
		return
	}
	l.sim.timers.remove(e.timer)
	if e.timer, e.at = 0, at; !ok {
		return
	}
	e.timer = l.sim.add(at.Sub(l.sim.now), true, func() {
		e.timer = 0
		l.feed(func() {
			if l.sim.wall-e.wall > 30*time.Second {
				e.WokeUp(l.sim.now)
			}
			e.wall = l.sim.wall
		})
		for at, ok := e.Next(); ok && !at.After(l.sim.now); at, ok = e.Next() {
			l.feed(func() { e.Advance(l.sim.now) })
		}
	})
}

// statuses are what an HTTP client makes of a body.
func statuses(body any) map[string]reconnect.Status {
	answer, _ := body.(object)
	data, ok := answer["data"].(object)
	if !ok || answer["error"] != nil {
		return nil
	}
	found := map[string]reconnect.Status{}
	for name, value := range data {
		status := reconnect.Status{}
		switch v := value.(type) {
		case string:
			status.State = v
		case object:
			status.State, _ = v["status"].(string)
			status.Error, _ = v["error"].(string)
		}
		found[name] = status
	}
	return found
}

// control tells an engine what the file says (rule 19), as the host of one hears it.
// told is what a control file says. What is malformed says nothing.
func told(text string) (c state.Control) {
	_ = json.Unmarshal([]byte(text), &c)
	return c
}

func (l *library) control(e *hosted, text string) {
	c := told(text)
	e.paused = c.Paused
	e.Pause(l.sim.now, c.Paused)
	if c.Retry.At <= e.retriedAt {
		return
	}
	e.retriedAt = c.Retry.At
	if slices.Contains(c.Retry.Use, e.i.dir) {
		e.Used(l.sim.now, reconnect.Asked, "")
	}
	if len(c.Retry.Directories) == 0 || slices.Contains(c.Retry.Directories, e.i.dir) {
		e.Retry(l.sim.now, c.Retry.Servers, c.Retry.Force)
	}
}

func (l *library) controlled(text string) {
	for _, i := range l.sim.instances {
		if e := l.engines[i]; e != nil {
			l.feed(func() { l.control(e, text) })
		}
	}
}

func (l *library) saved(i *instance) *savedState {
	e := l.engines[i]
	if e == nil {
		return nil
	}
	saved := &savedState{Directory: i.dir, Started: e.started, Paused: e.paused}
	if e.started {
		saved.RetriedAt = e.retriedAt
	}
	wall := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		ms := t.Add(l.sim.wall).UnixMilli()
		return &ms
	}
	for _, s := range e.Servers() {
		saved.Servers = append(saved.Servers, savedServer{s.Name, s.Status, s.Phase, s.Error, s.Tries, s.Skipped, s.Retried, wall(s.Since), wall(s.TriedAt), wall(s.DueAt)})
		word := s.Status
		if slices.Contains([]string{"waiting", "trying", "parked", "dormant", "dead", "outdated"}, s.Phase) {
			word = s.Phase
		}
		if e.words[s.Name] != word {
			l.sim.violated("%s is %+v, and the last transition was to %q", s.Name, s, e.words[s.Name])
		}
	}
	return saved
}
