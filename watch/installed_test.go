package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// installed plays with a plugin's directory.
func installed(t *testing.T, then func(s *scene, stateDir string)) {
	t.Helper()
	stateDir := filepath.Join(t.TempDir(), "mcp-reconnect")
	play(t, newModel(1), func(o *Options) { o.StateDir = stateDir }, func(s *scene) { then(s, stateDir) })
}

func (s *scene) recorded(stateDir string) []state.Instance {
	s.Helper()
	synctest.Wait()
	found, err := state.Read(stateDir)
	if err != nil {
		s.Fatal(err)
	}
	return found.List
}

// TestRecords (rule 18): status and retry know what is watched.
func TestRecords(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.set(dir, "a", "connected")
		s.set(dir, "b", "failed")
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.connect()
		s.after(time.Minute)
		if got := s.recorded(stateDir); len(got) > 0 {
			s.Fatalf("nothing is in use: %+v", got)
		}
		s.prompt(dir)
		s.after(5 * time.Second)
		got := s.recorded(stateDir)
		if len(got) != 1 || !got[0].Watch || !got[0].Started || got[0].Pid != os.Getpid() || got[0].URL != modelURL || got[0].Directory != dir || got[0].Version == "" {
			s.Fatalf("%+v", got)
		}
		if servers := got[0].Servers; len(servers) != 2 || servers[0].Phase != "" || servers[1].Phase != "waiting" || servers[1].Tries != 3 ||
			servers[1].Error != "Connection closed" || servers[1].DueAt.IsZero() || servers[1].Since.IsZero() {
			s.Errorf("%+v", servers)
		}
		// What is not known is not told.
		s.answerSlowly(10 * time.Second)
		s.after(time.Minute)
		s.crash(false)
		s.after(time.Second)
		if got := s.recorded(stateDir); len(got) != 1 || len(got[0].Servers) > 0 {
			s.Errorf("%+v", got)
		}
		s.do(func() { s.answer = nil })
		s.after(time.Minute)
		if got := s.recorded(stateDir); len(got) != 1 || len(got[0].Servers) != 2 {
			s.Errorf("%+v", got)
		}
		// Disposed of, used again, disconnected.
		s.event(dir, "server.instance.disposed", map[string]any{"directory": dir})
		if got := s.recorded(stateDir); len(got) > 0 {
			s.Errorf("%+v", got)
		}
		s.prompt(dir)
		s.after(time.Second)
		s.event(dir, "server.instance.disposed", map[string]any{"directory": dir})
		s.prompt(dir)
		s.after(time.Second)
		if got := s.recorded(stateDir); len(got) != 1 {
			s.Errorf("%+v", got)
		}
		s.w.Disconnect(modelURL)
		if got := s.recorded(stateDir); len(got) > 0 {
			s.Errorf("%+v", got)
		}
		s.connect()
		s.prompt(dir)
		s.after(time.Second)
		s.w.Close()
		if left, err := os.ReadDir(filepath.Join(stateDir, "instances")); err != nil || len(left) > 0 {
			s.Errorf("%v, %v", left, err)
		}
	})
}

func (s *scene) watches(stateDir string) []state.Watch {
	s.Helper()
	synctest.Wait()
	found, err := state.Read(stateDir)
	if err != nil {
		s.Fatal(err)
	}
	return found.Watches
}

