//go:build unix

package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
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
func (s Servers) Mark(name, ending string) { Check(os.WriteFile(s.File(name, ending), nil, 0o600)) }

// Unmark removes it.
func (s Servers) Unmark(name, ending string) { Check(os.Remove(s.File(name, ending))) }

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

// A Remote is an MCP server on a port of its own, which comes and goes.
type Remote struct {
	URL string

	port    string
	command []string
	environ []string
	cmd     *exec.Cmd
}

// Remote reserves an address for a server of testdata/servers. Nothing listens there
// before Serve.
func (s Servers) Remote(name string) *Remote {
	port := strconv.Itoa(Must(opencode.FreePort()))
	return &Remote{
		URL:     "http://127.0.0.1:" + port + "/mcp",
		port:    port,
		command: []string{s.bed.node, filepath.Join(s.bed.scripts, "mcp-http.mjs"), name, port},
		environ: []string{"MCP_TEST_DIR=" + s.dir},
	}
}

// Config is its configuration.
func (r *Remote) Config() map[string]any { return map[string]any{"type": "remote", "url": r.URL} }

// Serve starts the server and waits until it listens.
func (r *Remote) Serve(ctx context.Context) {
	r.cmd = exec.Command(r.command[0], r.command[1:]...)
	r.cmd.Env = append(os.Environ(), r.environ...)
	r.cmd.Stderr = os.Stderr
	Check(r.cmd.Start())
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+r.port)
		if err == nil {
			conn.Close()
			return
		}
		Pause(ctx, 10*time.Millisecond)
	}
}

// Kill ends the server, if it runs.
func (r *Remote) Kill() {
	if r.cmd != nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
		r.cmd = nil
	}
}
