package reconnect

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Call is what is told of one call of a tool (rule 20).
type Call struct {
	ID    string // of this call, whatever becomes of it
	Tool  string // as OpenCode offers it to the model
	State string // pending, running, completed or error
	Text  string // of the error, or what it returned: old versions call a result that is an error completed
}

// A runningCall is a call whose end was not told yet.
type runningCall struct {
	id, server string
	began      time.Time
}

// calls are the running ones, in the order in which they began. The oldest of many is
// forgotten: what is not known to have run proves nothing.
type calls []runningCall

func (c *calls) begin(id, server string, now time.Time) {
	if n := c.index(id); n >= 0 {
		(*c)[n].server = server
		return
	}
	if len(*c) == shared().Constants.MostCalls {
		*c = slices.Delete(*c, 0, 1)
	}
	*c = append(*c, runningCall{id, server, now})
}

// end removes a call. It is not found a second time: one end is told once, however often
// it is repeated.
func (c *calls) end(id string) (call runningCall, found bool) {
	n := c.index(id)
	if n < 0 {
		return call, false
	}
	call = (*c)[n]
	*c = slices.Delete(*c, n, n+1)
	return call, true
}

func (c *calls) index(id string) int {
	return slices.IndexFunc(*c, func(call runningCall) bool { return call.id == id })
}

// of reports whether a call of the server is running that began since a time.
func (c *calls) of(server string, since time.Time) bool {
	return slices.ContainsFunc(*c, func(call runningCall) bool { return call.server == server && !call.began.Before(since) })
}

// toolID is how a name stands in the id of a tool: OpenCode goes by UTF-16 units.
func toolID(name string) string {
	var id strings.Builder
	for _, r := range name {
		switch {
		case r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
			id.WriteRune(r)
		case r > 0xffff:
			id.WriteString("__")
		default:
			id.WriteByte('_')
		}
	}
	return id.String()
}

// owner returns the server whose tool has the id: the one with the longest name that
// fits. It is "" if there is none, as for what OpenCode itself offers, or more than one.
func (e *Engine) owner(tool string) string {
	owner, longest := "", -1
	for name, seen := range e.seen {
		if seen.state == "" || len(seen.prefix) < longest || !strings.HasPrefix(tool, seen.prefix) {
			continue
		}
		if len(seen.prefix) == longest {
			owner = "" // two names that have one id
			continue
		}
		owner, longest = name, len(seen.prefix)
	}
	return owner
}

// Called says what became of a call of a tool. One that proves that its server's
// connection is dead, or that the tools that OpenCode offers are out of date, has the
// server restarted (rule 20).
func (e *Engine) Called(now time.Time, c Call) {
	e.input(now, func() {
		if e.policy.RestartDead == "off" {
			return
		}
		server := e.owner(c.Tool)
		if c.State == "pending" || c.State == "running" {
			if server == "" {
				e.calls.end(c.ID) // it turned out to be nobody's
			} else {
				e.calls.begin(c.ID, server, e.now)
			}
			return
		}
		call, known := e.calls.end(c.ID)
		if !known || call.server != server {
			return
		}
		seen := e.seen[server]
		proven := ""
		if !call.began.Before(seen.connectedAt) { // one of the connection before says nothing
			proven = e.provenBy(server, c)
		}
		if proven == alive {
			e.answers(server)
		}
		s := e.record(server)
		planned := s != nil && s.cause != ""
		if (proven == dead || proven == outdated) && !planned {
			e.doubt(server, proven, c.Text)
		} else if planned && s.timer != nil && !e.calls.of(server, seen.connectedAt) {
			e.planRestart(s) // which waited for this one's end
		}
	})
}

const alive = "alive" // what a call that completed proves

// provenBy is what the end of a call proves of its server: that it is alive, that its
// connection is dead, that its tools are outdated, or "" for nothing. What a network says,
// only a remote server's transport says: of a local one it is a tool's own word.
func (e *Engine) provenBy(server string, c Call) string {
	remote := slices.Contains(e.remotes, server)
	switch ended := c.State == "error" || c.State == "completed"; {
	case !ended:
	case deniesTool(c.Text, strings.TrimPrefix(c.Tool, e.seen[server].prefix)):
		return outdated
	case c.State == "completed":
		return alive
	case remote && says(c.Text, "unreachable") != nil, says(c.Text, "dead") != nil && (remote || !e.noticesDeaths):
		return dead
	case says(c.Text, "ended") != nil:
		e.lookSoon() // it was closed, perhaps by who connects it anew
	}
	return ""
}

