package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

func TestIDs(t *testing.T) {
	for raw, want := range map[string]string{
		"http://127.0.0.1:4096":     "http://127.0.0.1:4096",
		" HTTP://LocalHost:4096/ ":  "http://localhost:4096",
		"http://a:80":               "http://a",
		"https://a:443/base/":       "https://a/base",
		"http://[::1]:4096":         "http://[::1]:4096",
		"ftp://a":                   "",
		"127.0.0.1:4096":            "",
		"":                          "",
		"http://":                   "",
		"http://ann:secret@a":       "",
		"http://a?password=secret":  "",
		"http://a:secret":           "",
		"http://ann:secret@a:b%zz/": "",
	} {
		got, err := ID(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the secret in it: %v", raw, err)
		}
	}
}

func TestOneConnectionPerTarget(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		var wait sync.WaitGroup
		for _, url := range []string{modelURL, modelURL + "/", "HTTP://opencode.TEST:4096"} {
			wait.Go(func() {
				if state, err := s.w.Connect(Target{URL: url}); err != nil || state.URL != modelURL {
					s.Errorf("%+v, %v", state, err)
				}
			})
		}
		wait.Wait()
		s.after(time.Second)
		state, err := s.w.Connect(Target{URL: modelURL})
		if err != nil || state.State != Connected || s.opens() != 1 || len(s.w.States()) != 1 || state.OpenCode != 1 {
			s.Errorf("%+v, %v; opened %d times", state, err, s.opens())
		}
		if !s.w.Has(modelURL) || s.w.Has("http://other") {
			s.Error("Has is wrong")
		}
	})
}

func TestAtMostFiftyTargets(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		for n := range MaxTargets {
			if _, err := s.w.Connect(Target{URL: fmt.Sprint("http://t", n)}); err != nil {
				s.Fatal(err)
			}
		}
		if _, err := s.w.Connect(Target{URL: "http://more"}); err == nil || err.Error() != "there are 50 targets already, and more are not watched" {
			s.Error(err)
		}
		if _, err := s.w.Connect(Target{URL: "http://t7"}); err != nil { // it is there
			s.Error(err)
		}
		s.w.Disconnect("http://t7")
		if _, err := s.w.Connect(Target{URL: "http://more"}); err != nil {
			s.Error(err)
		}
	})
}

// lateBody says whether it was closed.
type lateBody struct {
	io.Reader
	closed chan struct{}
}

func (b *lateBody) Close() error { close(b.closed); return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLateStreamIsClosed: a transport that does not care for the end of its request
// opens the stream after 20 s.
func TestLateStreamIsClosed(t *testing.T) {
	var late *lateBody
	opens := 0
	change := func(o *Options) {
		o.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
			if opens++; opens > 1 {
				return nil, errors.New("no")
			}
			time.Sleep(20 * time.Second)
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: late}, nil
		})
	}
	m := newModel(1)
	play(t, m, change, func(s *scene) {
		late = &lateBody{strings.NewReader(data(map[string]any{"directory": dir, "payload": map[string]any{"type": "mcp.x"}})), make(chan struct{})}
		s.connect()
		s.after(15*time.Second + time.Millisecond)
		s.wantTold("connecting>waiting")
		if got := s.target().Error; got != "the server did not answer within 15s" {
			s.Error(got)
		}
		s.after(10 * time.Second)
		select {
		case <-late.closed:
		default:
			s.Error("the late stream was not closed")
		}
		if state := s.target(); state.State != Waiting || len(state.Directories) > 0 {
			s.Errorf("%+v", state)
		}
	})
}

