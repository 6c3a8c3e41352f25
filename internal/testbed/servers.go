//go:build unix

package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/npm"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// Servers are MCP servers of testdata/servers that are steered and tell of
// themselves in one directory. No directory of a testbed has a blank in its name.
type Servers struct {
	bed *Bed
	dir string
}

// Servers creates the directory.
func (b *Bed) Servers(dir string) Servers { return Servers{b, Mkdir(dir)} }

// File is one of those that the head of a server's script knows.
func (s Servers) File(name, ending string) string { return filepath.Join(s.dir, name+"."+ending) }

// Mark creates such a file.
func (s Servers) Mark(name, ending string) { s.Steer(name, ending, "") }

// Steer writes such a file. No server sees a half of it.
func (s Servers) Steer(name, ending, content string) {
	tmp := s.File(name, ending+".new")
	Check(os.WriteFile(tmp, []byte(content), 0o600))
	Check(os.Rename(tmp, s.File(name, ending)))
}

// Unmark removes it, if it is there.
func (s Servers) Unmark(name, ending string) {
	if err := os.Remove(s.File(name, ending)); !os.IsNotExist(err) {
		Check(err)
	}
}

// Stdio is the configuration of a server over stdio. Life, if set, is how long after
// a start it dies.
func (s Servers) Stdio(name string, life time.Duration) map[string]any {
	environment := map[string]string{"MCP_TEST_DIR": s.dir, "MCP_TEST_TIMES": "1"}
	if life > 0 {
		environment["MCP_TEST_LIFE"] = strconv.FormatInt(life.Milliseconds(), 10)
	}
	return map[string]any{
		"type":        "local",
		"command":     []string{s.bed.node, filepath.Join(s.bed.scripts, "mcp.mjs"), name},
		"environment": environment,
	}
}

// A Start is one of a stdio server.
type Start struct {
	Dir string // in which it was started
	Pid int
	At  time.Time
}

// Starts reads those of a server.
func (s Servers) Starts(name string) (starts []Start, err error) {
	text, err := os.ReadFile(s.File(name, "log"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		var start Start
		var ms int64
		if _, err := fmt.Sscan(line, &start.Pid, &start.Dir, &ms); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", s.File(name, "log"), line, err)
		}
		start.At = time.UnixMilli(ms)
		starts = append(starts, start)
	}
	return starts, nil
}

// A Remote is an MCP server that is reached over HTTP.
type Remote struct {
	*Listener
	path    string // of its URL
	log     string // a file
	session string // what stands there once for each session
}

// A RemoteKind is one of the ways in which a restarted server treats those who had a
// session with it.
type RemoteKind string

const (
	Answers404 RemoteKind = "404"       // over streamable HTTP, as the protocol demands
	Answers400 RemoteKind = "400"       // the same as the examples of the MCP SDK do
	SSE        RemoteKind = "sse"       // the old HTTP+SSE transport
	Reference  RemoteKind = "reference" // the MCP project's own server, over streamable HTTP
)

// Remote reserves an address. Nothing listens there before Start.
func (s Servers) Remote(name string, kind RemoteKind) *Remote {
	r := &Remote{Must(NewListener()), "/mcp", s.File(name, "log"), "POST /mcp initialize"}
	r.Command = []string{s.bed.node, filepath.Join(s.bed.scripts, "mcp-http.mjs"), name, r.Port}
	r.Environ = []string{"MCP_TEST_DIR=" + s.dir}
	switch kind {
	case Answers404, Answers400:
		s.Steer(name, "session", string(kind))
	case SSE:
		r.path, r.session = "/sse", "POST /messages initialize"
		r.Command = append(r.Command, "sse")
	case Reference:
		r.Command = []string{s.bed.node, Must(npm.ReferenceServer(testenv.ReferenceServerVersion)), "streamableHttp"}
		r.Output = Must(os.Create(r.log)) // which tells of every request
		r.session = "Session initialized with ID"
	}
	return r
}

// Config is its configuration.
func (r *Remote) Config() map[string]any {
	return map[string]any{"type": "remote", "url": r.URL(r.path)}
}

// Sessions counts the sessions that were opened so far.
func (r *Remote) Sessions() (int, error) {
	text, err := os.ReadFile(r.log)
	if err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	return strings.Count(string(text), r.session), nil
}
