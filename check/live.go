package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/subprocess"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const (
	liveLimit   = time.Minute      // for all of it; the first start in a new home installs packages
	answerLimit = 10 * time.Second // for a request, which is then made again
	livePause   = 100 * time.Millisecond
)

// loadLimit is how long the plugin may take to say that it is there, from OpenCode's
// answer on. Tests shorten it.
var loadLimit = 15 * time.Second

// Live starts OpenCode once with the content, in a home of its own and on loopback
// alone, makes it load its plugins for an empty project, which starts no MCP server, and
// looks whether ours says that it is there. All of that is gone when it returns. An
// error says that OpenCode could not be started or did not answer.
func Live(ctx context.Context, program string, o Options) ([]Diagnostic, error) {
	location, err := plugin.Locate(o.DataDir)
	if err != nil {
		return nil, err
	}
	if err := state.Try(location.StateDir); err != nil {
		return nil, fmt.Errorf("the plugin cannot write the state by which it would be seen: %w", err)
	}
	root, err := os.MkdirTemp("", "mcp-reconnect-check-")
	if err != nil {
		return nil, err
	}
	defer removeAll(root)
	if root, err = filepath.EvalSymlinks(root); err != nil { // the plugin tells the directory without links
		return nil, err
	}
	project := filepath.Join(root, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, liveLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "serve", "--hostname", "127.0.0.1", "--port", "0")
	output := &portFinder{port: make(chan int, 1)}
	cmd.Dir, cmd.Env = project, isolated(o, root)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	subprocess.Group(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("OpenCode cannot be started: %w", subprocess.Cause(err))
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // how it ended says nothing that may be repeated
		close(ended)
	}()
	defer state.Read(location.StateDir) // which removes what the process left there
	defer func() {
		cmd.Cancel()
		<-ended
	}()

	c := checker{Options: o}
	found, err := c.watch(ctx, output.port, project, location, ended)
	if err != nil {
		return nil, err
	}
	if !found && len(c.found) == 0 {
		c.add(LiveNotLoaded, Error, "OpenCode started and did not load the plugin")
	}
	return c.found, nil
}

// watch makes an instance and waits until the plugin in it says that it is there.
func (c *checker) watch(ctx context.Context, port <-chan int, project string, l plugin.Location, ended <-chan struct{}) (found bool, err error) {
	// ctx stays the one that ends the process: of one made from it that may not be seen yet.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan int, 1)
	go func() {
		select {
		case port := <-port:
			answer <- answerTo(asking, port, "/config?directory="+url.QueryEscape(project))
		case <-asking.Done():
		}
	}()
	var enough <-chan time.Time
	for {
		instances, err := state.Read(l.StateDir)
		if err != nil {
			return false, err
		}
		for _, instance := range instances.List {
			if instance.Directory == project {
				return true, nil
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return false, fmt.Errorf("OpenCode does not answer within %v", liveLimit)
			}
			return false, errors.New("interrupted")
		case <-ended:
			if ctx.Err() == nil { // not by us
				c.add(LiveRefused, Error, "OpenCode ended by itself with this configuration")
				return false, nil
			}
		case status := <-answer:
			if status != 200 && status != 0 {
				c.add(LiveRefused, Error, fmt.Sprintf("OpenCode answers every request with status %d with this configuration", status))
				return false, nil
			}
			enough = time.After(loadLimit)
		case <-enough:
			return false, nil
		case <-time.After(livePause):
		}
	}
}

// answerTo makes a request until it is answered, and returns the answer's status.
func answerTo(ctx context.Context, port int, path string) (status int) {
	for ctx.Err() == nil {
		// One that comes too early may never be answered (OpenCode 1.18.33).
		try, cancel := context.WithTimeout(ctx, answerLimit)
		status, err := get(try, port, path)
		cancel()
		if err == nil {
			return status
		}
		time.Sleep(livePause)
	}
	return 0
}

// isolated is the environment for an OpenCode that has nothing of the user's but the content.
func isolated(o Options, root string) []string {
	var env []string
	for _, entry := range o.Environ {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		switch {
		case strings.HasPrefix(name, "OPENCODE_"), strings.HasPrefix(name, "MCP_RECONNECT_"), strings.HasPrefix(name, "XDG_"),
			name == "HOME", name == "USERPROFILE":
		default:
			env = append(env, entry)
		}
	}
	for _, kind := range []string{"CONFIG", "DATA", "CACHE", "STATE"} {
		env = append(env, "XDG_"+kind+"_HOME="+filepath.Join(root, strings.ToLower(kind)))
	}
	return append(env, "HOME="+root, "USERPROFILE="+root, o.Variable+"="+o.Content,
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1")
}

// A portFinder is written what OpenCode prints, and finds the port that it listens on.
type portFinder struct {
	text []byte
	port chan int
}

func (p *portFinder) Write(b []byte) (int, error) {
	const limit = 64 << 10 // it is said early
	if p.text = append(p.text, b...); len(p.text) <= limit {
		_, rest, found := bytes.Cut(p.text, []byte("listening on http://127.0.0.1:"))
		if digits, _, ended := bytes.Cut(rest, []byte("\n")); found && ended {
			if port, err := strconv.Atoi(strings.TrimSpace(string(digits))); err == nil {
				p.port <- port
			}
			p.text = make([]byte, limit) // nothing more to look for
		}
	} else {
		p.text = p.text[:limit+1]
	}
	return len(b), nil
}

// get makes a request on loopback, past any proxy, and returns the answer's status.
func get(ctx context.Context, port int, path string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// removeAll removes a directory that a process which is just ending may still write into.
func removeAll(dir string) {
	for range 20 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(livePause)
	}
}