func TestReopeningBacksOffAndGivesUpOnce(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.do(func() { s.answer = func(w http.ResponseWriter, r *http.Request) { s.serveDown(w, r) } })
		s.connect()
		s.after(time.Hour)
		var gaps []time.Duration
		for n := 1; n < len(s.opened); n++ {
			gaps = append(gaps, s.opened[n].Sub(s.opened[n-1]).Round(time.Millisecond))
		}
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 300, 300, 300}
		for n := range want {
			if want[n] *= time.Second; n >= len(gaps) || gaps[n] != want[n] {
				s.Fatalf("gaps %v, want %v", gaps, want)
			}
		}
		s.wantTold("connecting>waiting", "waiting>given_up") // once
		if n := strings.Count(s.logged.String(), "503"); n != 1 {
			s.Errorf("said %d times:\n%s", n, s.logged)
		}
		// When asked, at once, and with all its tries.
		before := s.opens()
		s.w.Retry(nil, nil)
		s.after(10 * time.Second)
		if n := s.opens() - before; n < 3 {
			s.Errorf("%d tries", n)
		}
		// The slow probe finds it.
		s.after(time.Hour)
		s.told()
		s.do(func() { s.answer = nil })
		s.after(5 * time.Minute)
		s.wantTold("given_up>connected")
	})
}

func (m *model) serveDown(w http.ResponseWriter, _ *http.Request) {
	m.do(func() { m.opened = append(m.opened, time.Now()) })
	http.Error(w, "not now", http.StatusServiceUnavailable)
}

// TestShortStreamsAreNoSuccess: a server that closes the stream within a second is
// not asked in a loop, and one whose stream lasted is asked again soon.
func TestShortStreamsAreNoSuccess(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/global/event" {
					s.do(func() { s.opened = append(s.opened, time.Now()) })
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					time.Sleep(900 * time.Millisecond)
				}
			}
		})
		s.connect()
		s.after(10 * time.Minute)
		if n := s.opens(); n > 12 || s.target().State != GivenUp {
			s.Errorf("opened %d times, and is %s", n, s.target().State)
		}
		s.do(func() { s.answer = nil })
		s.w.Retry(nil, nil)
		s.after(time.Minute)
		before := s.opens()
		s.crash(false)
		s.after(time.Second + time.Millisecond) // the first delay: the count was reset
		if s.opens() != before+1 || s.target().State != Connected {
			s.Errorf("opened %d times, and is %s", s.opens()-before, s.target().State)
		}
	})
}

// TestLastingStreams: many losses, each after a stream that lasted, are no reason to give up.
func TestLastingStreams(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		for range 15 {
			s.after(time.Minute)
			before := s.opens()
			s.crash(false)
			s.after(time.Second + time.Millisecond)
			if s.opens() != before+1 || s.target().State != Connected {
				s.Fatalf("opened %d times, and is %s", s.opens()-before, s.target().State)
			}
		}
	})
}

// TestSilence: a server that sent heartbeats and sends none any more is gone; one that
// never did may be an old one.
func TestSilence(t *testing.T) {
	for _, beats := range []bool{true, false} {
		play(t, newModel(1), nil, func(s *scene) {
			if !beats {
				s.do(func() {
					s.answer = func(w http.ResponseWriter, r *http.Request) {
						s.do(func() { s.opened = append(s.opened, time.Now()) })
						w.Header().Set("Content-Type", "text/event-stream")
						w.(http.Flusher).Flush()
						<-r.Context().Done()
					}
				})
			}
			s.connect()
			s.after(25 * time.Second)
			s.do(func() { s.mute = true })
			s.after(2 * time.Minute)
			if s.opens() > 1 != beats {
				s.Errorf("heartbeats %t: opened %d times", beats, s.opens())
			}
			if beats && !strings.Contains(s.logged.String(), "the server was silent for 1m15s") {
				s.Error(s.logged)
			}
		})
	}
}

func TestLastEventID(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.send("id: 41\n" + data(map[string]any{"directory": dir, "payload": map[string]any{"type": "x"}}))
		s.send(data(map[string]any{"directory": dir, "payload": map[string]any{"type": "x"}})) // has none of its own
		synctest.Wait()
		s.crash(false)
		s.after(2 * time.Second)
		if got := s.lastIDs; !slices.Equal(got, []string{"", "41"}) {
			s.Errorf("%q", got)
		}
	})
}

