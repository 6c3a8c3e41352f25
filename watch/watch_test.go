package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLateStreamIsClosed: a transport that does not care for the end of its requests
// opens their streams after 40 s.
func TestLateStreamIsClosed(t *testing.T) {
	m := newModel(1)
	var late []*body
	change := func(o *Options) {
		begun := time.Now()
		o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Context().Err() != nil {
				t.Error("a request for a stream that was given up")
			}
			if time.Since(begun) > steady().ConnectTimeout {
				return nil, errors.New("no")
			}
			time.Sleep(40 * time.Second)
			b := &body{Reader: strings.NewReader(prompt1(dir))}
			m.do(func() { late = append(late, b) })
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: b}, nil
		})
	}
	play(t, m, change, func(s *scene) {
		s.connect()
		s.after(15*time.Second + time.Millisecond)
		s.wantTold("connecting>waiting")
		if got := s.target().Error; got != "the server did not answer within 15s" {
			s.Error(got)
		}
		s.after(time.Minute)
		if len(late) != 4 || slices.ContainsFunc(late, func(b *body) bool { return !b.closed || b.read > 0 }) {
			s.Errorf("of %d late streams, not each was closed, or something was read of one", len(late))
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
		if n := strings.Count(s.logged.String(), "503"); n != 2 || strings.Count(s.logged.String(), "every 5m0s from now on") != 1 {
			s.Errorf("said %d times:\n%s", n, s.logged)
		}
		// When asked, at once, and with all its tries.
		before := s.opens()
		s.w.Retry(state.Retry{})
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
		s.w.Retry(state.Retry{})
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
		s.crash(true) // and with it the process that knows the ids
		s.after(2 * time.Second)
		s.do(func() { s.down = false })
		s.after(time.Minute)
		if got := s.lastIDs; !slices.Equal(got, []string{"", "41", ""}) {
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
		s.answerSlowly(3 * time.Second)
		s.do(func() { s.requests = nil })
		s.crash(false)
		s.set(dir, "a", "disabled")
		s.after(2 * time.Second)
		if d := s.target().Directories; len(d) != 1 || len(d[0].Servers) > 0 {
			s.Errorf("what was cached is still told: %+v", d)
		}
		s.wantTold("connected>waiting", "waiting>connected") // and nothing of b
		s.after(4 * time.Second)
		if told := s.told(); !slices.Contains(told, "a connected>disabled") || len(s.asked("GET /mcp "+dir)) == 0 {
			s.Errorf("%q, %q", told, s.asked(""))
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
		if len(s.asked("")) > 0 || s.opens() != 1 {
			s.Errorf("asked %q, opened %d times", s.asked(""), s.opens())
		}
		s.crash(true)
		s.after(time.Hour)
		s.do(func() { s.down = false })
		before := s.opens()
		s.after(5 * time.Minute)
		if s.opens() != before+1 {
			s.Errorf("opened %d times", s.opens()-before)
		}
		s.wantTold("idle>waiting", "a connected>", "waiting>given_up", "given_up>connected")
		s.prompt(dir)
		s.after(2 * time.Second)
		s.wantTold("a >connected")
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
			s.Errorf("opened %d times, %q", s.opens()-before, s.asked(""))
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
			s.Errorf("opened %d times, %q", s.opens(), s.asked(""))
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
			if len(s.asked("")) == 0 {
				s.Fatal("nothing was asked")
			}
			for _, request := range s.asked("") {
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
		for _, request := range s.asked("") {
			if request != "GET /mcp "+dir {
				s.Errorf("%q", request)
			}
		}
		if len(s.asked("")) == 0 {
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
		s.prompt("/p/7") // the oldest
		s.after(time.Second)
		for n := range maxDirectories + 5 {
			if n != 7 {
				s.prompt(fmt.Sprint("/p/", n))
			}
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
		if slices.ContainsFunc(s.target().Directories, func(d DirectoryState) bool { return d.Directory == "/p/7" }) {
			s.Error("another one than the oldest was forgotten")
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
			s.Errorf("%q", s.asked(""))
		}
	})
}

// TestRestartedProcessIsNotWokenUp: reading a status in a process where nobody uses the
// directory would start its servers.
func TestRestartedProcessIsNotWokenUp(t *testing.T) {
	type answer func(*model, http.ResponseWriter, *http.Request)
	badGateway := func(_ *model, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	reset := func(*model, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	hang := func(_ *model, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	wait := func(m *model, w http.ResponseWriter, r *http.Request) {
		time.Sleep(700 * time.Millisecond)
		m.serve(w, r)
	}
	for name, gone := range map[string]struct {
		answer answer // while the process is away; nil for a refused connection
		d      time.Duration
	}{
		"as fast as can be":            {nil, 700 * time.Millisecond},
		"slowly":                       {nil, 2 * time.Second},
		"after many tries":             {nil, time.Hour},
		"behind a proxy":               {badGateway, 700 * time.Millisecond},
		"behind a proxy, slowly":       {badGateway, time.Minute},
		"behind a proxy that waits":    {wait, 900 * time.Millisecond},
		"while it still takes them in": {reset, 700 * time.Millisecond},
		"without an answer":            {hang, 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, newModel(1), nil, func(s *scene) {
				s.set(dir, "a", "connected")
				s.connect()
				s.prompt(dir)
				s.after(time.Minute)
				s.told()
				if gone.answer != nil {
					s.do(func() { s.answer = func(w http.ResponseWriter, r *http.Request) { gone.answer(s.model, w, r) } })
				}
				s.crash(gone.answer == nil)
				s.after(gone.d)
				s.do(func() { s.down, s.answer, s.requests = false, nil, nil })
				s.set(dir, "a", "failed")
				s.after(6 * time.Minute)
				if len(s.asked("")) > 0 || len(s.target().Directories) > 0 {
					s.Errorf("asked in a directory that may not be open any more: %q", s.asked(""))
				}
				told := s.told()
				if told[0] != "connected>waiting" || told[1] != "a connected>" || !strings.HasSuffix(told[len(told)-1], ">connected") {
					s.Errorf("%q", told)
				}
				s.prompt(dir)
				s.after(5 * time.Second)
				s.wantTold("a >waiting", "a waiting>trying", "a trying>connected", "tools a")
			})
		})
	}
}

// TestFarAway: of a server for which every stream takes its time, the process is the same
// if this one takes no longer.
func TestFarAway(t *testing.T) {
	for version := 1; version <= 2; version++ {
		for _, restart := range []bool{false, true} {
			play(t, newModel(version), nil, func(s *scene) {
				s.answer = func(w http.ResponseWriter, r *http.Request) {
					delay := 600 * time.Millisecond
					if version == 2 && r.URL.Path == "/api/event" {
						delay = 200 * time.Millisecond // after the one for version 1
					}
					time.Sleep(delay)
					s.serve(w, r)
				}
				s.set(dir, "a", "connected")
				s.w.Connect(Target{URL: modelURL})
				s.after(time.Second)
				s.prompt(dir)
				s.after(time.Minute)
				s.crash(restart)
				s.after(time.Second)
				s.do(func() { s.down = false })
				s.after(time.Minute)
				if n := len(s.target().Directories); n == 1 == restart {
					s.Errorf("version %d, restarted %t: %d directories are known", version, restart, n)
				}
			})
		}
	}
}

// TestStreamsThatDoNotLast are not opened again at once, nor is anything taken for granted.
func TestStreamsThatDoNotLast(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(worthwhile - 500*time.Millisecond)
		opened := s.opens()
		s.crash(false)
		s.after(900 * time.Millisecond)
		if s.opens() != opened || len(s.target().Directories) > 0 {
			s.Errorf("opened %d times; %+v", s.opens()-opened, s.target())
		}
	})
}

// TestHungRead: one that hangs when the stream is lost does not hold up the next one.
func TestHungRead(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.answerSlowly(time.Hour)
		s.prompt(dir)
		s.after(time.Minute)
		s.do(func() { s.answer, s.requests = nil, nil })
		s.crash(false)
		s.after(time.Second)
		if len(s.asked("GET /mcp "+dir)) == 0 || strings.Contains(s.logged.String(), "reading the status") {
			s.Errorf("%q\n%s", s.asked(""), s.logged)
		}
	})
}

// TestReadWantedWhileTheStreamIsAway: a connect is over then, and its result is not known.
func TestReadWantedWhileTheStreamIsAway(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.do(func() { s.starts = func(string, string) string { time.Sleep(time.Minute); return "failed" } })
		s.connect()
		s.prompt(dir)
		s.after(59900 * time.Millisecond) // since the connect began, 100 ms after it was seen to fail
		s.do(func() {
			s.requests = nil
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/global/event" {
					time.Sleep(400 * time.Millisecond)
				}
				s.serve(w, r)
			}
		})
		s.crash(false)
		s.after(300 * time.Millisecond)
		if len(s.asked("")) > 0 {
			s.Errorf("asked while there is no stream: %q", s.asked(""))
		}
		s.after(time.Second)
		if len(s.asked("GET /mcp "+dir)) == 0 {
			s.Errorf("%q", s.asked(""))
		}
	})
}

