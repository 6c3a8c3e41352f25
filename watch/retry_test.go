package watch

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// named is a retry of a directory that somebody names.
func named(directories ...string) state.Retry {
	return state.Retry{Directories: directories, Use: directories}
}

func (s *scene) wantMatches(got []Match, err error, want ...Match) {
	s.Helper()
	ok := err == nil && slices.EqualFunc(got, want, func(a, b Match) bool {
		return a.URL == b.URL && a.Directory == b.Directory && a.Servers != nil && slices.Equal(a.Servers, b.Servers)
	})
	if !ok {
		s.Errorf("matched %+v, %v; want %+v", got, err, want)
	}
}

func (s *scene) wantNone(got []Match, err error, text string) {
	s.Helper()
	var none *NoMatchError
	if !errors.As(err, &none) || len(got) > 0 || !strings.Contains(err.Error(), text) {
		s.Errorf("matched %+v, %v; want %q", got, err, text)
	}
}

// beside is a second OpenCode, which the Watcher of a scene connects to under any name.
func (s *scene) beside(other *model, url string) {
	s.Helper()
	server := &http.Server{Handler: other}
	other.conns, other.closed = make(chan net.Conn), make(chan struct{})
	go server.Serve(other)
	s.Cleanup(func() { server.Close() })
	one, two := s.w.client.Transport, other.transport()
	s.w.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if "http://"+r.URL.Host == url {
			return two.RoundTrip(r)
		}
		return one.RoundTrip(r)
	})
	if _, err := s.w.Connect(Target{URL: url}); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

// TestNamedDirectory (rule 2): one that somebody names is looked at, whatever start says.
func TestNamedDirectory(t *testing.T) {
	for _, start := range []string{"auto", "mcp", "use", "load"} {
		for version := range 2 {
			play(t, newModel(version+1), func(o *Options) { o.Policy.Start = start }, func(s *scene) {
				s.set(dir, "a", "failed")
				s.set(dir, "b", "connected")
				s.connect()
				s.after(time.Minute)
				s.do(func() {
					s.requests = slices.DeleteFunc(s.requests, func(r string) bool { return r == "GET /global/event " }) // which OpenCode 2 does not have
				})
				if len(s.asked("")) > 0 {
					s.Fatalf("%q", s.asked(""))
				}
				got, err := s.w.Retry(named(dir))
				s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
				s.after(2 * time.Second)
				if d := s.target().Directories; len(d) != 1 || d[0].Servers[0].Status != "connected" || len(s.asked("POST")) != 1 {
					s.Errorf("%+v, %q", d, s.asked("POST"))
				}
				// Now it is in use as any other.
				s.set(dir, "b", "failed")
				s.after(15 * time.Second)
				got, err = s.w.Retry(state.Retry{Servers: []string{"b", "x"}})
				s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"b"}})
			})
		}
	}
}

// TestNamedInTheControlFile (rule 19): as `mcp-reconnect retry --directory` does it.
func TestNamedInTheControlFile(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.set(dir, "a", "failed")
		s.connect()
		s.after(time.Minute)
		at, err := state.RequestRetry(stateDir, named(dir))
		if err != nil {
			s.Fatal(err)
		}
		s.after(time.Second)
		got := s.recorded(stateDir)
		if len(got) != 1 || got[0].Directory != dir || !got[0].RetriedAt.Equal(at) {
			s.Fatalf("%+v", got)
		}
		s.after(2 * time.Second)
		if got = s.recorded(stateDir); !got[0].Known || got[0].Servers[0].Status != "connected" || !got[0].Servers[0].Retried {
			s.Errorf("%+v", got)
		}
	})
}

