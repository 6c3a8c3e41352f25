//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
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
	web     web           // unless it has no kind, there is one more server, "web"
	fresh   bool          // no directory has had its prompt yet
}

// A round is one OpenCode with one contestant's plugin, for one scenario. What
// fails in it, fails the comparison: see testbed.Check.
type round struct {
	setting
	ctx    context.Context
	server *opencode.Server
	model  *opencode.Model
	root   string // everything that the round writes
	mcp    testbed.Servers
	dirs   []string // in use
	killed map[int]bool
	calm   map[mcpServer][]span // when a start of this server is wrong
	back   int                  // how many came back

	took         []time.Duration // to recover, each time
	extra, wrong int             // see count
	atOnce       int             // starts, where a scenario counts that
	failed       []int           // calls of web's tool until one worked
	offered      []bool          // whether a prompt's first request had the tool

	remote  *httptest.Server // the server that waits for a sign-in
	asked   atomic.Int32     // how often that was called
	touched int32            // asked when the scenario began
}

// An mcpServer is a server in a project directory.
type mcpServer struct{ dir, name string }

// A span of time has no end yet if that is zero.
type span struct{ from, to time.Time }

// handsOff says that from now on it is wrong to start a server.
func (r *round) handsOff(s mcpServer) { r.calm[s] = append(r.calm[s], span{from: time.Now()}) }

// handsOn says that it is right from now on.
func (r *round) handsOn(s mcpServer) {
	if spans := r.calm[s]; len(spans) > 0 && spans[len(spans)-1].to.IsZero() {
		spans[len(spans)-1].to = time.Now()
	}
}

// begin starts OpenCode and brings it to where the scenario begins.
func (r *round) begin(bed *testbed.Bed, who contestant) {
	for n := range r.used {
		r.dirs = append(r.dirs, testbed.Mkdir(r.root, fmt.Sprint("used-", n)))
	}
	r.model = bed.Model
	r.mcp = bed.Servers(filepath.Join(r.root, "mcp"))
	for _, name := range r.down {
		r.mcp.Mark(name, "down")
	}
	r.remote = httptest.NewServer(r)
	config := map[string]any{}
	for _, name := range r.servers {
		config[name] = r.mcp.Stdio(name, r.life)
	}
	if r.signIn {
		config["sign-in"] = map[string]any{"type": "remote", "url": r.remote.URL + "/mcp"}
	}
	if r.web.kind != "" {
		config["web"] = r.web.listen(r.ctx, r.mcp)
	}
	r.server = bed.Start(r.ctx, r.root, r.dirs[0], map[string]any{"mcp": config}, who.configure)
	for n := range r.unused {
		unused := testbed.Mkdir(r.root, fmt.Sprint("unused-", n))
		testbed.Check(r.server.Call(r.ctx, "POST", "/session", unused, struct{}{}, nil))
	}
	if r.fresh {
		return
	}
	for _, dir := range r.dirs {
		testbed.Must(r.server.Prompt(r.ctx, dir, "hello"))
	}
	if r.life == 0 { // what dies by itself may be dead by now
		r.expectHealthy()
	}
	r.touched = r.asked.Load()
	if r.web.kind != "" {
		r.web.begins(r)
	}
}

// end stops OpenCode and removes what the round wrote.
func (r *round) end() {
	if r.remote != nil {
		r.remote.Close()
	}
	r.web.end()
	if r.server != nil {
		testbed.Stop(r.server)
	}
	os.RemoveAll(r.root) // what is left goes with the comparison's directory
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
		status := testbed.Must(r.server.MCP(r.ctx, dir))
		expect := func(name, state string) {
			if status[name].Status != state {
				testbed.Check(fmt.Errorf("%s is not %s at the beginning: %v", name, state, status[name]))
			}
		}
		for _, name := range r.servers {
			if !slices.Contains(r.down, name) {
				expect(name, "connected")
				r.handsOff(mcpServer{dir, name})
			}
		}
		if r.signIn {
			expect("sign-in", "needs_auth")
		}
	}
}

func (r *round) pause(d time.Duration) { testbed.Pause(r.ctx, d) }

type start struct {
	mcpServer
	testbed.Start
}

// starts reads the servers' logs.
func (r *round) starts() (starts []start) {
	for _, name := range r.servers {
		for _, s := range testbed.Must(r.mcp.Starts(name)) {
			starts = append(starts, start{mcpServer{s.Dir, name}, s})
		}
	}
	return starts
}

// processes returns for each server the process that was started last.
func (r *round) processes() map[mcpServer]int {
	pids := map[mcpServer]int{}
	for _, s := range r.starts() {
		pids[s.mcpServer] = s.Pid
	}
	return pids
}

// kill kills the named servers in every used directory.
func (r *round) kill(names ...string) {
	for s, pid := range r.processes() {
		if slices.Contains(names, s.name) && slices.Contains(r.dirs, s.dir) {
			r.handsOn(s)
			r.killed[pid] = true
			testbed.Check(syscall.Kill(pid, syscall.SIGKILL))
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
				read[s.dir] = testbed.Must(r.server.MCP(r.ctx, s.dir))
			}
			if read[s.dir][s.name].Status != "connected" || r.killed[pids[s]] {
				return false
			}
			r.handsOff(s)
			r.back++
			return true
		})
		if len(waiting) == 0 {
			return time.Since(since)
		}
		// OpenCode answers on one thread, which has the servers to start as well.
		r.pause(time.Duration(len(read)) * interval)
	}
	return never
}

// comesBack is an outage that began at a moment, until the named servers are back.
func (r *round) comesBack(since time.Time, names ...string) bool {
	took := r.untilConnected(since, names...)
	r.took = append(r.took, took)
	return took != never
}

// recover is one after which the round ends.
func (r *round) recover(since time.Time, names ...string) {
	if r.comesBack(since, names...) {
		r.pause(settling)
	}
}

// count finds the starts beyond each server's first and the one that brought it
// back, and the wrong actions.
func (r *round) count() {
	starts := r.starts()
	for _, s := range starts {
		wrong := slices.ContainsFunc(r.calm[s.mcpServer], func(calm span) bool {
			return s.At.After(calm.from) && (calm.to.IsZero() || s.At.Before(calm.to))
		})
		if wrong || !slices.Contains(r.dirs, s.Dir) {
			r.wrong++
		}
	}
	r.wrong += int(r.asked.Load() - r.touched)
	r.extra = len(starts) - len(r.dirs)*len(r.servers) - r.back
	r.web.count(r)
}

// countAtOnce finds the most starts after a moment that lay within overlap.
func (r *round) countAtOnce(since time.Time) {
	starts := slices.DeleteFunc(r.starts(), func(s start) bool { return s.At.Before(since) })
	slices.SortFunc(starts, func(a, b start) int { return a.At.Compare(b.At) })
	first := 0
	for last, s := range starts {
		for s.At.Sub(starts[first].At) >= overlap {
			first++
		}
		r.atOnce = max(r.atOnce, last-first+1)
	}
}