// TestRequestsEndWithTheirDirectory: nobody waits for their answers.
func TestRequestsEndWithTheirDirectory(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		ended := 0
		s.connect()
		s.answer = func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			s.do(func() { ended++ })
		}
		s.prompt(dir)
		s.after(time.Second)
		s.event(dir, "server.instance.disposed", map[string]any{"directory": dir})
		s.after(time.Second)
		if ended != 1 {
			s.Errorf("%d of 1 has ended", ended)
		}
	})
}

// TestGivenUpInTime: whenever that is.
func TestGivenUpInTime(t *testing.T) {
	play(t, newModel(1), func(o *Options) { o.Policy.ConnectTimeout = 7 * time.Second }, func(s *scene) {
		s.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		s.w.Connect(Target{URL: modelURL})
		s.after(6900 * time.Millisecond)
		s.wantTold()
		s.after(200 * time.Millisecond)
		s.wantTold("connecting>waiting")
	})
}

// TestLateAnswers: what an earlier stream or the time before it still brings is not looked at.
func TestLateAnswers(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		target := s.w.target(modelURL)
		generation := target.generation
		s.crash(false)
		s.after(2 * time.Second)
		target.post(func(now time.Time) {
			target.signal(now, generation, signal{kind: used, directory: dir})
			target.opened(now, generation, &stream{}, target.ctx)
		})
		synctest.Wait()
		if target.generation == generation || len(s.target().Directories) > 0 || s.target().State != Connected {
			s.Errorf("%+v", s.target())
		}
	})
}

