package watch

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A hung is a model whose event stream does not answer as it should.
type hung struct {
	*scene
	asked []time.Duration // of each request for the stream: when it came, since the start
	ended []time.Duration // and when it ended; 0 while it has not
}

// hang has the requests for the stream, beginning with 0, answered by a function, and tells
// what became of them.
func (s *scene) hang(answer func(n int, w http.ResponseWriter, r *http.Request)) *hung {
	h, start := &hung{scene: s}, time.Now()
	s.do(func() {
		s.answer = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/global/event" {
				s.serve(w, r)
				return
			}
			var n int
			s.do(func() {
				n = len(h.asked)
				h.asked, h.ended = append(h.asked, time.Since(start)), append(h.ended, 0)
			})
			defer s.do(func() { h.ended[n] = time.Since(start) })
			answer(n, w, r)
		}
	})
	return h
}

// never answers.
func never(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// want checks when the requests for the stream came and ended, in seconds.
func (h *hung) want(want ...string) {
	h.Helper()
	synctest.Wait()
	var got []string
	h.do(func() {
		for n := range h.asked {
			end := "…"
			if h.ended[n] > 0 {
				end = fmt.Sprint(h.ended[n].Seconds())
			}
			got = append(got, fmt.Sprintf("%v-%s", h.asked[n].Seconds(), end))
		}
	})
	if !slices.Equal(got, want) {
		h.Errorf("requests for the stream: %q, want %q", got, want)
	}
}

// TestUnansweredStream: an OpenCode that is starting takes a connection and never answers it.
func TestUnansweredStream(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		h := s.hang(func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				never(w, r)
				return
			}
			s.serve(w, r)
		})
		s.connect()
		s.after(hedgeAfter - time.Millisecond)
		s.wantTold()
		h.want("0-…")
		s.after(time.Millisecond)
		s.wantTold("connecting>connected")
		h.want("0-2", "2-…")
		if state := s.target(); state.Attempt != 1 || s.logged.String() == "" || strings.Contains(s.logged.String(), "WARN") {
			s.Errorf("%+v\n%s", state, s.logged)
		}
		// The one that was taken is a stream like any other.
		s.set(dir, "a", "connected")
		s.prompt(dir)
		s.after(20 * time.Minute)
		s.wantTold("a >connected")
		h.want("0-2", "2-…")
	})
}

// TestStreamAnsweredLate: the first request is answered after the second one was, by a
// transport that does not care for its end.
func TestStreamAnsweredLate(t *testing.T) {
	late := &body{Reader: strings.NewReader(prompt1("/late"))}
	change := func(o *Options) {
		var asked atomic.Bool
		model := o.Transport
		o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if asked.Swap(true) {
				return model.RoundTrip(r)
			}
			time.Sleep(3 * time.Second)
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: late}, nil
		})
	}
	play(t, newModel(1), change, func(s *scene) {
		s.connect()
		s.after(time.Minute)
		s.wantTold("connecting>connected")
		if !late.closed || late.read > 0 || s.opens() != 1 || len(s.target().Directories) > 0 {
			s.Errorf("closed: %t; %d bytes read, opened %d times, %+v", late.closed, late.read, s.opens(), s.target())
		}
	})
}

// TestBothStreamsAnswer, at the same moment: one is taken, and the other one ends.
func TestBothStreamsAnswer(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		h := s.hang(func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				time.Sleep(hedgeAfter)
			}
			s.serve(w, r)
		})
		s.connect()
		s.after(5 * time.Second)
		s.wantTold("connecting>connected")
		if len(h.asked) > 2 || len(s.streams) != 1 {
			s.Errorf("%d requests, %d streams are open", len(h.asked), len(s.streams))
		}
	})
}

// TestNoStreamAnswers: that is one attempt, and one error, when its time is over.
func TestNoStreamAnswers(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		h := s.hang(func(_ int, w http.ResponseWriter, r *http.Request) { never(w, r) })
		s.connect()
		s.after(15 * time.Second)
		s.wantTold("connecting>waiting")
		h.want("0-15", "2-15", "6-15", "14-15")
		state := s.target()
		if state.Attempt != 1 || state.Error != "the server did not answer within 15s" || !state.NextTry.Equal(time.Now().Add(time.Second)) || strings.Count(s.logged.String(), "\n") != 1 {
			s.Errorf("%+v\n%s", state, s.logged)
		}
		s.after(time.Second)
		h.want("0-15", "2-15", "6-15", "14-15", "16-…")
		if n := s.target().Attempt; n != 2 {
			s.Errorf("attempt %d", n)
		}
	})
}