func TestClockJumpReconnectsAtOnce(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.send("id: 7\n" + data(map[string]any{"directory": dir, "payload": map[string]any{"type": "x"}}))
		s.after(time.Minute)
		for n, jump := range []time.Duration{10 * time.Minute, -time.Hour} {
			s.scene(func() { s.jump += jump })
			s.after(clockInterval)
			if s.opens() != 2+n || s.lastIDs[1+n] != "7" || s.target().State != Connected {
				s.Fatalf("%v: opened %d times, with %q", jump, s.opens(), s.lastIDs)
			}
		}
		// What failed meanwhile failed for want of a network (rule 14).
		s.set(dir, "a", "failed")
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.prompt(dir)
		s.after(10 * time.Minute) // it is parked
		before := len(s.asked("POST"))
		s.after(time.Minute)
		if n := len(s.asked("POST")); n != before {
			s.Fatalf("tried %d times while parked", n-before)
		}
		s.scene(func() { s.jump += time.Hour })
		s.after(10 * time.Second)
		if n := len(s.asked("POST")); n < before+2 {
			s.Errorf("tried %d times after the jump", n-before)
		}
		s.do(func() { s.servers = map[string]map[string]string{} })
		// And where it was given up.
		s.crash(true)
		s.after(time.Hour)
		if s.target().State != GivenUp {
			s.Fatal(s.target().State)
		}
		s.do(func() { s.down = false })
		s.scene(func() { s.jump += time.Hour })
		s.after(clockInterval)
		if s.target().State != Connected {
			s.Error(s.target().State)
		}
	})
}

func (s *scene) scene(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// TestStatusFirstAfterAReopenedStream (A7): the server that was connected failed meanwhile.
func TestStatusFirstAfterAReopenedStream(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.set(dir, "b", "failed")
		s.starts = func(string, string) string { return "failed" }
		s.connect()
		s.prompt(dir)
		s.after(30500 * time.Millisecond) // b's next try is due in half a second
		s.told()
		s.crash(false)
		s.set(dir, "a", "disabled")
		s.do(func() { s.requests = nil })
		s.after(500 * time.Millisecond)
		if d := s.target().Directories; len(d) != 1 || len(d[0].Servers) > 0 {
			s.Errorf("what was cached is still told: %+v", d)
		}
		s.wantTold("connected>waiting")
		s.answerSlowly(3 * time.Second)
		s.after(2 * time.Second)
		s.wantTold("waiting>connected") // and nothing of b
		s.after(4 * time.Second)
		if told := s.told(); !slices.Contains(told, "a connected>disabled") || len(s.asked("GET /mcp "+dir)) == 0 {
			s.Errorf("%q, %q", told, s.requests)
		}
	})
}

// answerSlowly delays every status.
func (m *model) answerSlowly(delay time.Duration) {
	m.do(func() {
		m.answer = func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" && r.URL.Path == "/mcp" {
				time.Sleep(delay)
			}
			m.serve(w, r)
		}
	})
}

func TestIdleTarget(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(29 * time.Minute)
		s.told()
		s.after(2 * time.Minute)
		s.wantTold("connected>idle")
		s.do(func() { s.requests = nil })
		s.after(6 * time.Hour)
		if len(s.requests) > 0 || s.opens() != 1 {
			s.Errorf("asked %q, opened %d times", s.requests, s.opens())
		}
		// A lost stream is only looked after slowly.
		s.crash(true)
		s.after(time.Hour)
		s.do(func() { s.down = false })
		before := s.opens()
		s.after(5 * time.Minute)
		if s.opens() != before+1 {
			s.Errorf("opened %d times", s.opens()-before)
		}
		s.wantTold("a connected>") // the process ended
		s.prompt(dir)
		s.after(2 * time.Second)
		s.wantTold("idle>connected", "a >connected")
	})
}