// TestGivenUpOnce: a server that closes every stream is not told of again and again.
func TestGivenUpOnce(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }
		s.connect()
		s.after(24 * time.Hour)
		if n := strings.Count(strings.Join(s.told(), " "), ">given_up"); n > 2 || s.target().State != GivenUp {
			s.Errorf("told %d times; %s", n, s.target().State)
		}
		s.do(func() { s.answer = nil })
		s.after(10 * time.Minute)
		s.wantTold("given_up>connected")
	})
	// Somebody who asks for a try is told at once.
	play(t, newModel(1), nil, func(s *scene) {
		s.answer = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }
		s.connect()
		s.after(24 * time.Hour)
		s.told()
		s.do(func() { s.answer = nil })
		s.w.Retry(state.Retry{})
		s.wantTold("given_up>connected")
	})
}

func TestSecondConnect(t *testing.T) {
	m := newModel(1)
	m.password = "right"
	play(t, m, nil, func(s *scene) {
		s.w.Connect(Target{URL: modelURL, Password: "wrong"})
		s.after(time.Second)
		s.wantTold("connecting>unauthorized")
		s.w.Connect(Target{URL: modelURL}) // knows none, and changes none
		s.w.Connect(Target{URL: modelURL, Password: "right", Keep: true})
		s.after(time.Second)
		s.wantTold("unauthorized>connected")
		opened := s.opens()
		s.w.Connect(Target{URL: modelURL})
		s.w.Connect(Target{URL: modelURL, Username: "opencode", Password: "right"})
		s.after(time.Minute)
		s.crash(false)
		s.after(time.Second)
		s.wantTold("connected>waiting", "waiting>connected")
		s.w.Connect(Target{URL: modelURL, Password: "of tomorrow"}) // an open stream is none of its business
		s.after(time.Minute)
		if s.opens() != opened+1 || s.target().State != Connected {
			s.Errorf("opened %d times, %s", s.opens()-opened, s.target().State)
		}
		s.crash(true)
		s.after(24 * time.Hour)
		if !s.w.Has(modelURL) {
			s.Error("it was to be kept")
		}
	})
	// One that races with Disconnect gets another target.
	play(t, newModel(1), nil, func(s *scene) {
		for range 50 {
			s.connect()
			go s.w.Disconnect(modelURL)
			if _, err := s.w.Connect(Target{URL: modelURL}); err != nil {
				s.Fatal(err)
			}
			synctest.Wait()
		}
	})
}

// TestRetryWhileItOpens: asking again and again does not keep it from opening.
func TestRetryWhileItOpens(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.answer = func(w http.ResponseWriter, r *http.Request) { time.Sleep(3 * time.Second); s.serve(w, r) }
		s.w.Connect(Target{URL: modelURL})
		for range 4 {
			s.after(time.Second)
			s.w.Retry(state.Retry{})
		}
		s.wantTold("connecting>connected")
	})
}

// TestForgottenAfterASleep: a target is not forgotten for the time that the machine slept.
func TestForgottenAfterASleep(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.w.Connect(Target{URL: modelURL})
		s.after(6 * time.Hour)
		s.do(func() { s.down = true }) // the network takes its time
		s.scene(func() { s.jump += 8 * time.Hour })
		s.after(10 * time.Minute)
		if !s.w.Has(modelURL) {
			s.Fatalf("%q", s.told())
		}
		s.do(func() { s.down = false })
		s.after(5 * time.Minute)
		if s.target().State != Connected {
			s.Error(s.target().State)
		}
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
			if len(s.asked("")) > 0 || len(s.target().Directories) > 0 {
				s.Errorf("%s: %q", kind, s.asked(""))
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
			s.Errorf("%q", s.asked(""))
		}
		s.w.Pause(false)
		s.after(2 * time.Second)
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.drops(dir, "a")
		s.after(15 * time.Minute) // parked
		before := len(s.asked("POST"))
		s.w.Retry(state.Retry{Servers: []string{"other"}})
		s.w.Retry(state.Retry{Directories: []string{"/elsewhere"}})
		s.after(2 * time.Second)
		if n := len(s.asked("POST")); n != before {
			s.Errorf("another one was meant: %d", n-before)
		}
		s.w.Retry(state.Retry{Servers: []string{"a"}, Directories: []string{dir}})
		s.after(time.Second)
		if n := len(s.asked("POST")); n == before {
			s.Error("not tried")
		}
	})
}

