//go:build unix

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
)

const late = 3 * time.Second // from the first prompt until a failed server could start

// A scenario is a history of failures; play fills round.took.
type scenario struct {
	name, title string
	once        bool // takes a minute, and chance has little part in it
	setting     setting
	play        func(*round)
}

var (
	one  = []string{"a"}
	two  = []string{"a", "healthy"}
	five = []string{"a", "b", "c", "d", "e"}
	six  = []string{"a", "b", "c", "d", "e", "f"}
)

var scenarios = []scenario{
	{"crash", "a connected server is killed", false,
		setting{servers: two, used: 1}, killed(one...)},
	{"thrice", "a server is killed three times within 15 s", false,
		setting{servers: two, used: 1}, restarted("a", 3, 6*time.Second)},
	{"restarts", "an author kills a server every 8 s, twelve times", true,
		setting{servers: two, used: 1}, restarted("a", 12, 8*time.Second)},
	{"late", "the only server is able to start 3 s late", false,
		setting{servers: one, down: one, used: 1}, ableLate(one...)},
	{"late-beside-healthy", "the same beside a healthy server, and one that waits for a sign-in", false,
		setting{servers: two, down: one, used: 1, signIn: true}, ableLate(one...)},
	{"all-failed", "all 5 servers are able to start 3 s late", false,
		setting{servers: five, down: five, used: 1}, ableLate(five...)},
	{"flapping", "a server dies 2 s after every start, for a minute", true,
		setting{servers: one, life: 2 * time.Second, used: 1}, watched},
	{"broken", "a server exits at once at every start, for a minute", true,
		setting{servers: one, down: one, used: 1}, watched},
	{"disabled", "a failed server is switched off by hand, and then could start", false,
		setting{servers: two, down: one, used: 1}, switchedOff("a")},
	{"unused", "as `crash`, with 12 more directories open that nobody uses", false,
		setting{servers: two, used: 1, unused: 12}, killed(one...)},
	{"remote-400", "a remote server restarts, and answers old sessions with 400", false,
		setting{used: 1, web: echoing(testbed.Answers400)}, webRestarts},
	{"remote-sse", "a remote server of the old HTTP+SSE transport restarts; its proxy says 502 for 5 s", false,
		setting{used: 1, web: web{kind: testbed.SSE, before: "echo", after: "echo", away: 5 * time.Second}}, webRestarts},
	{"remote-everything", "the MCP project's reference server (streamable HTTP) restarts", false,
		setting{used: 1, web: echoing(testbed.Reference)}, webRestarts},
	{"remote-tools", "a remote server restarts with another tool", false,
		setting{used: 1, web: web{kind: testbed.Answers404, before: "one", after: "two"}}, webRestarts},
	{"first-prompt", "the first prompt; a server failed before it, and could start now", false,
		setting{servers: one, down: one, used: 1, fresh: true}, firstPrompt},
	{"first-prompt-cold", "the same as OpenCode starts; the server's first start fails", false,
		setting{servers: one, used: 1, fresh: true}, firstPromptCold},
	{"storm", "all 6 servers of 8 directories are killed at once", false,
		setting{servers: six, used: 8}, storm},
}

func killed(names ...string) func(*round) {
	return func(r *round) {
		r.pause(rest)
		since := time.Now()
		r.kill(names...)
		r.recover(since, names...)
	}
}

// restarted has an author restart a server by killing it at a fixed interval, but
// not before it is back.
func restarted(name string, times int, every time.Duration) func(*round) {
	return func(r *round) {
		r.pause(rest)
		for begin, n := time.Now(), 0; n < times; n = int(time.Since(begin)/every) + 1 {
			r.pause(time.Until(begin.Add(time.Duration(n) * every)))
			since := time.Now()
			r.kill(name)
			if !r.comesBack(since, name) {
				return
			}
		}
		r.pause(settling)
	}
}

func storm(r *round) {
	since := time.Now()
	defer r.countAtOnce(since)
	killed(six...)(r)
}

func ableLate(names ...string) func(*round) {
	return func(r *round) {
		r.pause(late)
		since := time.Now()
		for _, name := range names {
			r.mcp.Unmark(name, "down")
		}
		r.recover(since, names...)
	}
}

func watched(r *round) { r.pause(limit) }

// switchedOff has the user switch a server off in the back-off, after which
// every start of it is wrong.
func switchedOff(name string) func(*round) {
	return func(r *round) {
		r.pause(late)
		testbed.Check(r.server.Call(r.ctx, "POST", "/mcp/"+name+"/disconnect", r.dirs[0], nil, nil))
		r.handsOff(mcpServer{r.dirs[0], name})
		r.mcp.Unmark(name, "down")
		r.pause(20 * time.Second)
	}
}

// firstPrompt has a UI read the status, which starts the servers.
func firstPrompt(r *round) {
	testbed.Must(r.server.MCP(r.ctx, r.dirs[0]))
	r.pause(late)
	r.mcp.Unmark("a", "down")
	r.promptFirst("a")
}

// firstPromptCold has the prompt itself start the servers, as `opencode run` does.
func firstPromptCold(r *round) {
	r.mcp.Mark("a", "once")
	r.promptFirst("a")
}

// promptFirst sends a prompt, and finds whether its first request offers a server's
// tool, and how long that was in coming.
func (r *round) promptFirst(name string) {
	text := "first prompt of " + r.root // tells it from those of other rounds
	since := time.Now()
	testbed.Must(r.server.Prompt(r.ctx, r.dirs[0], text))
	for _, request := range r.model.Requests() {
		if strings.Contains(request.Prompt, text) {
			r.offered = append(r.offered, slices.Contains(request.Tools, name+"_echo"))
			r.took = append(r.took, request.At.Sub(since))
			break
		}
	}
	r.pause(settling)
	if testbed.Must(r.server.MCP(r.ctx, r.dirs[0]))[name].Status == "connected" {
		r.back++
	}
}
