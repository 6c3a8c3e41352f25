//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
)

const (
	limit    = time.Minute            // what is not back by then counts as never
	rest     = 2 * time.Second        // from the first prompts to a failure, until OpenCode is quiet
	settling = 5 * time.Second        // after a recovery, for wrong actions to show
	interval = 10 * time.Millisecond  // between two reads of a directory's status
	overlap  = 100 * time.Millisecond // starts so close count as going on at once
	never    = time.Duration(math.MaxInt64)
)

// A setting is what a scenario begins with. Every directory has the same servers.
type setting struct {
	servers []string
	down    []string      // of the servers, those that cannot start at first
	life    time.Duration // if set, every server dies so long after its start
	used    int           // directories with a prompt in them
	unused  int           // directories that are only opened
	signIn  bool          // there is one more server, which waits for a sign-in
}

// A round is one OpenCode with one contestant's plugin, for one scenario. What
// fails in it, fails the comparison: see check.
type round struct {
	setting
	ctx      context.Context
	server   *opencode.Server
	root     string   // everything that the round writes
	dirs     []string // in use
	killed   map[int]bool
	handsOff map[mcpServer]time.Time // since when a start of this server is wrong
	back     int                     // how many came back

	took         time.Duration // to recover; 0 where there is nothing to recover
	extra, wrong int           // see count
	atOnce       int           // starts, where a scenario counts that

	remote  *httptest.Server // the server that waits for a sign-in
	asked   atomic.Int32     // how often that was called
	touched int32            // asked when the scenario began
}

// An mcpServer is a server in a project directory.
type mcpServer struct{ dir, name string }

type start struct {
	mcpServer
	pid int
	at  time.Time
}

// begin starts OpenCode and brings it to where the scenario begins.
func (r *round) begin(c *comparison, who contestant) {
	for n := range r.used {
		r.dirs = append(r.dirs, r.mkdir(fmt.Sprint("used-", n)))
	}
	r.mkdir("mcp")
	for _, name := range r.down {
		check(os.WriteFile(r.file(name, "down"), nil, 0o600))
	}
	r.remote = httptest.NewServer(r)
	home, tmp := r.mkdir("home"), r.mkdir("tmp")
	config := must(who.configure(r.configuration(c), filepath.Join(home, "data")))
	r.server = must(opencode.Start(r.ctx, opencode.Options{
		Command:   []string{c.binary},
		Home:      home,
		ConfigDir: c.configDir,
		Dir:       r.dirs[0],
		Environ: []string{
			"OPENCODE_CONFIG_CONTENT=" + config,
			"TMPDIR=" + tmp, // a killed OpenCode leaves 30 MB of libraries there
		},
	}))
	for n := range r.unused {
		check(r.server.Call(r.ctx, "POST", "/session", r.mkdir(fmt.Sprint("unused-", n)), struct{}{}, nil))
	}
	for _, dir := range r.dirs {
		must(r.server.Prompt(r.ctx, dir, "hello"))
	}
	if r.life == 0 { // what dies by itself may be dead by now
		r.expectHealthy()
	}
	r.touched = r.asked.Load()
}

// end stops OpenCode and removes what the round wrote.
func (r *round) end() {
	if r.remote != nil {
		r.remote.Close()
	}
	if r.server != nil {
		r.server.Stop()
		<-r.server.Ended()
	}
	os.RemoveAll(r.root) // what is left goes with the comparison's directory
}

func (r *round) mkdir(name string) string {
	dir := filepath.Join(r.root, name)
	check(os.Mkdir(dir, 0o700))
	return dir
}

// file is one of those that testdata/servers/mcp.mjs knows.
func (r *round) file(name, ending string) string {
	return filepath.Join(r.root, "mcp", name+"."+ending)
}

func (r *round) configuration(c *comparison) string {
	environment := map[string]string{"MCP_TEST_DIR": filepath.Join(r.root, "mcp"), "MCP_TEST_TIMES": "1"}
	if r.life > 0 {
		environment["MCP_TEST_LIFE"] = fmt.Sprint(r.life.Milliseconds())
	}
	mcp := map[string]any{}
	for _, name := range r.servers {
		mcp[name] = map[string]any{"type": "local", "command": []string{c.node, c.script, name}, "environment": environment}
	}
	if r.signIn {
		mcp["sign-in"] = map[string]any{"type": "remote", "url": r.remote.URL + "/mcp"}
	}
	return string(must(json.Marshal(map[string]any{"provider": c.model.Provider(), "mcp": mcp})))
}