// TestConnectionIsRecorded (rule 18): a watch is seen without a directory, with what keeps it from its OpenCode.
func TestConnectionIsRecorded(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		wants := func(status, problem string, directories int) {
			s.Helper()
			got := s.watches(stateDir)
			if len(got) != 1 || got[0].Pid != os.Getpid() || got[0].Version == "" || got[0].URL != modelURL || got[0].State != status ||
				!strings.Contains(got[0].Error, problem) || (got[0].Error == "") != (problem == "") || got[0].Directories != directories {
				s.Errorf("%+v, want %s, %q and %d directories", got, status, problem, directories)
			}
		}
		s.down = true
		s.connect()
		s.after(200 * time.Millisecond)
		wants(Waiting, "refused", 0)
		s.after(time.Hour)
		wants(GivenUp, "refused", 0)
		s.do(func() { s.down = false })
		s.after(5 * time.Minute)
		wants(Connected, "", 0)
		s.prompt(dir)
		s.after(time.Second)
		wants(Connected, "", 1)
		s.after(time.Hour)
		wants(Idle, "", 1)
		if err := os.RemoveAll(stateDir); err != nil {
			s.Fatal(err)
		}
		s.after(time.Second)
		wants(Idle, "", 1)
		s.w.Disconnect(modelURL)
		if got := s.watches(stateDir); len(got) > 0 {
			s.Errorf("%+v", got)
		}
	})
}

// TestRecordedAtOnce: another watch looks for the file before it connects anything.
func TestRecordedAtOnce(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.connect()
		s.answerSlowly(time.Minute)
		s.prompt(dir)
		if got := s.recorded(stateDir); len(got) != 1 || len(got[0].Servers) > 0 {
			s.Errorf("%+v", got)
		}
	})
}

// TestIdleRecord: of a directory that nobody uses nothing is known once its stream was lost.
func TestIdleRecord(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(31 * time.Minute)
		s.set(dir, "a", "failed")
		s.crash(false)
		s.after(time.Second)
		if got := s.recorded(stateDir); len(got) != 1 || len(got[0].Servers) > 0 {
			s.Errorf("%+v", got)
		}
	})
}

// TestPluginBehindEveryAddress: it knows an OpenCode that listens everywhere as 127.0.0.1.
func TestPluginBehindEveryAddress(t *testing.T) {
	stateDir := filepath.Join(t.TempDir(), "mcp-reconnect")
	writeState(t, stateDir, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true})
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	p := &plugins{dir: stateDir, now: time.Now}
	for url, want := range map[string]bool{"http://" + name + ":4096": true, "http://localhost:4096": true, "http://elsewhere.example:4096": false, "http://" + name + ":4097": false} {
		at, err := parseAddress(url)
		if err != nil {
			t.Fatal(err)
		}
		if owner, _ := p.owner(at, dir); (owner != "") != want {
			t.Errorf("%s: %q", url, owner)
		}
	}
}

