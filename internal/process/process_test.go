package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

func TestFind(t *testing.T) {
	before := time.Now().Add(-time.Minute)
	cmd := exec.Command(testenv.Program(t, "sleep"), "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	child, alive := Find(pid)
	own, running := Find(os.Getpid())
	if !alive || !running {
		t.Fatal("it does not run")
	}
	if !child.Wrote(child.Began, time.Now()) || !own.Wrote(own.Began, time.Now()) {
		t.Error("it is another one")
	}
	if child.Began == "" && child.Wrote("", before) {
		t.Error("it wrote before it was started")
	}
	if child.Began != "" && (child.Wrote("7", before) || !child.Wrote(child.Began, before) || !child.Wrote("", before)) {
		t.Error("when it began is not what counts, where it is told")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Until it is waited for it is a zombie, or soon one.
	for deadline := time.Now().Add(time.Minute); alive; _, alive = Find(pid) {
		if time.Now().After(deadline) {
			t.Fatal("killed, and yet running")
		}
		time.Sleep(time.Millisecond)
	}
	cmd.Wait()
	if _, alive := Find(pid); alive {
		t.Error("it is gone, and yet running")
	}
}

// TestNamed counts a program by its name, and not what it started.
func TestNamed(t *testing.T) {
	if _, known := Named("sleep"); !known {
		testenv.Skip(t, "this system does not list processes")
	}
	sleep, err := os.ReadFile(testenv.Program(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a (named) program")
	if err := os.WriteFile(name, sleep, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if pids, _ := Named("x", "a (named) program"); !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("%v, want %d", pids, cmd.Process.Pid)
	}
	if pids, _ := Named("named"); len(pids) > 0 {
		t.Errorf("%v has a part of the name", pids)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(filepath.Base(self), ".exe")
	if pids, _ := Named(base, "a (named) program"); slices.Contains(pids, cmd.Process.Pid) || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v: the child counts, or this does not", pids)
	}
}