// TestNamedThroughTheControlFile: a Watcher with a StateDir asks all that have their state there.
func TestNamedThroughTheControlFile(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.set(dir, "a", "failed")
		s.connect()
		got, err := s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
		if control, err := state.ReadControl(stateDir); err != nil || !slices.Equal(control.Retry.Use, []string{dir}) {
			s.Errorf("%+v, %v", control, err)
		}
		// What cannot match leaves it as it is.
		before, _ := state.ReadControl(stateDir)
		got, err = s.w.Retry(state.Retry{Servers: []string{"githbu"}})
		s.wantNone(got, err, `there is no server "githbu"; `+dir+` has a`)
		if after, _ := state.ReadControl(stateDir); after.Retry.At != before.Retry.At {
			s.Errorf("%+v", after)
		}
	})
}

// TestNamedWhileNotConnected: it is looked at as soon as the stream is open, if that opens.
func TestNamedWhileNotConnected(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.down = true
		s.connect()
		s.after(time.Hour)
		got, err := s.w.Retry(named(dir))
		s.wantNone(got, err, dir+" is not in use, and "+modelURL+" is waiting: nothing listens there: connection refused")
		s.do(func() { s.down = false })
		s.after(10 * time.Minute)
		if len(s.asked("")) > 0 {
			s.Errorf("long after: %q", s.asked(""))
		}
		s.crash(true)
		s.after(time.Hour)
		s.do(func() { s.down = false })
		got, err = s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
		s.crash(true)
		s.after(time.Hour)
		got, err = s.w.Retry(state.Retry{})
		s.wantMatches(got, err, Match{URL: modelURL})
	})
}

// TestNamedAmongSeveral: each OpenCode that was asked would start the servers.
func TestNamedAmongSeveral(t *testing.T) {
	const second = "http://second.test:4096"
	play(t, newModel(1), nil, func(s *scene) {
		other := newModel(1)
		for _, m := range []*model{s.model, other} {
			m.set(dir, "a", "failed")
		}
		s.connect()
		s.beside(other, second)
		var ambiguous *AmbiguousError
		if got, err := s.w.Retry(named(dir)); !errors.As(err, &ambiguous) || len(got) > 0 || !slices.Equal(ambiguous.URLs, []string{modelURL, second}) {
			s.Errorf("%+v, %v", got, err)
		}
		s.after(time.Minute)
		if len(s.asked(""))+len(other.asked("")) > 0 {
			s.Errorf("%q, %q", s.asked(""), other.asked(""))
		}
		got, err := s.w.Retry(named(dir), "http://elsewhere.test:4096")
		s.wantNone(got, err, "http://elsewhere.test:4096 is not watched; watched are: "+modelURL+", "+second)
		// It is named.
		got, err = s.w.Retry(named("/one"), second+"/")
		s.wantMatches(got, err, Match{URL: second, Directory: "/one"})
		// It has shown that it is open there.
		other.event(dir, "session.created", map[string]any{"info": map[string]any{}})
		synctest.Wait()
		got, err = s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: second, Directory: dir, Servers: []string{"a"}})
		// It is in use there, and not where it was named alone.
		got, err = s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: second, Directory: dir, Servers: []string{"a"}})
		got, err = s.w.Retry(named(dir), modelURL)
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
		if len(s.asked("GET /mcp "+dir)) == 0 || len(s.asked("GET /mcp /one")) > 0 {
			s.Errorf("%q", s.asked(""))
		}
	})
	// Disposed of, it is not open any more.
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.beside(newModel(1), second)
		s.event(dir, "session.created", nil)
		s.event(dir, "server.instance.disposed", map[string]any{"directory": dir})
		synctest.Wait()
		var ambiguous *AmbiguousError
		if got, err := s.w.Retry(named(dir)); !errors.As(err, &ambiguous) {
			s.Errorf("%+v, %v", got, err)
		}
	})
}