// TestNotIdleWhileThereIsSomethingToRepair: and neither while something happens.
func TestNotIdle(t *testing.T) {
	p := func(o *Options) { o.Policy.IdleAfter = 10 * time.Minute }
	play(t, newModel(1), p, func(s *scene) {
		s.connect()
		for range 12 {
			s.after(5 * time.Minute)
			s.event(dir, "session.updated", nil)
		}
		s.wantTold("connecting>connected")
	})
	p = func(o *Options) { o.Policy.IdleAfter = time.Minute }
	play(t, newModel(1), p, func(s *scene) {
		s.set(dir, "a", "failed")
		s.starts = func(string, string) string { time.Sleep(20 * time.Minute); return "failed" } // as for ever
		s.connect()
		s.prompt(dir)
		s.after(connectLimit - time.Second)
		if s.target().State != Connected {
			s.Error(s.target())
		}
	})
}

func TestForgotten(t *testing.T) {
	for _, keep := range []bool{true, false} {
		m := newModel(1)
		m.down = true
		play(t, m, nil, func(s *scene) {
			s.w.Connect(Target{URL: modelURL, Keep: keep})
			s.after(29 * time.Minute)
			if !s.w.Has(modelURL) {
				s.Error("forgotten too early")
			}
			s.after(24 * time.Hour)
			if s.w.Has(modelURL) != keep {
				s.Errorf("keep %t: %q", keep, s.told())
			}
			if told := s.told(); !keep && told[len(told)-1] != "given_up>closed" {
				s.Errorf("%q", told)
			}
		})
	}
}

func TestDisconnectIsForGood(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.connect()
		s.prompt(dir)
		s.answerSlowly(10 * time.Second)
		s.after(2 * time.Second) // a status read is under way
		s.told()
		if !s.w.Disconnect(modelURL+"/") || s.w.Has(modelURL) || s.w.Disconnect(modelURL) {
			s.Error("not disconnected, or twice")
		}
		before := s.opens()
		s.crash(false) // the close arrives later
		s.after(time.Hour)
		s.wantTold("connected>closed")
		if s.opens() != before || len(s.asked("POST")) > 0 {
			s.Errorf("opened %d times, %q", s.opens()-before, s.requests)
		}
		s.do(func() { s.answer = nil })
		s.connect()
		s.wantTold("connecting>connected")
	})
}

// TestClose: that no goroutine is left is what the bubble checks.
func TestClose(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.connect()
		s.prompt(dir)
		s.answerSlowly(10 * time.Second)
		s.after(2 * time.Second)
		s.told()
		s.w.Close()
		s.crash(false)
		s.after(time.Hour)
		s.wantTold()
		if _, err := s.w.Connect(Target{URL: modelURL}); !errors.Is(err, ErrClosed) {
			s.Error(err)
		}
		if s.opens() != 1 || len(s.asked("POST")) > 0 || len(s.w.States()) > 0 {
			s.Errorf("opened %d times, %q", s.opens(), s.requests)
		}
	})
}

func TestListenersHurtNobody(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		release := make(chan struct{})
		var unsubscribe, close func()
		calls, closed := 0, 0
		s.w.Subscribe(func(Event) { panic("a bug") })
		var slow []Event
		s.w.Subscribe(func(e Event) { <-release; slow = append(slow, e) })
		unsubscribe = s.w.Subscribe(func(Event) { calls++; unsubscribe() })
		close = s.w.Subscribe(func(Event) { closed++; s.w.Disconnect(modelURL); close() })
		s.connect()
		s.after(time.Second)
		told := s.told()
		s.connect()
		s.after(time.Second)
		told = append(told, s.told()...)
		if want := "connecting>connected connected>closed connecting>connected"; strings.Join(told, " ") != want || calls != 1 || closed != 1 {
			s.Errorf("%q; called %d and %d times", told, calls, closed)
		}
		if !strings.Contains(s.logged.String(), "a listener panicked: a bug") {
			s.Error(s.logged)
		}
		for range backlog + 7 { // what blocks misses the oldest, and nothing else
			s.w.Relay(Event{Type: StateChanged, Time: time.Now()})
		}
		synctest.Wait()
		if n := len(s.told()); n != backlog+7 {
			s.Errorf("another listener was told %d events", n)
		}
		for range 2 {
			release <- struct{}{}
		}
		synctest.Wait()
		if len(slow) != 2 || slow[1].Type != Missed || !strings.HasPrefix(slow[1].Error, "9 events are lost") || slow[1].Time.IsZero() {
			s.Errorf("the slow listener was told %+v", slow)
		}
		s.w.Close() // while it blocks
		release <- struct{}{}
	})
}