// TestSecondStreamIsRefused: the first answer is taken, whatever it says.
func TestSecondStreamIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(*scene)
		state  string
		error  string
	}{
		"by a password": {func(s *scene) { s.answer = nil; s.password = "another" }, Unauthorized, errUnauthorized.Error()},
		"by a proxy":    {func(s *scene) { s.answer = s.serveDown }, Waiting, "the server answers 503 Service Unavailable"},
		"by the system": {func(s *scene) { s.down = true }, Waiting, "nothing listens there: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, newModel(1), nil, func(s *scene) {
				h := s.hang(func(_ int, w http.ResponseWriter, r *http.Request) { never(w, r) })
				s.connect()
				s.after(time.Second)
				s.do(func() { tt.answer(s) })
				s.after(time.Second)
				s.wantTold("connecting>" + tt.state)
				h.want("0-2")
				if state := s.target(); state.Error != tt.error || strings.Count(s.logged.String(), "\n") != 1 {
					s.Errorf("%+v\n%s", state, s.logged)
				}
			})
		})
	}
}

// TestUnansweredDialect: of OpenCode 2, each of the two requests has its two seconds.
func TestUnansweredDialect(t *testing.T) {
	for _, tt := range []struct {
		name     string
		delay    func(path string, n int) time.Duration
		opened   time.Duration
		one, two int // requests for the stream of either version
	}{
		{"both are slow", func(string, int) time.Duration { return 1500 * time.Millisecond }, 3 * time.Second, 1, 1},
		{"the first one hangs", func(path string, n int) time.Duration {
			if path == "/global/event" && n == 0 {
				return time.Hour
			}
			return 0
		}, 2 * time.Second, 2, 1},
		{"the second one hangs", func(path string, n int) time.Duration {
			if path == "/api/event" && n == 0 {
				return time.Hour
			}
			return 0
		}, 2 * time.Second, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, newModel(2), nil, func(s *scene) {
				asked := map[string]int{}
				s.do(func() {
					s.answer = func(w http.ResponseWriter, r *http.Request) {
						var n int
						s.do(func() { n = asked[r.URL.Path]; asked[r.URL.Path]++ })
						select {
						case <-time.After(tt.delay(r.URL.Path, n)):
							s.serve(w, r)
						case <-r.Context().Done():
						}
					}
				})
				s.connect()
				s.after(tt.opened)
				s.wantTold("connecting>connected")
				if one, two := asked["/global/event"], asked["/api/event"]; one != tt.one || two != tt.two || s.target().OpenCode != 2 {
					s.Errorf("%d and %d requests; %+v", one, two, s.target())
				}
			})
		})
	}
}

// TestUnansweredIDs: each request has the id.
func TestUnansweredIDs(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.send("id: 41\n" + prompt1(dir))
		s.after(time.Minute)
		s.hang(func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				s.do(func() { s.lastIDs = append(s.lastIDs, r.Header.Get("Last-Event-ID")) })
				never(w, r)
				return
			}
			s.serve(w, r)
		})
		s.crash(false)
		s.after(5 * time.Second)
		if !slices.Equal(s.lastIDs, []string{"", "41", "41"}) || s.target().State != Connected {
			s.Errorf("%q", s.lastIDs)
		}
	})
}

// TestUnansweredStreamIsNotFarAway: a stream takes as long to open as the request that was
// answered, so that a process that was restarted is known as such (rule 2).
func TestUnansweredStreamIsNotFarAway(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.hang(func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 0:
				never(w, r)
			case 1:
				s.serve(w, r)
			default: // a proxy that waits for the new process
				time.Sleep(700 * time.Millisecond)
				s.serve(w, r)
			}
		})
		s.connect()
		s.after(5 * time.Second)
		s.set(dir, "a", "connected")
		s.prompt(dir)
		s.after(time.Minute)
		s.do(func() { s.requests = nil })
		s.crash(false)
		s.after(5 * time.Minute)
		if s.target().State != Connected || len(s.asked("")) > 0 || len(s.target().Directories) > 0 {
			s.Errorf("asked in a directory that may not be open any more: %q", s.asked(""))
		}
	})
}

// TestDisconnectWhileStreamsHang: every request ends with its target.
func TestDisconnectWhileStreamsHang(t *testing.T) {
	for name, end := range map[string]func(*scene){
		"disconnected": func(s *scene) { s.w.Disconnect(modelURL) },
		"closed":       func(s *scene) { s.w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, newModel(1), nil, func(s *scene) {
				h := s.hang(func(_ int, w http.ResponseWriter, r *http.Request) { never(w, r) })
				s.connect()
				s.after(7 * time.Second)
				end(s)
				h.want("0-7", "2-7", "6-7")
				s.after(time.Hour)
				h.want("0-7", "2-7", "6-7")
			})
		})
	}
}
