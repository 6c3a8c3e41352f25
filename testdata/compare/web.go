//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
)

const betweenPrompts = time.Second // from one prompt to the next

// A web is a remote server. It takes a call of its tool to see whether that works.
type web struct {
	kind          testbed.RemoteKind
	before, after string        // its tool's name before a restart, and after it
	away          time.Duration // for which everything is answered with 502, as by its proxy

	listener *testbed.Remote
	sessions struct{ first, back int } // when the scenario began, and when it was back
}

// echoing is a web that has the same tool all the time.
func echoing(kind testbed.RemoteKind) web { return web{kind: kind, before: "echo", after: "echo"} }

// listen starts the server and returns its configuration.
func (w *web) listen(ctx context.Context, mcp testbed.Servers) map[string]any {
	mcp.Steer("web", "tool", w.before)
	w.listener = mcp.Remote("web", w.kind)
	testbed.Check(w.listener.Serve(ctx))
	return w.listener.Config()
}

func (w *web) end() {
	if w.listener != nil {
		w.listener.Kill()
	}
}

// works sends a prompt that calls the tool of this name, or the other one if that is
// not offered, and says whether it was the right one and worked.
func (w *web) works(r *round, tool string) bool {
	calls := testbed.Must(r.server.Prompt(r.ctx, r.dirs[0], "call web_"+w.after+" or web_"+w.before))
	return len(calls) == 1 && calls[0].Tool == "web_"+tool && calls[0].State.Status == "completed"
}

// begins checks that all is well before the scenario.
func (w *web) begins(r *round) {
	if !w.works(r, w.before) {
		testbed.Check(fmt.Errorf("the tool of web cannot be called at the beginning"))
	}
	w.sessions.first = testbed.Must(w.listener.Sessions())
}

// webRestarts restarts it, and then sends one prompt after the other until a call works.
func webRestarts(r *round) {
	w := &r.web
	r.pause(rest)
	w.listener.Kill()
	r.mcp.Steer("web", "tool", w.after)
	if w.away > 0 {
		r.mcp.Steer("web", "page", "502")
	}
	testbed.Check(w.listener.Serve(r.ctx))
	r.pause(w.away)
	r.mcp.Unmark("web", "page")
	since, failed := time.Now(), 0
	for time.Since(since) < limit {
		next := time.Now().Add(betweenPrompts)
		if w.works(r, w.after) {
			r.took = append(r.took, time.Since(since))
			r.failed = append(r.failed, failed)
			w.sessions.back = testbed.Must(w.listener.Sessions())
			r.pause(settling)
			return
		}
		failed++
		r.pause(time.Until(next))
	}
	r.took, r.failed = append(r.took, never), append(r.failed, failed)
}

// count counts the sessions of it as starts.
func (w *web) count(r *round) {
	if w.listener == nil {
		return
	}
	last := testbed.Must(w.listener.Sessions())
	if w.sessions.back > 0 {
		r.wrong += last - w.sessions.back
		last-- // brought it back
	}
	r.extra += last - w.sessions.first
}
