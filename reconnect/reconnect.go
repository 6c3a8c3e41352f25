// Package reconnect is the reconnect logic for hosts written in Go: the rules of
// docs/engine.md as template/engine.js has them, for one project directory of one
// OpenCode. It is pure: what happened and the time go in, actions come out. It starts
// no goroutine, sets no timer, reads no clock, file or variable, and talks to nobody.
//
// A host calls an Engine's functions one at a time, with times that never go back.
// After each call it looks at every engine of Pool.Pending, since a slot that one
// gives back may make another one act: it does what Engine.Actions returns, in that
// order, and calls Advance at the time that Next gives.
package reconnect

// A Status is what OpenCode says of a server.
type Status struct {
	State string // connected, failed, disabled, needs_auth, …; "" if it is not to be understood
	Error string // of a failed one
}

// A Use is a sign that an instance's MCP is in use (rule 2).
type Use int

const (
	Prompt Use = iota // a person asked something
	Busy              // any other work of a session
	MCP               // an event of MCP, which may name its server
	Load              // the host's own decision, as with start=load
	Asked             // somebody names the instance
)

// An Action is what a host is to do: ReadStatus, Connect, Log or Transition.
type Action interface{ action() }

type (
	// ReadStatus asks for the status of all servers. Read takes the answer. Reads never
	// overlap: the next one comes after the answer, or after three minutes without
	// one (rule 16). A host gives up the read before then, and never passes its answer.
	ReadStatus struct{}

	// Connect asks for one connect of a server. Settled says that it is over, however it
	// ended and however long it took; until then there is no other one to the server.
	Connect struct{ Server string }

	// Log is a line for people, about a server or about all (rule 17). Its level is
	// "info" or "warn". What of it is wanted (Policy.Log) is the host's to know.
	Log struct{ Level, Text string }

	// A Transition is a change of a server, for those who watch. From and To are one
	// word each:
	//
	//	waiting, trying, parked, dormant   the phase (state.Server has them) of a server that
	//	                                   failed and that the engine looks after
	//	dead, outdated                     the phase of one that OpenCode calls connected
	//	connected, failed, disabled, …     else what OpenCode says; failed is one that is skipped
	//	""                                 not known yet, or no longer configured
	//
	// So connected means that a status read said so. What is between two calls of the
	// engine's functions is one transition: a server that is seen to fail goes from
	// connected to waiting.
	Transition struct {
		Server, From, To string
		Attempt          int    // tries in this outage
		Error            string // the last one, without secrets; "" once connected
	}
)

func (ReadStatus) action() {}
func (Connect) action()    {}
func (Log) action()        {}
func (Transition) action() {}