// TestControl (rule 19): what the command line says to plugins is obeyed.
func TestControl(t *testing.T) {
	stateDir := filepath.Join(t.TempDir(), "mcp-reconnect")
	if err := os.Mkdir(stateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := state.RequestRetry(stateDir, state.Retry{}); err != nil { // before it was there
		t.Fatal(err)
	}
	if _, err := state.SetPaused(stateDir, true); err != nil {
		t.Fatal(err)
	}
	play(t, newModel(1), func(o *Options) { o.StateDir = stateDir }, func(s *scene) {
		s.set(dir, "a", "failed")
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.connect()
		s.prompt(dir)
		s.after(time.Minute)
		if got := s.recorded(stateDir); len(s.asked("POST")) > 0 || len(got) != 1 || !got[0].Paused || !got[0].RetriedAt.IsZero() || !s.w.Paused() {
			s.Fatalf("%q; %+v", s.asked("POST"), got)
		}
		s.w.Pause(false) // by whoever has the Watcher: the file has not changed
		s.after(time.Minute)
		if len(s.asked("POST")) == 0 || s.w.Paused() {
			s.Errorf("%q", s.asked("POST"))
		}
		for _, paused := range []bool{false, true, false} {
			if _, err := state.SetPaused(stateDir, paused); err != nil {
				s.Fatal(err)
			}
			s.after(time.Second)
			if got := s.recorded(stateDir); got[0].Paused != paused || s.w.Paused() != paused {
				s.Errorf("paused %t: %+v", paused, got)
			}
		}
		s.after(15 * time.Minute) // parked
		before := len(s.asked("POST"))
		at, err := state.RequestRetry(stateDir, state.Retry{Servers: []string{"a"}, Directories: []string{"/elsewhere"}})
		if err != nil {
			s.Fatal(err)
		}
		s.after(time.Second)
		if got := s.recorded(stateDir); len(s.asked("POST")) != before || !got[0].RetriedAt.Equal(at) || got[0].Servers[0].Retried {
			s.Errorf("%d tries; %+v", len(s.asked("POST"))-before, got)
		}
		if at, err = state.RequestRetry(stateDir, state.Retry{Servers: []string{"a"}}); err != nil {
			s.Fatal(err)
		}
		s.after(time.Second)
		if got := s.recorded(stateDir); len(s.asked("POST")) == before || !got[0].RetriedAt.Equal(at) || !got[0].Servers[0].Retried {
			s.Errorf("%d tries; %+v", len(s.asked("POST"))-before, got)
		}
	})
}

// TestOneOfTwoWatches looks after a directory: the one with the lower pid.
func TestOneOfTwoWatches(t *testing.T) {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	for _, pid := range []int{os.Getppid(), child.Process.Pid} { // as a rule, a lower and a higher one
		installed(t, func(s *scene, stateDir string) {
			file := writeState(t, stateDir, pid, map[string]any{"watch": true, "directory": dir, "url": modelURL, "started": true})
			s.set(dir, "a", "failed")
			s.connect()
			s.prompt(dir)
			s.after(time.Minute)
			yields := pid < os.Getpid()
			if s.target().Directories[0].ByOther != yields || len(s.asked("POST")) == 0 != yields {
				s.Errorf("%d: %q; %+v", pid, s.asked("POST"), s.target())
			}
			if strings.Contains(s.logged.String(), "another watch of mcp-reconnect does the work") != yields {
				s.Error(s.logged)
			}
			if !yields {
				return
			}
			// A pause and its end are not for what another one looks after.
			s.w.Pause(true)
			s.w.Pause(false)
			s.after(time.Minute)
			if got := s.recorded(stateDir); len(s.asked("POST")) > 0 || len(got) != 1 {
				s.Errorf("%q, %+v", s.asked("POST"), got)
			}
			s.w.Pause(true)
			if err := os.Remove(file); err != nil { // as what it leaves is, when it ends
				s.Fatal(err)
			}
			s.after(time.Minute)
			if len(s.asked("POST")) > 0 {
				s.Errorf("while paused: %q", s.asked("POST"))
			}
			s.w.Pause(false)
			s.after(time.Minute)
			if got := s.recorded(stateDir); !slices.Contains(s.asked("POST"), "POST /mcp/a/connect "+dir) || len(got) != 1 || got[0].Pid != os.Getpid() {
				s.Errorf("%q; %+v", s.asked("POST"), got)
			}
		})
	}
}

// TestRecordsSurviveTheirDirectory: somebody removes the state directory.
func TestRecordsSurviveTheirDirectory(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(5 * time.Second)
		for range 3 {
			if err := os.RemoveAll(stateDir); err != nil {
				s.Fatal(err)
			}
			s.after(time.Second)
			if got := s.recorded(stateDir); len(got) != 1 || len(got[0].Servers) != 1 {
				s.Fatalf("%+v", got)
			}
			for _, paused := range []bool{true, false} {
				if _, err := state.SetPaused(stateDir, paused); err != nil {
					s.Fatal(err)
				}
				s.after(time.Second)
				if s.w.Paused() != paused {
					s.Fatalf("it did not hear of paused=%t", paused)
				}
			}
		}
	})
}

