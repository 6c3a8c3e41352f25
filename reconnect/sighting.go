package reconnect

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// A sighting is the last status of a server, for people.
type sighting struct {
	said  Status    // as OpenCode said it
	state string    // "" while it is not configured any more
	error string    // the last one, which outlives the failure
	since time.Time // it got its state
	told  string    // the word that the last transition went to

	prefix      string    // what the ids of its tools begin with
	connectedAt time.Time // when a connect of ours was over: a call that began before says nothing of it
	answeredAt  time.Time // when a call completed
	restartedAt time.Time // when it was restarted for what calls said
	restarts    int       // such ones in a row, without a call that completed
	helpless    bool      // that these do not help was said
}

// show keeps what a status says for people.
func (e *Engine) show(answer map[string]Status) {
	for name, status := range answer {
		s := e.seen[name]
		if s == nil {
			s = &sighting{prefix: toolID(name) + "_"}
			e.seen[name] = s
		}
		if s.state != "" && s.said.State != "connected" && status.State == "connected" {
			s.connectedAt = e.now // by whomever
		}
		if s.state == "" || status.State != s.said.State {
			s.state, s.since = "unknown", e.now
			if word().MatchString(status.State) {
				s.state = status.State
			}
		}
		if status.Error != "" && status.Error != s.said.Error {
			s.error = harmless(status.Error)
		}
		s.said = status
	}
	for name, s := range e.seen {
		if _, configured := answer[name]; !configured {
			s.state = ""
		}
	}
}

// tell makes a Transition of each change since it was called last.
func (e *Engine) tell() {
	for _, name := range slices.Sorted(maps.Keys(e.seen)) {
		seen := e.seen[name]
		t := Transition{Server: name, From: seen.told, To: seen.state, Error: seen.error}
		if s := e.record(name); s != nil {
			t.Attempt = s.tries
			if s.phase != up && s.phase != aside {
				t.To = s.phase
			}
		}
		if t.To == "connected" {
			t.Error = ""
		}
		if t.To != t.From {
			seen.told = t.To
			e.act(t)
		}
		if seen.state == "" && t.To == "" {
			delete(e.seen, name)
		}
	}
}

// Servers returns what is known of the servers, in the order of their names, as a
// plugin's state file tells it (rule 18).
func (e *Engine) Servers() []state.Server {
	servers := []state.Server{}
	for _, name := range slices.Sorted(maps.Keys(e.seen)) {
		seen := e.seen[name]
		if seen.state == "" {
			continue // it vanished during a try
		}
		server := state.Server{Name: name, Status: seen.state, Error: seen.error, Since: seen.since, TriedAt: e.triedAt[name]}
		server.Retried = !e.retriedAt.IsZero() && !server.TriedAt.Before(e.retriedAt)
		if s := e.record(name); s != nil {
			server.Phase, server.Tries = s.phase, int(math.Ceil(e.left(s)))
			if s.timer != nil {
				server.DueAt = s.timer.at
			}
		}
		if server.Skipped = !e.concerns(name); server.Skipped && seen.state == "failed" {
			server.Phase = "skipped"
		}
		servers = append(servers, server)
	}
	return servers
}