// TestDeadAndCalledConnected (rule 20): a call proves that a connection is dead.
func TestDeadAndCalledConnected(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		for _, server := range []string{"a", "web", "local"} {
			s.set(dir, server, "connected")
		}
		s.do(func() { s.remote = []string{"web"} })
		s.connect()
		s.call("/never/used", "a", "error", "Not connected")
		s.prompt(dir)
		s.after(2 * time.Second)
		s.call(dir, "a", "completed", "hello")
		s.call(dir, "a", "error", "file not found")
		s.after(2 * time.Second)
		if asked := s.asked("POST"); len(asked) != 0 || len(s.asked("GET /config")) != 0 {
			s.Errorf("%q", s.asked(""))
		}
		s.call(dir, "a", "error", "Not connected")
		s.after(2 * time.Second)
		if asked := s.asked("POST"); len(asked) != 1 || asked[0] != "POST /mcp/a/connect "+dir {
			s.Errorf("%q", asked)
		}
		// Of a tool list that is out of date, the one that is remote, and no other.
		s.call(dir, "web", "error", "MCP error -32602: Tool echo not found")
		s.call(dir, "local", "completed", "Unknown tool: echo")
		s.after(2 * time.Second)
		if asked := s.asked("POST"); len(asked) != 2 || asked[1] != "POST /mcp/web/connect "+dir {
			s.Errorf("%q", asked)
		}
		if config := s.asked("GET /config"); len(config) != 1 || config[0] != "GET /config "+dir {
			s.Errorf("%q", config)
		}
		for _, server := range s.target().Directories[0].Servers {
			if want := map[string]string{"a": "connected", "web": "connected", "local": "outdated"}[server.Name]; server.State != want {
				s.Errorf("%+v, want %s", server, want)
			}
		}
		s.w.Retry(state.Retry{Servers: []string{"local"}, Force: []string{"local"}})
		s.after(2 * time.Second)
		if asked := s.asked("POST"); len(asked) != 3 || asked[2] != "POST /mcp/local/connect "+dir {
			s.Errorf("forced: %q", asked)
		}
		if strings.Contains(s.logged.String(), "hunter2") {
			s.Error("a secret of the configuration is told")
		}
	})
}

// TestLaterOpenCodeNoticesDeaths: what a local server's tool says there is its own word.
func TestLaterOpenCodeNoticesDeaths(t *testing.T) {
	for version, want := range map[string]int{"1.17.0": 1, "1.18.33": 0} {
		play(t, newModel(1), nil, func(s *scene) {
			s.set(dir, "a", "connected")
			s.connect()
			s.event(dir, "session.created", map[string]any{"info": map[string]any{"version": version}})
			s.prompt(dir)
			s.after(2 * time.Second)
			s.event(dir, "session.updated", map[string]any{"info": map[string]any{"version": "1.0.142"}}) // an old session
			s.call(dir, "a", "error", "Not connected")
			s.after(2 * time.Second)
			if asked := s.asked("POST"); len(asked) != want {
				s.Errorf("%s: %q", version, asked)
			}
		})
	}
}

// TestUnreadableConfiguration: no server is known to be remote then, and a later call asks again.
func TestUnreadableConfiguration(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "web", "connected")
		s.connect()
		s.prompt(dir)
		s.after(2 * time.Second)
		s.do(func() {
			s.remote = []string{"web"}
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/config" {
					io.WriteString(w, `{"mcp":{"web":{"type":"remote","headers":{"key":"hunter2"}},`)
					return
				}
				s.serve(w, r)
			}
		})
		denied := func() {
			s.call(dir, "web", "error", "MCP error -32602: Tool echo not found")
			s.after(2 * time.Second)
		}
		denied()
		if len(s.asked("POST")) != 0 || strings.Contains(s.logged.String(), "hunter2") {
			s.Errorf("%q; %s", s.asked(""), s.logged.String())
		}
		s.do(func() { s.answer = nil })
		denied()
		if len(s.asked("POST")) != 1 {
			s.Errorf("%q", s.asked(""))
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
			logged := &testenv.Text{}
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