func TestUnauthorized(t *testing.T) {
	const secret = "hunter2-s3cret"
	m := newModel(1)
	m.password = secret
	play(t, m, nil, func(s *scene) {
		if _, err := s.w.Connect(Target{URL: modelURL, Password: "wrong-" + secret, Keep: true}); err != nil {
			s.Fatal(err)
		}
		s.after(time.Hour)
		s.wantTold("connecting>unauthorized")
		if n := s.opens(); n < 10 || n > 13 {
			s.Errorf("tried %d times in an hour", n)
		}
		text := fmt.Sprintf("%+v %s", s.target(), s.logged)
		for _, want := range []string{"OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME", "--password-file"} {
			if !strings.Contains(text, want) {
				s.Errorf("nothing about %s: %s", want, text)
			}
		}
		if strings.Contains(text, secret) || strings.Count(s.logged.String(), "\n") != 1 {
			s.Errorf("the password is told, or more than one line: %s", text)
		}
		s.do(func() { s.password = "wrong-" + secret }) // somebody restarts it with ours
		s.after(5 * time.Minute)
		s.wantTold("unauthorized>connected")
	})
}

// TestOnlyDirectoriesInUse (A19 to A21): 34 are known, one is in use.
func TestOnlyDirectoriesInUse(t *testing.T) {
	for version := 1; version <= 2; version++ {
		play(t, newModel(version), nil, func(s *scene) {
			s.connect()
			for n := range 34 {
				s.event(fmt.Sprint("/other/", n), "session.idle", nil)
				s.event(fmt.Sprint("/other/", n), "file.watcher.updated", map[string]any{"file": "x"})
			}
			if version == 1 {
				for n := range 34 {
					s.event(fmt.Sprint("/other/", n), "session.status", map[string]any{"status": map[string]string{"type": "idle"}})
				}
			}
			s.set(dir, "a", "connected")
			s.prompt(dir)
			s.after(time.Hour)
			if len(s.requests) == 0 {
				s.Fatal("nothing was asked")
			}
			for _, request := range s.requests {
				if version == 1 && !strings.HasSuffix(request, " "+dir) || strings.Contains(request, "/other/") {
					s.Errorf("version %d: %s", version, request)
				}
			}
		})
	}
}

// TestStartLoad: with start=load every instance that shows itself counts as used, and what
// concerns the whole process is none.
func TestStartLoad(t *testing.T) {
	play(t, newModel(1), func(o *Options) { o.Policy.Start = "load" }, func(s *scene) {
		s.connect()
		s.event("global", "project.updated", nil)
		s.event("", "installation.updated", nil)
		s.event(dir, "session.updated", nil)
		s.after(time.Minute)
		for _, request := range s.requests {
			if request != "GET /mcp "+dir {
				s.Errorf("%q", request)
			}
		}
		if len(s.requests) == 0 {
			s.Error("nothing was asked")
		}
	})
}

// TestReconnects has both versions of OpenCode.
func TestReconnects(t *testing.T) {
	for version := 1; version <= 2; version++ {
		play(t, newModel(version), nil, func(s *scene) {
			s.set(dir, "a b/ü", "connected")
			s.set(dir, "off", "disabled")
			s.connect()
			s.prompt(dir)
			s.after(2 * time.Second)
			s.wantTold("connecting>connected", "a b/ü >connected", "off >disabled")
			s.do(func() { s.requests = nil })
			s.drops(dir, "a b/ü")
			s.after(5 * time.Second)
			s.wantTold("a b/ü connected>waiting", "a b/ü waiting>trying", "a b/ü trying>connected", "tools a b/ü")
			path := map[int]string{1: "/mcp/a b/ü/connect", 2: "/api/experimental/mcp/a b/ü/connect"}[version]
			if got := s.asked("POST"); !slices.Equal(got, []string{"POST " + path + " " + dir}) {
				s.Errorf("%q", got)
			}
			if state := s.target(); state.OpenCode != version || len(state.Directories) != 1 || state.Directories[0].Servers[0].State != "connected" {
				s.Errorf("%+v", state)
			}
		})
	}
}

