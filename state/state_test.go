package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const hash = "-0123456789abcdef"

// installed returns a plugin's directory with state in it.
func installed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mcp-reconnect")
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// save writes a state file for a process as a plugin would.
func save(t *testing.T, dir string, pid int, change func(map[string]any)) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{"format": 1, "version": "0.1.0", "pid": pid, "host": host, "directory": "/p", "url": nil,
		"started": true, "paused": false, "retriedAt": 0, "servers": []any{}}
	if change != nil {
		change(file)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state", fmt.Sprint(pid, hash, ".json"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// deadPid is one that no process has: more than any system gives.
const deadPid = 2_000_000_000

func read(t *testing.T, dir string) state.Instances {
	t.Helper()
	found, err := state.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	dir := installed(t)
	save(t, dir, os.Getpid(), func(f map[string]any) {
		f["url"], f["retriedAt"], f["paused"] = "http://127.0.0.1:1", 1_700_000_000_000, true
		f["servers"] = []any{
			map[string]any{"name": "a", "status": "failed", "phase": "waiting", "tries": 3, "error": "x", "since": 1, "triedAt": 2, "dueAt": 3},
			map[string]any{"name": "b", "status": "connected", "phase": "", "since": 4, "triedAt": nil, "dueAt": nil, "later": true},
		}
	})
	want := []state.Instance{{
		Pid: os.Getpid(), Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:1", Started: true, Paused: true,
		RetriedAt: time.UnixMilli(1_700_000_000_000),
		Servers: []state.Server{
			{Name: "a", Status: "failed", Phase: "waiting", Tries: 3, Error: "x", Since: time.UnixMilli(1), TriedAt: time.UnixMilli(2), DueAt: time.UnixMilli(3)},
			{Name: "b", Status: "connected", Since: time.UnixMilli(4)},
		},
	}}
	if diff := cmp.Diff(want, read(t, dir).List); diff != "" {
		t.Error(diff)
	}
}

func TestNothingThere(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), installed(t)} {
		if found := read(t, dir); found.List == nil || len(found.List) != 0 {
			t.Errorf("%s: %+v", dir, found)
		}
	}
}

// TestHalfDeadState has everything that may stand in the directory besides the state of
// a living process.
func TestHalfDeadState(t *testing.T) {
	dir := installed(t)
	write := func(name, content string) string {
		path := filepath.Join(dir, "state", name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alive := os.Getpid()
	stays := map[string]string{
		"somebody else's file":      write("notes.txt", "hello"),
		"a living one's broken":     write(fmt.Sprint(alive, "-1123456789abcdef.json"), `{"format":1`),
		"a living one's on its way": write(fmt.Sprint(".", alive, hash, ".tmp"), `{"fo`),
		"of a newer version":        save(t, dir, 1, func(f map[string]any) { f["format"], f["servers"] = 2, "in another form" }),
		"of another machine":        save(t, dir, deadPid+1, func(f map[string]any) { f["host"] = "another" }),
		"not named as ours":         write("4242.json", "{}"),
	}
	goes := map[string]string{
		"of a dead process":       save(t, dir, deadPid, nil),
		"a dead one's broken":     write(fmt.Sprint(deadPid+2, hash, ".json"), `[]`),
		"a dead one's on its way": write(fmt.Sprint(".", deadPid, hash, ".tmp"), `{"fo`),
	}
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		reused := save(t, dir, alive, nil) // written before the process that has the pid now was started
		long := time.Now().Add(-24 * time.Hour)
		if err := os.Chtimes(reused, long, long); err != nil {
			t.Fatal(err)
		}
		goes["of a pid that was given again"] = reused
	}
	if err := os.Mkdir(filepath.Join(dir, "state", fmt.Sprint(deadPid+3, hash, ".json")), 0o700); err != nil {
		t.Fatal(err)
	}
	found := read(t, dir)
	if len(found.List) != 0 || found.Newer != 1 || found.Elsewhere != 1 {
		t.Errorf("found %+v", found)
	}
	for what, path := range stays {
		if !exists(path) {
			t.Errorf("%s was removed", what)
		}
	}
	for what, path := range goes {
		if exists(path) {
			t.Errorf("%s is left", what)
		}
	}
}

// TestGarbageIsPassedOver: whatever a file holds, the others are read.
func TestGarbageIsPassedOver(t *testing.T) {
	dir := installed(t)
	save(t, dir, os.Getpid(), nil)
	for n, content := range []string{"", "{", "null", "3", "[]", `{"format":"1"}`, `{"format":1,"servers":{}}`, `{"format":1,"servers":[{"since":"x"}]}`,
		`{"format":-1}`, strings.Repeat("[", 100_000), strings.Repeat("x", 5<<20)} {
		path := filepath.Join(dir, "state", fmt.Sprintf("%d-%016x.json", os.Getpid(), n))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := read(t, dir); len(found.List) != 1 {
			t.Errorf("%.40q: %+v", content, found)
		}
	}
}

func TestLinkedStateIsNotFollowed(t *testing.T) {
	dir, elsewhere := installed(t), installed(t)
	path := save(t, elsewhere, deadPid, nil)
	if err := os.Remove(filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "state"), filepath.Join(dir, "state")); err != nil {
		testenv.Skip(t, "%v", err) // Windows asks for a privilege
	}
	if found := read(t, dir); len(found.List) != 0 || !exists(path) {
		t.Errorf("%+v; the other's file is there: %t", found, exists(path))
	}
}