// TestNamedBesideOthers: what another process has open is its own to look at.
func TestNamedBesideOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		fields map[string]any
		want   []Match // nil for an ambiguous one
		visits bool
	}{
		"a plugin's, unused":              {map[string]any{"directory": dir, "url": "http://127.0.0.1:7"}, []Match{{URL: "http://127.0.0.1:7", Directory: dir}}, false},
		"a plugin's, of a terminal":       {map[string]any{"directory": dir, "started": true, "known": true, "servers": []any{map[string]any{"name": "a", "status": "failed"}}}, []Match{{Directory: dir, Servers: []string{"a"}}}, false},
		"another watch's":                 {map[string]any{"directory": dir, "watch": true, "started": true, "url": "http://far.test"}, []Match{{URL: "http://far.test", Directory: dir}}, false},
		"a watch of another OpenCode":     {map[string]any{"watch": true, "url": "http://far.test", "connection": map[string]any{"state": "connected"}}, nil, false},
		"a watch that is not connected":   {map[string]any{"watch": true, "url": "http://far.test", "connection": map[string]any{"state": "waiting"}}, []Match{{URL: modelURL, Directory: dir, Servers: []string{"a"}}}, true},
		"a watch that waits for the same": {map[string]any{"watch": true, "url": modelURL, "connection": map[string]any{"state": "waiting"}}, []Match{{URL: modelURL, Directory: dir, Servers: []string{"a"}}}, true},
		"a watch of the same OpenCode":    {map[string]any{"watch": true, "url": modelURL, "connection": map[string]any{"state": "connected"}}, []Match{{URL: modelURL, Directory: dir, Servers: []string{"a"}}}, true},
		"a plugin's of another directory": {map[string]any{"directory": "/other", "started": true}, []Match{{URL: modelURL, Directory: dir, Servers: []string{"a"}}}, true},
	} {
		installed(t, func(s *scene, stateDir string) {
			writeState(t, stateDir, os.Getppid(), tt.fields)
			s.set(dir, "a", "failed")
			s.connect()
			got, err := s.w.Retry(named(dir))
			if tt.want != nil {
				s.wantMatches(got, err, tt.want...)
			} else if ambiguous := (*AmbiguousError)(nil); !errors.As(err, &ambiguous) {
				s.Errorf("%+v, %v", got, err)
			}
			if tt.want == nil { // by somebody who looked a moment ago
				if _, err := state.RequestRetry(stateDir, named(dir)); err != nil {
					s.Fatal(err)
				}
			}
			s.after(2 * time.Second)
			if visits := len(s.asked("GET")) > 0; visits != tt.visits {
				s.Errorf("%q", s.asked(""))
			}
			if s.Failed() {
				s.Fatal(name)
			}
		})
	}
}

// TestNamedIsADirectory: where it can be seen that it is none, none is asked about it.
func TestNamedIsADirectory(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real")
	link := filepath.Join(filepath.Dir(real), "link")
	file := filepath.Join(filepath.Dir(real), "file")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	play(t, newModel(1), nil, func(s *scene) {
		const here = "http://127.0.0.1:4096"
		if _, err := s.w.Connect(Target{URL: here}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		for _, directory := range []string{real + "/none", file} {
			got, err := s.w.Retry(named(directory))
			s.wantNone(got, err, directory+" is not in use, and no directory on this machine")
			got, err = s.w.Retry(named(directory), here)
			s.wantNone(got, err, "no directory on this machine")
		}
		for _, directory := range []string{"", "real", "~", "/" + strings.Repeat("x", pathLimit)} {
			got, err := s.w.Retry(named(directory))
			s.wantNone(got, err, "is no absolute path")
		}
		if len(s.asked("")) > 0 {
			s.Errorf("%q", s.asked(""))
		}
		s.set(real, "a", "failed")
		got, err := s.w.Retry(named(real))
		s.wantMatches(got, err, Match{URL: here, Directory: real, Servers: []string{"a"}})
		got, err = s.w.Retry(named(link)) // by another name
		s.wantMatches(got, err, Match{URL: here, Directory: real, Servers: []string{"a"}})
		if n := len(s.target().Directories); n != 1 {
			s.Errorf("%d directories", n)
		}
	})
}

// TestNothingToTry says what there is.
func TestNothingToTry(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		got, err := s.w.Retry(state.Retry{})
		s.wantNone(got, err, "no OpenCode is watched")
		s.connect()
		got, err = s.w.Retry(state.Retry{})
		s.wantNone(got, err, "no directory is in use")
		s.set(dir, "a", "connected")
		s.set(dir, "b", "failed")
		s.prompt(dir)
		s.after(time.Minute)
		got, err = s.w.Retry(state.Retry{Directories: []string{"/elsewhere"}})
		s.wantNone(got, err, "/elsewhere is not in use; known are: "+dir)
		got, err = s.w.Retry(state.Retry{Servers: []string{"x\ny"}})
		s.wantNone(got, err, `there is no server "x\\ny"; `+dir+` has a, b`)
		got, err = s.w.Retry(state.Retry{Servers: []string{"x"}, Directories: []string{"/new"}, Use: []string{"/new"}})
		s.wantNone(got, err, `there is no server "x"; /new has none`)
		got, err = s.w.Retry(state.Retry{})
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir}, Match{URL: modelURL, Directory: "/new"})
		got, err = s.w.Retry(state.Retry{Servers: []string{"a"}}) // which is connected, and left alone
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
	})
}

