//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRetryActsWithoutAPrompt: a client shows servers that failed when it opened the
// directory, as a desktop does. Whoever names the directory, or is in it, has them tried.
func TestRetryActsWithoutAPrompt(t *testing.T) {
	a := launch(t, patient)
	open := func(names ...string) *world {
		t.Helper()
		w := a.project(t).stdios(append(names, "well")...)
		for _, name := range names {
			w.mark(name, "down")
		}
		w.post("/session")
		for _, name := range names {
			w.wants(name, "failed") // which starts them, and is no sign of use
		}
		w.eventually("status calls it unused", func() bool { return w.line("-") != nil && w.line("-")[3] == "unused" })
		return w
	}
	w, v, u := open("late"), open("late"), open("late")

	// Elsewhere it is named, with the command.
	cmd := exec.Command("mcp-reconnect", "retry")
	cmd.Env, cmd.Dir = append(cmd.Environ(), a.environ...), t.TempDir()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mcp-reconnect retry --directory "+w.dir+"\n") {
		t.Errorf("%v: %s", err, out)
	}

	// Still down.
	before := w.starts("late")
	out1, status := w.reconnect(t, "retry", "--directory", w.dir)
	if status != 1 || !strings.Contains(out1, w.dir+"\tlate\tstill failed\t") {
		t.Errorf("exit status %d: %s", status, out1)
	}
	if n := w.starts("late"); n != before+1 {
		t.Errorf("tried %d times", n-before)
	}

	// A restart is one of what is connected, whether that is known or not.
	v.unmark("late", "down")
	starts := v.starts("well")
	out1, status = v.reconnect(t, "retry", "--directory", v.dir, "--force", "well")
	if status != 0 || out1 != strings.Join([]string{strings.Split(out1, "\t")[0], v.dir, "well", "connected", "-"}, "\t")+"\n" {
		t.Errorf("exit status %d: %s", status, out1)
	}
	if n := v.starts("well"); n != starts+1 {
		t.Errorf("restarted %d times", n-starts)
	}

	// Somebody is in it, and it comes back. A name that nobody knows is answered.
	u.unmark("late", "down")
	cmd = exec.Command("mcp-reconnect", "retry")
	cmd.Env, cmd.Dir = append(cmd.Environ(), a.environ...), u.dir
	out, err = cmd.Output()
	if !strings.Contains(string(out), u.dir+"\tlate\tconnected\t-\n") {
		t.Errorf("%v: %s", err, out)
	}
	u.wants("late", "connected")
	if out1, status = u.reconnect(t, "retry", "well", "--directory", u.dir); status != 0 || !strings.Contains(out1, "\twell\twas connected; left alone\t") {
		t.Errorf("exit status %d: %s", status, out1)
	}
	cmd = exec.Command("mcp-reconnect", "retry", "lat", "--directory", u.dir)
	cmd.Env = append(cmd.Environ(), a.environ...)
	if out, err = cmd.CombinedOutput(); err == nil || string(out) != "mcp-reconnect: "+u.dir+" has no server \"lat\"; it has late, well\n" {
		t.Errorf("%v: %s", err, out)
	}
}