// ServeHTTP answers for a remote MCP server that lets nobody in without a sign-in,
// with as much of OAuth as brings OpenCode to call it needs_auth.
func (r *round) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch request.URL.Path {
	case "/mcp":
		r.asked.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	case "/register":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"client_id":"compare","redirect_uris":["http://127.0.0.1/"]}`)
	default:
		http.NotFound(w, request)
	}
}

// expectHealthy checks that all is well but what is not meant to be. From now on
// it is wrong to start a server that is connected.
func (r *round) expectHealthy() {
	for _, dir := range r.dirs {
		status := must(r.server.MCP(r.ctx, dir))
		expect := func(name, state string) {
			if status[name].Status != state {
				check(fmt.Errorf("%s is not %s at the beginning: %v", name, state, status[name]))
			}
		}
		for _, name := range r.servers {
			if !slices.Contains(r.down, name) {
				expect(name, "connected")
				r.handsOff[mcpServer{dir, name}] = time.Now()
			}
		}
		if r.signIn {
			expect("sign-in", "needs_auth")
		}
	}
}

func (r *round) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
		check(context.Cause(r.ctx)) // says which signal
	}
}

// starts reads the servers' logs. No directory of ours has a blank in its name.
func (r *round) starts() (starts []start) {
	for _, name := range r.servers {
		text, err := os.ReadFile(r.file(name, "log"))
		if !os.IsNotExist(err) {
			check(err)
		}
		for line := range strings.Lines(string(text)) {
			s, ms := start{mcpServer: mcpServer{name: name}}, int64(0)
			must(fmt.Sscan(line, &s.pid, &s.dir, &ms))
			s.at = time.UnixMilli(ms)
			starts = append(starts, s)
		}
	}
	return starts
}

// processes returns for each server the process that was started last.
func (r *round) processes() map[mcpServer]int {
	pids := map[mcpServer]int{}
	for _, s := range r.starts() {
		pids[s.mcpServer] = s.pid
	}
	return pids
}

// kill kills the named servers in every used directory.
func (r *round) kill(names ...string) {
	for s, pid := range r.processes() {
		if slices.Contains(names, s.name) && slices.Contains(r.dirs, s.dir) {
			delete(r.handsOff, s)
			r.killed[pid] = true
			check(syscall.Kill(pid, syscall.SIGKILL))
		}
	}
}

// untilConnected returns how long after a moment the last of the named servers
// was connected in the last used directory, or never.
func (r *round) untilConnected(since time.Time, names ...string) time.Duration {
	waiting := map[mcpServer]bool{}
	for _, dir := range r.dirs {
		for _, name := range names {
			waiting[mcpServer{dir, name}] = true
		}
	}
	for time.Since(since) < limit {
		pids := r.processes() // before the status, which may not know of a death yet
		read := map[string]map[string]opencode.Status{}
		maps.DeleteFunc(waiting, func(s mcpServer, _ bool) bool {
			if read[s.dir] == nil {
				read[s.dir] = must(r.server.MCP(r.ctx, s.dir))
			}
			if read[s.dir][s.name].Status != "connected" || r.killed[pids[s]] {
				return false
			}
			r.handsOff[s] = time.Now()
			r.back++
			return true
		})
		if len(waiting) == 0 {
			took := time.Since(since)
			r.pause(settling)
			return took
		}
		// OpenCode answers on one thread, which has the servers to start as well.
		r.pause(time.Duration(len(read)) * interval)
	}
	return never
}

// count finds the starts beyond each server's first and the one that brought it
// back, and the wrong actions.
func (r *round) count() {
	starts := r.starts()
	for _, s := range starts {
		since, off := r.handsOff[s.mcpServer]
		if !slices.Contains(r.dirs, s.dir) || off && s.at.After(since) {
			r.wrong++
		}
	}
	r.wrong += int(r.asked.Load() - r.touched)
	r.extra = len(starts) - len(r.dirs)*len(r.servers) - r.back
}

// countAtOnce finds the most starts after a moment that lay within overlap.
func (r *round) countAtOnce(since time.Time) {
	starts := slices.DeleteFunc(r.starts(), func(s start) bool { return s.at.Before(since) })
	slices.SortFunc(starts, func(a, b start) int { return a.at.Compare(b.at) })
	first := 0
	for last, s := range starts {
		for s.at.Sub(starts[first].at) >= overlap {
			first++
		}
		r.atOnce = max(r.atOnce, last-first+1)
	}
}