func TestControl(t *testing.T) {
	dir := installed(t)
	for _, step := range []struct{ paused, changes bool }{{false, false}, {true, true}, {true, false}, {false, true}} {
		changed, err := state.SetPaused(dir, step.paused)
		if err != nil || changed != step.changes {
			t.Errorf("%+v: %t, %v", step, changed, err)
		}
	}
	if _, err := state.SetPaused(dir, true); err != nil {
		t.Fatal(err)
	}
	at, err := state.RequestRetry(dir, []string{"a"}, "/p")
	if err != nil {
		t.Fatal(err)
	}
	want := state.Control{Paused: true, Retry: state.Retry{At: at.UnixMilli(), Servers: []string{"a"}, Directory: "/p"}}
	if got, err := state.ReadControl(dir); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	// As rule 19 writes it; lists are never null.
	if _, err := state.RequestRetry(dir, nil, ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "control.json"))
	if err != nil || !strings.HasPrefix(string(text), `{"paused":true,"retry":{"at":`) || !strings.HasSuffix(string(text), `,"servers":[]}}`+"\n") {
		t.Errorf("%s, %v", text, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{"control.json", "control.lock"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestControlAtOnce: what many ask for at once is all there in the end, and no retry
// is replaced before those who watch the file can have seen it.
func TestControlAtOnce(t *testing.T) {
	dir := installed(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var times []time.Time
	for n := range 6 {
		wait.Go(func() {
			if n == 0 {
				if _, err := state.SetPaused(dir, true); err != nil {
					t.Error(err)
				}
				return
			}
			at, err := state.RequestRetry(dir, nil, "")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, other := range times {
				if gap := at.Sub(other).Abs(); gap < 250*time.Millisecond {
					t.Errorf("two retries %v apart", gap)
				}
			}
			times = append(times, at)
		})
	}
	wait.Wait()
	if c, err := state.ReadControl(dir); err != nil || !c.Paused {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRetryGrowsWhateverTheClockSays(t *testing.T) {
	dir := installed(t)
	future := time.Now().Add(time.Hour).UnixMilli()
	if err := os.WriteFile(filepath.Join(dir, "control.json"), fmt.Appendf(nil, `{"paused":false,"retry":{"at":%d,"servers":[]}}`, future), 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := state.RequestRetry(dir, nil, ""); err != nil || at.UnixMilli() != future+1 {
		t.Errorf("%v, %v", at, err)
	}
}

func TestControlOfSomebodyElse(t *testing.T) {
	for _, content := range []string{"", "hello", "{}", "[]", "null", `{"paused":"x"}`, `{"retry":{}}`} {
		dir := installed(t)
		path := filepath.Join(dir, "control.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := state.SetPaused(dir, true)
		if text, _ := os.ReadFile(path); !errors.Is(err, state.ErrForeign) || string(text) != content {
			t.Errorf("%q: %v, and now %q", content, err, text)
		}
	}
}

func TestControlLinksAreReplaced(t *testing.T) {
	dir, target := installed(t), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"control.json", "control.lock"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			testenv.Skip(t, "%v", err) // Windows asks for a privilege
		}
	}
	if _, err := state.SetPaused(dir, true); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(target); string(text) != "mine" {
		t.Errorf("what the link points to is now %q", text)
	}
	if c, err := state.ReadControl(dir); err != nil || !c.Paused {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestControlWhereNothingIsInstalled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := state.SetPaused(dir, true); !errors.Is(err, state.ErrNotInstalled) {
		t.Error(err)
	}
	if _, err := state.RequestRetry(dir, nil, ""); !errors.Is(err, state.ErrNotInstalled) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
