//go:build unix

package main

import (
	"os"
	"time"
)

const late = 3 * time.Second // from the first prompt until a failed server could start

// A scenario is a history of failures; play returns round.took.
type scenario struct {
	name, title string
	once        bool // takes a minute, and chance has little part in it
	setting     setting
	play        func(*round) time.Duration
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
	{"storm", "all 6 servers of 8 directories are killed at once", false,
		setting{servers: six, used: 8}, storm},
}

func killed(names ...string) func(*round) time.Duration {
	return func(r *round) time.Duration {
		r.pause(rest)
		since := time.Now()
		r.kill(names...)
		return r.untilConnected(since, names...)
	}
}

func storm(r *round) time.Duration {
	since := time.Now()
	defer r.countAtOnce(since)
	return killed(six...)(r)
}

func ableLate(names ...string) func(*round) time.Duration {
	return func(r *round) time.Duration {
		r.pause(late)
		since := time.Now()
		for _, name := range names {
			check(os.Remove(r.file(name, "down")))
		}
		return r.untilConnected(since, names...)
	}
}

func watched(r *round) time.Duration {
	r.pause(limit)
	return 0
}

// switchedOff has the user switch a server off in the back-off, after which
// every start of it is wrong.
func switchedOff(name string) func(*round) time.Duration {
	return func(r *round) time.Duration {
		r.pause(late)
		check(r.server.Call(r.ctx, "POST", "/mcp/"+name+"/disconnect", r.dirs[0], nil, nil))
		r.handsOff[mcpServer{r.dirs[0], name}] = time.Now()
		check(os.Remove(r.file(name, "down")))
		r.pause(20 * time.Second)
		return 0
	}
}
