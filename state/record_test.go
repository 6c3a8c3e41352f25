package state_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "mcp-reconnect")
	at := time.UnixMilli(1_790_000_000_123)
	want := state.Instance{
		Pid: os.Getpid(), Watch: true, Version: "1.2.3", Directory: "/home/ann/project", URL: "http://127.0.0.1:4096",
		Started: true, Paused: true, RetriedAt: at, Servers: []state.Server{
			{Name: "github", Status: "failed", Phase: "waiting", Tries: 3, Retried: true, Error: "closed", Since: at, TriedAt: at.Add(time.Second), DueAt: at.Add(time.Minute)},
			{Name: "files", Status: "connected"},
		},
	}
	r := state.NewRecord(dir, want.URL, want.Directory)
	other := state.NewRecord(dir, "http://127.0.0.1:4097", want.Directory)
	for range 2 {
		if err := r.Save(want); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Save(state.Instance{}); err != nil {
		t.Fatal(err)
	}
	found, err := state.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.List) != 2 || found.List[1].URL != "http://127.0.0.1:4097" || found.List[1].Servers == nil {
		t.Fatalf("%+v", found.List)
	}
	if diff := cmp.Diff(want, found.List[0]); diff != "" {
		t.Error(diff)
	}
	for path, mode := range map[string]os.FileMode{r.Path(): 0o600, filepath.Dir(r.Path()): 0o700, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	for range 2 { // the second time there is nothing
		if err := r.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	// What a process left that ended while it wrote is removed.
	left := filepath.Join(dir, "instances", ".2147483647-0123456789abcdef.json.12345.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, at, at); err != nil {
		t.Fatal(err)
	}
	if found, err = state.Read(dir); err != nil || len(found.List) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

// TestRecordFollowsNoLink: what stands at our names may be somebody else's.
func TestRecordFollowsNoLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "instances")); err != nil {
		testenv.Skip(t, "no symbolic links: %v", err)
	}
	if err := state.NewRecord(dir, "http://x", "/p").Save(state.Instance{}); err == nil {
		t.Error("written through a link")
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestRecordOfAConnection: a watch is there, whatever its directories are, and is none of them.
func TestRecordOfAConnection(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mcp-reconnect-state")
	const one, two = "http://127.0.0.1:4096", "http://127.0.0.1:4097"
	want := []state.Watch{
		{Pid: os.Getpid(), Version: "1.2.3", URL: one, State: "connected", Directories: 2},
		{Pid: os.Getpid(), Version: "1.2.3", URL: two, State: "waiting", Error: "connection refused"},
	}
	for _, w := range []state.Watch{want[1], want[0]} {
		if err := state.NewRecord(dir, w.URL, "").SaveWatch(w); err != nil {
			t.Fatal(err)
		}
	}
	for _, directory := range []string{"/a", "/b"} {
		if err := state.NewRecord(dir, one, directory).Save(state.Instance{}); err != nil {
			t.Fatal(err)
		}
	}
	found := read(t, dir)
	if diff := cmp.Diff(want, found.Watches); diff != "" || len(found.List) != 2 {
		t.Errorf("%+v; -want +got\n%s", found.List, diff)
	}
	if err := state.NewRecord(dir, one, "").Remove(); err != nil {
		t.Fatal(err)
	}
	if found = read(t, dir); len(found.Watches) != 1 || len(found.List) != 2 {
		t.Errorf("%+v", found)
	}
}
