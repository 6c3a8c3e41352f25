//go:build unix

package publish

import (
	"syscall"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// TestFrozen: a Redis that hangs and goes on gets the newest events, in their order. The
// one that it was sent while it hung may come twice.
func TestFrozen(t *testing.T) {
	server := newRedis(t)
	server.start()
	p := publishesWithin(t, server.url(), time.Second)
	channels := server.subscriber()
	event := func(n int) watch.Event {
		return watch.Event{Type: watch.StateChanged, Server: "github", Attempt: n, Time: time.Now()}
	}
	p.publisher.take(event(0))
	next(t, channels)
	before := p.said("redis is away")
	server.signal(syscall.SIGSTOP)
	const last = backlog + 500
	for n := 1; n <= last; n++ {
		p.publisher.take(event(n))
	}
	p.says("redis is away", before+1)
	server.signal(syscall.SIGCONT)
	got := map[int]bool{}
	for at := 0; at < last; {
		_, e := next(t, channels)
		if e.Attempt < at {
			t.Fatalf("event %d is published after %d", e.Attempt, at)
		}
		at = e.Attempt
		got[at] = true
	}
	for n := last - backlog + 1; n <= last; n++ {
		if !got[n] {
			t.Errorf("event %d is missing", n)
		}
	}
	p.says("redis is back", before+1)
}

func (r *redisServer) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}
