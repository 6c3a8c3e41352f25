package process

import (
	"os"
	"os/exec"
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