// TestSlowFirstLook: who asks is answered, and the loop goes on meanwhile.
func TestSlowFirstLook(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.connect()
		s.answerSlowly(time.Minute)
		began := time.Now()
		got, err := s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir})
		if took := time.Since(began); took > firstLook+time.Second {
			s.Errorf("took %v", took)
		}
	})
}

// TestNamedWhileIdle: the connection is idle no more.
func TestNamedWhileIdle(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.after(time.Hour)
		if got := s.target().State; got != Idle {
			s.Fatal(got)
		}
		got, err := s.w.Retry(named(dir))
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir})
		s.after(time.Minute)
		if got := s.target().State; got != Connected {
			s.Error(got)
		}
	})
}

// TestManyNamedDirectories: there is an end to them.
func TestManyNamedDirectories(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		var many []string
		for n := range maxDirectories + 50 {
			many = append(many, fmt.Sprint("/many/", n))
		}
		got, err := s.w.Retry(named(many...))
		if n := len(s.target().Directories); err != nil || len(got) != maxDirectories || n != maxDirectories {
			s.Errorf("%d matches, %d directories, %v", len(got), n, err)
		}
		got, err = s.w.Retry(named("/one/more"))
		s.wantNone(got, err, "/one/more is not in use")
		if n := strings.Count(s.logged.String(), "further ones are passed over"); n != 1 {
			s.Errorf("said %d times", n)
		}
	})
}

// TestForcedAtTheFirstLook: a server that is connected there is restarted, once.
func TestForcedAtTheFirstLook(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.set(dir, "b", "connected")
		s.connect()
		asked := named(dir)
		asked.Servers, asked.Force = []string{"a"}, []string{"a"}
		got, err := s.w.Retry(asked)
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{"a"}})
		s.after(time.Minute)
		if posted := s.asked("POST"); !slices.Equal(posted, []string{"POST /mcp/a/connect " + dir}) {
			s.Errorf("%q", posted)
		}
	})
}

// TestRetryOfThePluginsDirectory of an OpenCode that is named goes to the plugin.
func TestRetryOfThePluginsDirectory(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		const here = "http://127.0.0.1:4096"
		project := t.TempDir()
		writeState(t, stateDir, os.Getpid(), map[string]any{"directory": project, "url": here, "version": plugin.Version})
		if _, err := s.w.Connect(Target{URL: here}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		got, err := s.w.Retry(named(project), here)
		s.wantMatches(got, err, Match{URL: here, Directory: project})
		if control, err := state.ReadControl(stateDir); err != nil || !slices.Equal(control.Retry.Use, []string{project}) {
			s.Errorf("%+v, %v", control, err)
		}
		s.after(time.Second)
		if len(s.asked("")) > 0 {
			s.Errorf("%q", s.asked(""))
		}
	})
}

