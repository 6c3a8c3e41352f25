package state

// A Watch is a connection of a running watch to an OpenCode server.
type Watch struct {
	Pid         int
	Version     string
	URL         string // of the OpenCode server
	State       string // of the connection, in the words of package watch
	Error       string // why it is not connected, or ""
	Directories int    // how many of its directories are in use
}