// writeState writes a state file of a running process, and returns its name.
func writeState(t *testing.T, stateDir string, pid int, fields map[string]any) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	running, _ := process.Find(pid)
	maps.Copy(fields, map[string]any{"format": 1, "version": "0.1.0", "pid": pid, "host": host, "space": process.Space(), "began": running.Began})
	content, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	states := filepath.Join(stateDir, "instances")
	file := filepath.Join(states, fmt.Sprintf("%d-0123456789abcdef.json", pid))
	if err := errors.Join(os.MkdirAll(states, 0o700), os.WriteFile(file, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRestartsAreTheOwners (rule 20): what is forced, or proven, while a plugin does the
// work is nothing that a watch does when the plugin ends.
func TestRestartsAreTheOwners(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		file := writeState(t, stateDir, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true})
		if _, err := s.w.Connect(Target{URL: "http://localhost:4096"}); err != nil {
			s.Fatal(err)
		}
		synctest.Wait()
		s.set(dir, "a", "connected")
		s.set(dir, "b", "connected")
		s.prompt(dir)
		s.after(2 * time.Second)
		s.w.Retry(state.Retry{Servers: []string{"a"}, Force: []string{"a"}})
		s.call(dir, "b", "error", "Not connected")
		s.call(dir, "b", "error", "Unknown tool: echo")
		s.after(10 * time.Second)
		if err := os.Remove(file); err != nil {
			s.Fatal(err)
		}
		s.prompt(dir)
		s.after(5 * time.Minute)
		if asked := s.asked("POST"); len(asked) > 0 || len(s.asked("GET /config")) > 0 {
			s.Errorf("%q", s.asked(""))
		}
		s.call(dir, "b", "error", "Not connected")
		s.after(2 * time.Second)
		if asked := s.asked("POST"); len(asked) != 1 || asked[0] != "POST /mcp/b/connect "+dir {
			s.Errorf("%q", asked)
		}
	})
}

// TestBrokenDisk: it is said once, and the work goes on.
func TestBrokenDisk(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		if err := errors.Join(os.Remove(stateDir), os.WriteFile(stateDir, nil, 0o600)); err != nil {
			s.Fatal(err)
		}
		s.set(dir, "a", "failed")
		s.do(func() { s.starts = func(string, string) string { return "failed" } })
		s.connect()
		s.prompt(dir)
		s.after(time.Hour)
		if n := strings.Count(s.logged.String(), "cannot be written"); n != 1 || len(s.asked("POST")) < 10 {
			s.Errorf("%d times; %q\n%s", n, s.asked("POST"), s.logged)
		}
	})
}

// TestPluginIsLeftToDoTheWork, which it tells of.
func TestPluginIsLeftToDoTheWork(t *testing.T) {
	installed(t, func(s *scene, stateDir string) {
		file := writeState(t, stateDir, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true})
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
		s.set(dir, "a", "connected") // by the plugin, which says so
		s.do(func() { s.requests = nil })
		writeState(t, stateDir, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true,
			"servers": []any{map[string]any{"name": "a", "status": "connected", "phase": "up"}}})
		s.after(2 * time.Second)
		if told := strings.Join(s.told(), " "); !strings.Contains(told, "a dormant>connected tools a") {
			s.Errorf("%q", told)
		}
		s.after(10 * time.Second)
		if n := len(s.asked("GET /mcp " + dir)); n != 1 {
			s.Errorf("asked %d times for what is new once", n)
		}
		if d := s.target().Directories; d[0].ByOther || !d[1].ByOther {
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

// TestNoSecretInAConnection: the address of a proxy may have a password in it.
func TestNoSecretInAConnection(t *testing.T) {
	stateDir := filepath.Join(t.TempDir(), "state")
	change := func(o *Options) {
		o.StateDir = stateDir
		o.Transport = &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
			return nil, errors.New(`invalid proxy address "http://ann:hunter2@proxy:8080": no`)
		}}
	}
	play(t, newModel(1), change, func(s *scene) {
		s.connect()
		s.after(time.Second)
		got := s.watches(stateDir)
		if len(got) != 1 || !strings.Contains(got[0].Error, "invalid proxy address") || strings.Contains(got[0].Error+s.logged.String(), "hunter2") {
			s.Errorf("%+v\n%s", got, s.logged)
		}
	})
}