// TestToolsChanged: what a server says of its tools is passed on once its status was read.
func TestToolsChanged(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(5 * time.Second)
		s.told()
		s.answerSlowly(3 * time.Second)
		for range 100 {
			s.event(dir, "mcp.tools.changed", map[string]any{"server": "a"})
		}
		s.after(2 * time.Second)
		s.wantTold()
		s.after(3 * time.Second)
		s.wantTold("tools a")
		s.after(5 * time.Second)
		s.wantTold("tools a") // of the events that came when that status had been asked for
		s.event(dir, "mcp.tools.changed", map[string]any{"server": "unknown"})
		s.after(time.Minute)
		s.wantTold()
		// No answer is no confirmation, and does not forget what is to be confirmed.
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not now", http.StatusInternalServerError) }
		})
		s.event(dir, "mcp.tools.changed", map[string]any{"server": "a"})
		s.after(10 * time.Second)
		s.wantTold()
		s.do(func() { s.answer = nil })
		s.after(time.Minute)
		s.wantTold("tools a")
		// One that is back and says so itself is told once.
		s.do(func() {
			s.starts = func(string, string) string {
				s.event(dir, "mcp.tools.changed", map[string]any{"server": "a"})
				time.Sleep(time.Millisecond) // it arrives before the connect is over
				return "connected"
			}
		})
		s.drops(dir, "a")
		s.after(10 * time.Second)
		s.wantTold("a connected>waiting", "a waiting>trying", "a trying>connected", "tools a")
	})
}

// TestManyDirectories: more than are looked after, until some are out of use.
func TestManyDirectories(t *testing.T) {
	play(t, newModel(1), func(o *Options) { o.Policy.IdleAfter = 2 * time.Minute }, func(s *scene) {
		s.connect()
		for n := range maxDirectories + 5 {
			s.prompt(fmt.Sprint("/p/", n))
		}
		s.after(time.Minute)
		if n := len(s.target().Directories); n != maxDirectories || strings.Count(s.logged.String(), "further ones are passed over") != 1 {
			s.Errorf("%d directories", n)
		}
		s.after(2 * time.Minute)
		s.prompt("/p/new")
		s.after(time.Minute)
		if len(s.asked("GET /mcp /p/new")) == 0 || len(s.target().Directories) != maxDirectories {
			s.Error("a new one is not looked after")
		}
	})
}

// TestReopenedStreamLooksOnlyWhereThereIsUse: an idle directory is not asked about, even
// if its server crashed meanwhile.
func TestReopenedStreamLooksOnlyWhereThereIsUse(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		const idle = "/home/ann/idle"
		s.set(idle, "a", "connected")
		s.connect()
		s.prompt(idle)
		s.after(20 * time.Minute)
		s.event(idle, "mcp.tools.changed", map[string]any{"server": "a"})
		s.after(15 * time.Minute)
		s.prompt(dir)
		s.after(time.Minute)
		s.crash(false)
		s.do(func() { s.requests = nil })
		s.after(time.Minute)
		if len(s.asked("GET /mcp "+dir)) == 0 || len(s.asked("GET /mcp "+idle)) > 0 {
			s.Errorf("%q", s.requests)
		}
	})
}

func TestRestartedProcessIsNotWokenUp(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(5 * time.Second)
		s.told()
		s.crash(true)
		s.after(2 * time.Second)
		s.do(func() { s.down, s.requests = false, nil })
		s.set(dir, "a", "failed")
		s.after(time.Hour)
		if len(s.requests) > 0 {
			s.Errorf("asked in a directory that may not be open any more: %q", s.requests)
		}
		s.wantTold("connected>waiting", "a connected>", "waiting>connected", "connected>idle")
		s.prompt(dir)
		s.after(5 * time.Second)
		s.wantTold("idle>connected", "a >waiting", "a waiting>trying", "a trying>connected", "tools a")
	})
}