// TestNamedByAnotherPath: OpenCode resolves symbolic links, and its events have no others.
// One directory has one engine, or a server would be started twice at once (rule 5).
func TestNamedByAnotherPath(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		real, err := filepath.EvalSymlinks(s.TempDir())
		if err != nil {
			s.Fatal(err)
		}
		link := filepath.Join(s.TempDir(), "link")
		if err := os.Symlink(real, link); err != nil {
			s.Skip("no symbolic links")
		}
		s.set(real, "a", "connected")
		const url = "http://127.0.0.1:4096"
		for _, path := range []string{link, real + "/", filepath.Dir(real) + "/x/../" + filepath.Base(real)} {
			for _, ask := range []func(){
				func() {
					got, err := s.w.Retry(named(path, real))
					s.wantMatches(got, err, Match{URL: url, Directory: real, Servers: []string{}})
				},
				func() {
					if _, err := state.RequestRetry(stateDir, named(path)); err != nil {
						s.Fatal(err)
					}
				},
			} {
				if _, err := s.w.Connect(Target{URL: url}); err != nil {
					s.Fatal(err)
				}
				synctest.Wait()
				ask()
				s.prompt(real)
				s.after(3 * time.Second)
				if d := s.target().Directories; len(d) != 1 || d[0].Directory != real {
					s.Errorf("%s: %+v", path, d)
				}
				s.w.Disconnect(url)
			}
		}
	})
}

// TestNamedOnAnotherMachine: what a path leads to here says nothing of there.
func TestNamedOnAnotherMachine(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		link := filepath.Join(s.TempDir(), "link")
		if err := os.Symlink(s.TempDir(), link); err != nil {
			s.Skip("no symbolic links")
		}
		s.connect()
		got, err := s.w.Retry(named(link + "/"))
		s.wantMatches(got, err, Match{URL: modelURL, Directory: link, Servers: []string{}})
	})
}

// TestNamedEverywhere: an OpenCode that is asked at the unspecified address is on this machine.
func TestNamedEverywhere(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		for _, url := range []string{"http://0.0.0.0:4096", "http://[::]:4096"} {
			if _, err := s.w.Connect(Target{URL: url}); err != nil {
				s.Fatal(err)
			}
			synctest.Wait()
			got, err := s.w.Retry(named("/nowhere/at/all"))
			s.wantNone(got, err, "no directory on this machine")
			s.w.Disconnect(url)
		}
		if got := s.asked(""); len(got) > 0 {
			s.Errorf("%q", got)
		}
	})
}

// TestNamedAmongSeveralIsLogged: whoever writes the control file gets no answer.
func TestNamedAmongSeveralIsLogged(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.connect()
		s.beside(newModel(1), "http://other.test:4096")
		if _, err := state.RequestRetry(stateDir, named(dir)); err != nil {
			s.Fatal(err)
		}
		s.after(10 * time.Second)
		if n := strings.Count(s.logged.String(), "http://other.test:4096"); !strings.Contains(s.logged.String(), dir+" is in use in none of the OpenCodes") || len(s.asked("")) > 0 {
			s.Errorf("%d: %s", n, s.logged)
		}
	})
}

// TestSkippedDoesNotMatch: the policy leaves it alone.
func TestSkippedDoesNotMatch(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		server := func(name string, skipped bool) map[string]any {
			return map[string]any{"name": name, "status": "failed", "skipped": skipped}
		}
		writeState(t, stateDir, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:9", "started": true, "known": true,
			"servers": []any{server("a", true), server("b", false)}})
		got, err := s.w.Retry(state.Retry{})
		s.wantMatches(got, err, Match{URL: "http://127.0.0.1:9", Directory: dir, Servers: []string{"b"}})
	})
	play(t, newModel(1), func(o *Options) { o.Policy.Skip = []string{"a"} }, func(s *scene) {
		s.set(dir, "a", "failed")
		s.connect()
		s.prompt(dir)
		s.after(time.Second)
		got, err := s.w.Retry(state.Retry{})
		s.wantMatches(got, err, Match{URL: modelURL, Directory: dir, Servers: []string{}})
	})
}