// NeedsConfigured reports whether it depends on Configured what a call proves, and that is
// not known.
func (e *Engine) NeedsConfigured(c Call) bool {
	if e.configured || e.paused || e.policy.RestartDead == "off" || c.State != "error" && c.State != "completed" {
		return false
	}
	server := e.owner(c.Tool)
	return server != "" && e.calls.of(server, time.Time{}) && (says(c.Text, "outdated") != nil || says(c.Text, "unreachable") != nil)
}

// Configured says which servers are reached over a network: their restart is a new
// connection, and loses nothing that a process of their own holds (rule 20).
func (e *Engine) Configured(now time.Time, remotes []string) {
	e.input(now, func() { e.remotes, e.configured = remotes, true })
}

// NoticesDeaths says that this OpenCode notices by itself that a local server is gone: what
// a call of one says of its connection is a tool's own word then (rule 20).
func (e *Engine) NoticesDeaths(now time.Time) {
	e.input(now, func() { e.noticesDeaths = true })
}

// deniesTool reports whether an error is a server's own word that it has no such tool,
// whose id, without the server's, is given.
func deniesTool(text, id string) bool {
	denied := says(text, "outdated")
	return denied != nil && toolID(denied[1]) == id
}

// answers notes that a call of the server completed: whatever was thought of its
// connection, it is alive. That says nothing of its other tools.
func (e *Engine) answers(server string) {
	seen := e.seen[server]
	seen.answeredAt, seen.restarts, seen.helpless = e.now, 0, false
	if s := e.record(server); s != nil && s.cause == dead {
		e.disprove(s)
	}
}

// disprove notes that what calls said of the server holds no more.
func (e *Engine) disprove(s *record) {
	switch {
	case s.cause == forced || s.cause == "" && s.phase != outdated:
	case s.phase == trying:
		s.cause = ""
	default:
		e.forget(s)
	}
}

// doubt deals with the proof that a server that is called connected needs a restart.
func (e *Engine) doubt(server, cause, text string) {
	seen, s := e.seen[server], e.record(server)
	if seen.state != "connected" || !e.concerns(server) || e.paused {
		e.lookSoon() // it goes its usual way
		return
	}
	if s != nil && s.phase != up && s.phase != outdated {
		return // a try or a restart is under way, or planned
	}
	if seen.restarts >= e.policy.MaxAttempts {
		if !seen.helpless {
			seen.helpless = true
			e.act(Log{"warn", server + ": reconnecting does not help; it is left alone until one of its calls completes"})
		}
		return
	}
	seen.said.Error, seen.error = text, harmless(text)
	if cause == outdated && !slices.Contains(e.remotes, server) { // its restart may lose what it holds
		if s != nil && s.phase == outdated {
			return
		}
		if s == nil {
			s = e.newRecord(server)
		}
		e.move(s, outdated)
		e.act(Log{"warn", fmt.Sprintf("%s: OpenCode offers tools that the server no longer has; mcp-reconnect retry --force %s restarts it", server, server)})
		return
	}
	if s == nil {
		s = e.newRecord(server)
	} else {
		e.settleCount(s)
	}
	s.cause = cause
	e.planRestart(s)
	e.lookSoon()
}

// planRestart plans the restart of a connected server that has a cause: when its other
// calls have ended, but not much later, and once a minute unless one completed in between.
func (e *Engine) planRestart(s *record) {
	if s.cause == forced {
		e.plan(s, waiting, 0)
		return
	}
	var delay time.Duration
	seen := e.seen[s.name]
	if e.calls.of(s.name, seen.connectedAt) {
		delay = e.policy.ConnectTimeout
	}
	if !seen.restartedAt.IsZero() && !seen.answeredAt.After(seen.restartedAt) {
		delay = max(delay, seen.restartedAt.Add(shared().Constants.WakeGap).Sub(e.now))
	}
	e.plan(s, s.cause, delay)
}

// restarts notes that a connected server is restarted.
func (e *Engine) restarts(s *record) {
	if seen := e.seen[s.name]; s.cause != forced {
		seen.restartedAt = e.now
		seen.restarts++
	}
}

// force has a server restarted that is connected, because somebody names it.
func (e *Engine) force(server string) {
	if !e.concerns(server) || e.paused {
		return
	}
	s := e.record(server)
	if s == nil && e.seen[server].state == "connected" {
		s = e.newRecord(server)
		e.move(s, dormant)
	}
	if s == nil || s.try != nil && s.try.connected {
		return // it is switched off, say; or being started
	}
	if s.phase == up || s.phase == outdated || s.phase == dead {
		e.move(s, dormant)
		s.outageAt, s.tries = e.now, 0 // which somebody makes
	}
	s.cause = forced
}