func TestDisposed(t *testing.T) {
	for _, kind := range []string{"server.instance.disposed", "global.disposed"} {
		play(t, newModel(1), nil, func(s *scene) {
			s.set(dir, "a", "failed")
			s.starts = func(string, string) string { return "failed" }
			s.connect()
			s.prompt(dir)
			s.after(3 * time.Second)
			s.event(dir, kind, map[string]any{"directory": dir})
			synctest.Wait()
			s.do(func() { s.requests = nil })
			s.after(time.Hour)
			if len(s.requests) > 0 || len(s.target().Directories) > 0 {
				s.Errorf("%s: %q", kind, s.requests)
			}
		})
	}
}

func TestPauseAndRetry(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.w.Pause(true)
		s.connect()
		s.prompt(dir)
		s.after(time.Minute)
		if len(s.asked("POST")) > 0 {
			s.Errorf("%q", s.requests)
		}
		s.w.Pause(false)
		s.after(2 * time.Second)
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.drops(dir, "a")
		s.after(15 * time.Minute) // parked
		before := len(s.asked("POST"))
		s.w.Retry([]string{"other"}, nil)
		s.w.Retry(nil, []string{"/elsewhere"})
		s.after(2 * time.Second)
		if n := len(s.asked("POST")); n != before {
			s.Errorf("another one was meant: %d", n-before)
		}
		s.w.Retry([]string{"a"}, []string{dir})
		s.after(time.Second)
		if n := len(s.asked("POST")); n == before {
			s.Error("not tried")
		}
	})
}

// TestBadServers: each is one line, and the neighbour goes on.
func TestBadServers(t *testing.T) {
	stream := func(write func(io.Writer, *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			write(w, r)
		}
	}
	big := strings.Repeat("x", 10<<20)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // in the log; "" for nothing wrong
	}{
		"HTML": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<html>")
		}, "the server answers with text/html, not with events: is it an OpenCode server"},
		"404":           {http.NotFound, "the server answers 404 Not Found: is it an OpenCode server"},
		"elsewhere":     {http.RedirectHandler("http://other/", http.StatusFound).ServeHTTP, "the server answers 302 Found"},
		"500":           {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "x", 500) }, "the server answers 500"},
		"closes":        {stream(func(io.Writer, *http.Request) {}), "the server closed the connection"},
		"cuts off":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the server closed the connection"},
		"endless line":  {stream(func(w io.Writer, r *http.Request) { endless(w, r, "x") }), "the server sends an event, or a line, of more than 64 MiB"},
		"endless event": {stream(func(w io.Writer, r *http.Request) { endless(w, r, "data: x\n") }), "the server sends an event, or a line, of more than 64 MiB"},
		"malformed events": {stream(func(w io.Writer, r *http.Request) {
			for _, text := range []string{"", "{", "null", "[]", `"x"`, `{"payload":7}`, "\xff\xfe", `{"directory":[],"payload":{"type":"mcp.x"}}`} {
				fmt.Fprintf(w, "data: %s\n\n", text)
			}
			prompted(w, r)
		}), "the server sends events that cannot be read; they are passed over"},
		"large events": {stream(func(w io.Writer, r *http.Request) {
			io.WriteString(w, data(map[string]any{"directory": dir, "payload": map[string]any{"type": "message.part.updated", "properties": map[string]any{"part": big}}}))
			prompted(w, r)
		}), "the server sends events of more than 1 MiB; what they say is passed over"},
		"unknown events": {stream(func(w io.Writer, r *http.Request) {
			io.WriteString(w, ": hello\nretry: 5\nnonsense\n\nevent: x\ndata: {\"directory\":\"/x\",\"payload\":{\"type\":\"a.b\",\"properties\":{\"status\":[1]}}}\n\n")
			prompted(w, r)
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" {
					fmt.Fprint(w, `{"a":{"status":"connected"}}`)
					return
				}
				tt.answer(w, r)
			}))
			defer bad.Close()
			m := newModel(1)
			good := httptest.NewServer(m)
			defer good.Close()
			logged := &lockedText{}
			w, err := New(Options{Policy: steady(), Log: textLog(logged)})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			events := make(chan Event, 100)
			w.Subscribe(func(e Event) { events <- e })
			for _, url := range []string{bad.URL, good.URL} {
				if _, err := w.Connect(Target{URL: url}); err != nil {
					t.Fatal(err)
				}
			}
			if tt.want == "" || strings.Contains(tt.want, "passed over") {
				await(t, events, func(e Event) bool { return e.URL == bad.URL && e.Server == "a" && e.To == "connected" })
			} else {
				await(t, events, func(e Event) bool { return e.URL == bad.URL && e.To == Waiting && strings.HasPrefix(e.Error, tt.want) })
			}
			warnings := strings.Count(logged.String(), "level=WARN")
			if tt.want == "" && warnings != 0 || tt.want != "" && (warnings != 1 || !strings.Contains(logged.String(), tt.want)) {
				t.Errorf("logged:\n%s", logged)
			}
			m.set(dir, "x", "connected")
			for w.target(good.URL).mustState(t).State != Connected {
				time.Sleep(time.Millisecond)
			}
			m.prompt(dir)
			await(t, events, func(e Event) bool { return e.URL == good.URL && e.Server == "x" })
		})
	}
}

