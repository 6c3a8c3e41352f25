package state_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const hash = "-0123456789abcdef"

// installed returns a directory with state in it.
func installed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mcp-reconnect-state")
	if err := os.MkdirAll(filepath.Join(dir, "instances"), 0o700); err != nil {
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
	p, _ := process.Find(pid)
	file := map[string]any{"format": 1, "version": "0.1.0", "pid": pid, "host": host, "space": process.Space(), "began": p.Began, "directory": "/p", "url": nil,
		"started": true, "paused": false, "retriedAt": 0, "servers": []any{}}
	if change != nil {
		change(file)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "instances", fmt.Sprint(pid, hash, ".json"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func isForeign(err error) bool {
	var foreign *state.ForeignError
	return errors.As(err, &foreign)
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
			map[string]any{"name": "a", "status": "failed", "phase": "waiting", "tries": 3, "retried": true, "error": "x", "since": 1, "triedAt": 2, "dueAt": 3},
			map[string]any{"name": "b", "status": "connected", "phase": "", "since": 4, "triedAt": nil, "dueAt": nil, "later": true},
		}
	})
	want := []state.Instance{{
		Pid: os.Getpid(), Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:1", Started: true, Paused: true,
		RetriedAt: time.UnixMilli(1_700_000_000_000),
		Servers: []state.Server{
			{Name: "a", Status: "failed", Phase: "waiting", Tries: 3, Retried: true, Error: "x", Since: time.UnixMilli(1), TriedAt: time.UnixMilli(2), DueAt: time.UnixMilli(3)},
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
		path := filepath.Join(dir, "instances", name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	alive := os.Getpid()
	old := func(path string, age time.Duration) string {
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		return path
	}
	saved := func(pid int, hash string, change func(map[string]any)) string {
		path := save(t, dir, pid, change)
		other := filepath.Join(dir, "instances", fmt.Sprint(pid, "-", hash, ".json"))
		if err := os.Rename(path, other); err != nil {
			t.Fatal(err)
		}
		return other
	}
	const month = 31 * 24 * time.Hour
	isNewer := func(f map[string]any) { f["format"], f["servers"] = 2, "in another form" }
	isElsewhere := func(f map[string]any) { f["host"] = "another" }
	stays := map[string]string{
		"somebody else's file":      old(write("notes.txt", "hello"), month),
		"a living one's broken":     old(write(fmt.Sprint(alive, "-1123456789abcdef.json"), `{"format":1`), time.Hour),
		"a living one's on its way": write(fmt.Sprint(".", alive, hash, ".tmp"), `{"fo`),
		"another's on its way":      write(fmt.Sprint(".", deadPid+9, hash, ".tmp"), `{"fo`),
		"of a newer version":        saved(1, "0000000000000001", isNewer),
		"of another machine":        saved(deadPid, "0000000000000002", isElsewhere),
		"of another space of pids":  saved(deadPid, "0000000000000003", func(f map[string]any) { f["space"] = "another" }),
		"not named as ours":         write("4242.json", "{}"),
	}
	goes := map[string]string{
		"of a dead process":              saved(deadPid, "0000000000000004", nil),
		"a dead one's broken":            old(write(fmt.Sprint(deadPid+2, hash, ".json"), `[]`), time.Hour),
		"a dead one's on its way":        old(write(fmt.Sprint(".", deadPid, hash, ".tmp"), `{"fo`), time.Hour),
		"of a newer version, long ago":   old(saved(1, "0000000000000005", isNewer), month),
		"of another machine, long ago":   old(saved(deadPid, "0000000000000006", isElsewhere), month),
		"of nobody knows whom, long ago": old(write(fmt.Sprint(alive, "-2123456789abcdef.json"), `{`), month),
	}
	if process.Space() != "" { // where it is told when a process began
		goes["of a pid that was given again"] = saved(alive, "0000000000000007", func(f map[string]any) { f["began"] = "7" })
	}
	if err := os.Mkdir(filepath.Join(dir, "instances", fmt.Sprint(deadPid+3, hash, ".json")), 0o700); err != nil {
		t.Fatal(err)
	}
	found := read(t, dir)
	if len(found.List) != 0 || found.Newer != 1 || found.Elsewhere != 2 {
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

// TestStateOfTheLivingOutlivesClocks: whatever is done to the clock, and however far
// that of a file server is off, and whatever the machine is called now, a running process is told of.
func TestStateOfTheLivingOutlivesClocks(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, -time.Hour, 0, time.Hour} {
		dir := installed(t)
		path := save(t, dir, os.Getpid(), func(f map[string]any) { f["host"] = "as it was called before" })
		then := time.Now().Add(off)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		found := read(t, dir)
		if !exists(path) || process.Space() != "" && len(found.List) != 1 {
			t.Errorf("%v off: %+v, and the file is there: %t", off, found, exists(path))
		}
	}
}

// TestGarbageIsPassedOver: whatever a file holds, the others are read.
func TestGarbageIsPassedOver(t *testing.T) {
	dir := installed(t)
	save(t, dir, os.Getpid(), nil)
	for n, content := range []string{"", "{", "null", "3", "[]", `{"format":"1"}`, `{"format":1,"servers":{}}`, `{"format":1,"servers":[{"since":"x"}]}`,
		`{"format":-1}`, strings.Repeat("[", 100_000), strings.Repeat("x", 5<<20)} {
		path := filepath.Join(dir, "instances", fmt.Sprintf("%d-%016x.json", os.Getpid(), n))
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
	if err := os.Remove(filepath.Join(dir, "instances")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "instances"), filepath.Join(dir, "instances")); err != nil {
		testenv.Skip(t, "%v", err) // Windows asks for a privilege
	}
	if _, err := state.Read(dir); !isForeign(err) || !exists(path) {
		t.Errorf("%v; the other's file is there: %t", err, exists(path))
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
	at, err := state.RequestRetry(dir, state.Retry{Servers: []string{"a"}, Directories: []string{"/p"}})
	if err != nil {
		t.Fatal(err)
	}
	want := state.Control{Paused: true, Retry: state.Retry{At: at.UnixMilli(), Servers: []string{"a"}, Directories: []string{"/p"}}}
	if got, err := state.ReadControl(dir); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	// As rule 19 writes it; lists are never null.
	if _, err := state.RequestRetry(dir, state.Retry{}); err != nil {
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

// TestControlAtOnce: what many ask for at once is all there in the end.
func TestControlAtOnce(t *testing.T) {
	dir := installed(t)
	var wait sync.WaitGroup
	for _, name := range []string{"", "a", "b", "c", "d", "e"} {
		wait.Go(func() {
			var err error
			if name == "" {
				_, err = state.SetPaused(dir, true)
			} else {
				_, err = state.RequestRetry(dir, state.Retry{Servers: []string{name, "x"}, Directories: []string{"/" + name}})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	c, err := state.ReadControl(dir)
	want := state.Control{Paused: true, Retry: state.Retry{At: c.Retry.At,
		Servers: []string{"a", "b", "c", "d", "e", "x"}, Directories: []string{"/a", "/b", "/c", "/d", "/e"}}}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	// Everything stays everything.
	for _, servers := range [][]string{nil, {"a"}} {
		if _, err := state.RequestRetry(dir, state.Retry{Servers: servers}); err != nil {
			t.Fatal(err)
		}
		if c, err := state.ReadControl(dir); err != nil || len(c.Retry.Servers)+len(c.Retry.Directories) != 0 {
			t.Errorf("%+v, %v", c, err)
		}
	}
}

// TestRetrySoonAfterAnother: what was asked for a moment ago is asked for again, and nothing older.
// Of many within a millisecond the last one is ahead of the clock.
func TestRetrySoonAfterAnother(t *testing.T) {
	for ago, want := range map[time.Duration][]string{
		3 * time.Second: {"b"}, time.Second: {"a", "b"}, -50 * time.Millisecond: {"a", "b"}, -time.Hour: {"b"},
	} {
		dir := installed(t)
		at := time.Now().Add(-ago).UnixMilli()
		if err := os.WriteFile(filepath.Join(dir, "control.json"), fmt.Appendf(nil, `{"paused":false,"retry":{"at":%d,"servers":["a"]}}`, at), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := state.RequestRetry(dir, state.Retry{Servers: []string{"b"}}); err != nil {
			t.Fatal(err)
		}
		if c, err := state.ReadControl(dir); err != nil || !cmp.Equal(c.Retry.Servers, want) {
			t.Errorf("%v later: %+v, %v", ago, c, err)
		}
	}
}

func TestRetryGrowsWhateverTheClockSays(t *testing.T) {
	dir := installed(t)
	future := time.Now().Add(time.Hour).UnixMilli()
	if err := os.WriteFile(filepath.Join(dir, "control.json"), fmt.Appendf(nil, `{"paused":false,"retry":{"at":%d,"servers":[]}}`, future), 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := state.RequestRetry(dir, state.Retry{}); err != nil || at.UnixMilli() != future+1 {
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
		if text, _ := os.ReadFile(path); !isForeign(err) || string(text) != content {
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

func TestControlCreatesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "mcp-reconnect-state")
	if c, err := state.ReadControl(dir); err != nil || c.Paused {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("created to be read: %v", err)
	}
	if _, err := state.SetPaused(dir, true); err != nil {
		t.Fatal(err)
	}
	if c, err := state.ReadControl(dir); err != nil || !c.Paused {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestLinkedDirectoryIsNotFollowed: what it points to is somebody else's.
func TestLinkedDirectoryIsNotFollowed(t *testing.T) {
	elsewhere := installed(t)
	if _, err := state.SetPaused(elsewhere, true); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mcp-reconnect-state")
	if err := os.Symlink(elsewhere, dir); err != nil {
		testenv.Skip(t, "%v", err) // Windows asks for a privilege
	}
	_, readErr := state.Read(dir)
	c, controlErr := state.ReadControl(dir)
	_, setErr := state.SetPaused(dir, false)
	if !isForeign(readErr) || !isForeign(controlErr) || !isForeign(setErr) || c.Paused {
		t.Errorf("%v, %v, %v, %+v", readErr, controlErr, setErr, c)
	}
}

// TestRetriesMergeTheirUse: a retry that comes before anybody has looked takes nothing back.
func TestRetriesMergeTheirUse(t *testing.T) {
	dir := installed(t)
	for _, directory := range []string{"/one", "/two"} {
		if _, err := state.RequestRetry(dir, state.Retry{Use: []string{directory}, Directories: []string{directory}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.RequestRetry(dir, state.Retry{}); err != nil {
		t.Fatal(err)
	}
	c, err := state.ReadControl(dir)
	if err != nil || !slices.Equal(c.Retry.Use, []string{"/one", "/two"}) || c.Retry.Directories != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestForcedRetriesAreNotMerged: to ask for two at once would force the first one once more.
func TestForcedRetriesAreNotMerged(t *testing.T) { synctest.Test(t, forcedRetriesAreNotMerged) }

func forcedRetriesAreNotMerged(t *testing.T) {
	dir := t.TempDir()
	request := func(asked state.Retry) state.Control {
		t.Helper()
		if _, err := state.RequestRetry(dir, asked); err != nil {
			t.Fatal(err)
		}
		c, err := state.ReadControl(dir)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	request(state.Retry{Servers: []string{"x"}})
	var last int64
	for _, asked := range []state.Retry{
		{Servers: []string{"a"}, Force: []string{"a"}, Directories: []string{"/p"}},
		{Servers: []string{"b"}, Force: []string{"b"}},
		{Servers: []string{"c"}},
	} {
		got := request(asked)
		if got.Retry.At < last+2000 {
			t.Errorf("%+v comes %d ms after the one before", asked, got.Retry.At-last)
		}
		last, asked.At = got.Retry.At, got.Retry.At
		if diff := cmp.Diff(asked, got.Retry); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if got := request(state.Retry{Servers: []string{"d"}}); !slices.Equal(got.Retry.Servers, []string{"c", "d"}) {
		t.Errorf("what forces nothing is merged: %+v", got.Retry)
	}
}
