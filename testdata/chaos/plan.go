//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
)

// A kind says what a step of the chaos does.
type kind string

const (
	kill      kind = "kill"       // a stdio server
	killAll   kind = "kill all"   // the stdio servers of a directory
	killWorld kind = "kill world" // every server of every directory; the remote ones come back
	breakIt   kind = "break"      // kill a stdio server, which cannot start until it is mended
	mend      kind = "mend"
	stop      kind = "stop" // a remote server
	serve     kind = "serve"
	switchOff kind = "switch off"
	switchOn  kind = "switch on"
	dispose   kind = "dispose" // of a directory's instance
	prompt    kind = "prompt"  // which calls a tool of a server
)

const averageGap = 1200 * time.Millisecond // between two steps, of which some are not possible

// weights say how often each kind begins; the others follow from these.
var weights = []struct {
	kind   kind
	weight int
}{{kill, 26}, {killAll, 6}, {killWorld, 2}, {breakIt, 14}, {stop, 12}, {switchOff, 12}, {dispose, 4}, {prompt, 30}}

// breakages are the ways in which testdata/servers/mcp.mjs can be broken.
var breakages = []string{"down", "down", "hang", "flap"}

// A step is something that happens to a directory, or to a server of it.
type step struct {
	at     time.Duration // from the beginning of the chaos
	kind   kind
	dir    int
	server int    // of the directory's, where it is about one
	how    string // it is broken
}

func (s step) String() string {
	if s.how != "" {
		return fmt.Sprintf("%s (%s)", s.kind, s.how)
	}
	return string(s.kind)
}

// A kindOfServer is one that every directory has.
type kindOfServer struct {
	name   string
	remote testbed.RemoteKind // none: over stdio
	off    bool               // in the configuration
}

// planned is what a plan knows of a server.
type planned struct {
	busy       time.Duration // until then it is broken, or stopped
	off        bool
	switchable time.Duration // from then on a person may switch it
}

// plan draws the steps of a chaos. The same seed gives the same steps.
func plan(seed uint64, length time.Duration, dirs int, kinds []kindOfServer) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	state := make([][]planned, dirs)
	for dir := range state {
		state[dir] = make([]planned, len(kinds))
		for n, k := range kinds {
			state[dir][n].off = k.off
		}
	}
	pick := func(remote bool) int {
		for {
			if n := r.IntN(len(kinds)); (kinds[n].remote != "") == remote {
				return n
			}
		}
	}
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	var steps []step
	for at := time.Duration(0); ; {
		at += min(time.Duration(r.ExpFloat64()*float64(averageGap)), 4*averageGap)
		if at >= length {
			break
		}
		s := step{at: at, dir: r.IntN(dirs)}
		for n := r.IntN(total); s.kind == ""; {
			for _, w := range weights {
				if n -= w.weight; n < 0 {
					s.kind = w.kind
					break
				}
			}
		}
		switch s.kind {
		case kill:
			s.server = pick(false)
		case breakIt, stop:
			s.server = pick(s.kind == stop)
			server := &state[s.dir][s.server]
			if server.busy > at {
				continue
			}
			over := step{at: at + between(time.Second, 20*time.Second), kind: mend, dir: s.dir, server: s.server}
			if s.kind == stop {
				over.kind = serve
				if r.IntN(2) == 0 { // its author restarts it
					over.at = at + between(0, time.Second)
				}
			} else {
				s.how = breakages[r.IntN(len(breakages))]
				over.how = s.how
			}
			server.busy = over.at
			steps = append(steps, over)
		case killWorld:
			for dir := range state {
				for n, k := range kinds {
					if server := &state[dir][n]; k.remote != "" && server.busy <= at {
						server.busy = at + between(time.Second, 10*time.Second)
						steps = append(steps, step{at: at, kind: stop, dir: dir, server: n},
							step{at: server.busy, kind: serve, dir: dir, server: n})
					}
				}
			}
		case switchOff:
			s.server = r.IntN(len(kinds))
			server := &state[s.dir][s.server]
			if server.switchable > at {
				continue
			}
			if server.off {
				s.kind = switchOn
			}
			server.off = !server.off
			server.switchable = at + 15*time.Second
		case dispose:
			for n, k := range kinds {
				state[s.dir][n].off = k.off
			}
		case prompt:
			s.server = r.IntN(len(kinds))
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return steps
}