// prompted tells of a use, and keeps the stream open.
func prompted(w io.Writer, r *http.Request) {
	io.WriteString(w, data(map[string]any{"directory": dir, "payload": map[string]any{"type": "message.updated", "properties": map[string]any{"info": map[string]string{"role": "user"}}}}))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func endless(w io.Writer, r *http.Request, text string) {
	chunk := strings.Repeat(text, 1<<20/len(text))
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

func await(t testing.TB, events <-chan Event, want func(Event) bool) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case e := <-events:
			if want(e) {
				return e
			}
		case <-ctx.Done():
			t.Fatal("it did not come")
		}
	}
}

func (t *target) mustState(tb testing.TB) TargetState {
	tb.Helper()
	s, ok := t.state()
	if !ok {
		tb.Fatal("the target has ended")
	}
	return s
}

// TestPluginIsLeftToDoTheWork: one of ours is in this OpenCode, which it knows by
// another name, and looks after one of two directories.
func TestPluginIsLeftToDoTheWork(t *testing.T) {
	installed := filepath.Join(t.TempDir(), "mcp-reconnect")
	states := filepath.Join(installed, "state")
	if err := os.MkdirAll(states, 0o700); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(states, fmt.Sprintf("%d-0123456789abcdef.json", os.Getpid()))
	self, _ := process.Find(os.Getpid())
	content, err := json.Marshal(map[string]any{"format": 1, "version": "0.1.0", "pid": os.Getpid(), "host": host, "space": process.Space(),
		"began": self.Began, "directory": dir, "url": "http://127.0.0.1:4096", "started": true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	play(t, newModel(1), func(o *Options) { o.PluginDir = installed }, func(s *scene) {
		const target, other = "http://localhost:4096", "/home/ann/other"
		if _, err := s.w.Connect(Target{URL: target}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		s.set(dir, "a", "failed")
		s.set(other, "b", "failed")
		s.prompt(dir)
		s.prompt(other)
		s.after(time.Minute)
		if got := s.asked("POST"); !slices.Equal(got, []string{"POST /mcp/b/connect " + other}) {
			s.Errorf("%q", got)
		}
		s.set(dir, "a", "connected") // by the plugin
		s.after(time.Minute)
		if told := strings.Join(s.told(), " "); !strings.Contains(told, "a dormant>connected tools a") {
			s.Errorf("%q", told)
		}
		if d := s.target().Directories; d[0].ByPlugin || !d[1].ByPlugin {
			s.Errorf("%+v", d)
		}
		// Without the plugin, the work is there to be done.
		if err := os.Remove(file); err != nil {
			s.Fatal(err)
		}
		s.drops(dir, "a")
		s.after(time.Minute)
		if got := s.asked("POST"); !slices.Contains(got, "POST /mcp/a/connect "+dir) {
			s.Errorf("%q", got)
		}
	})
}
