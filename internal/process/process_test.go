package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

func TestRanAt(t *testing.T) {
	before := time.Now().Add(-time.Minute)
	cmd := exec.Command(testenv.Program(t, "sleep"), "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if RanAt(pid, before) {
		t.Error("it ran before it was started")
	}
	if !RanAt(pid, time.Now()) || !RanAt(os.Getpid(), time.Now()) {
		t.Error("it does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Until it is waited for it is a zombie, or soon one.
	for deadline := time.Now().Add(time.Minute); RanAt(pid, time.Now()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("killed, and yet running")
		}
	}
	cmd.Wait()
	if RanAt(pid, time.Now()) {
		t.Error("it is gone, and yet running")
	}
}
