//go:build unix

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seen is what `mcp-reconnect status --format json` prints.
type seen struct {
	Paused    bool
	Processes []struct {
		Pid       int
		URL       string
		Watched   bool
		Version   string
		Instances []struct {
			Directory string
			Started   bool
			Paused    bool
			Servers   []struct {
				Name, Status, Phase, Error string
				Tries                      int
				Since                      time.Time
				Last                       *time.Time `json:"last_try"`
				Next                       *time.Time `json:"next_try"`
			}
		}
	}
}

// reconnect runs mcp-reconnect as a person does beside an app, and returns its standard output.
func (a *app) reconnect(t testing.TB, args ...string) (stdout string, status int) {
	t.Helper()
	cmd := exec.Command("mcp-reconnect", args...)
	cmd.Env = append(os.Environ(), a.environ...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if status = cmd.ProcessState.ExitCode(); status > 1 {
		t.Fatalf("mcp-reconnect %q: exit status %d: %s", args, status, stderr.String())
	}
	return string(out), status
}

func (a *app) seen(t testing.TB) seen {
	t.Helper()
	var s seen
	out, _ := a.reconnect(t, "status", "--format", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// line returns the line that status prints of a server, in its columns, or nil.
func (w *world) line(name string) []string {
	w.t.Helper()
	out, _ := w.reconnect(w.t, "status")
	for line := range strings.Lines(out) {
		if cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); cells[1] == w.dir && cells[2] == name {
			return cells
		}
	}
	return nil
}

// phase is what status says of a server; "" where it says nothing.
func (w *world) phase(name string) string {
	w.t.Helper()
	if cells := w.line(name); cells != nil {
		return cells[3]
	}
	return ""
}

// modes returns those of all that is in the data directory.
func (a *app) modes(t testing.TB) map[string]fs.FileMode {
	t.Helper()
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(a.dataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			modes[path] = info.Mode()
		}
		return err
	})
	if err != nil || len(modes) < 9 {
		t.Fatalf("%v, %v", modes, err)
	}
	return modes
}

// patient does not try twice in the time of a test: what comes back was told to.
var patient = setup{policy: []string{
	"MCP_RECONNECT_INITIAL_DELAY=10m",
	"MCP_RECONNECT_MAX_DELAY=10m",
	"MCP_RECONNECT_POLL_INTERVAL=10m",
}}

func TestSeenAndSteered(t *testing.T) {
	a := launch(t, patient)
	steered(t, a, a.server.URL)
}

// steered is status, retry, pause and resume from the first prompt to the end. The URL
// is what OpenCode tells its plugins of itself.
func steered(t *testing.T, a *app, url string) {
	w, u := a.project(t), a.project(t).stdios("a")
	w.mark("late", "down")
	w.configure(mcp{"late": w.stdio("late"), "well": w.stdio("well"), "off": with(w.stdio("off"), "enabled", false)})
	u.post("/session")
	w.post("/session")
	if got := u.phase(""); got != "" {
		t.Errorf("an unused directory has a server of no name in phase %s", got)
	}
	w.eventually("status tells of both directories, unused", func() bool {
		return w.line("-") != nil && w.line("-")[3] == "unused" && u.line("-") != nil
	})

	w.prompt("hello")
	w.tried(2, "late")
	if got := w.phase("well") + " " + w.phase("off"); got != "connected disabled" {
		t.Errorf("status says %q", got)
	}
	if s := a.seen(t); len(s.Processes) != 1 || s.Processes[0].URL != url || len(s.Processes[0].Instances) < 2 {
		t.Errorf("%+v", s)
	}

	for name, mode := range a.modes(t) {
		if want := map[bool]fs.FileMode{false: 0o600, true: 0o700}[mode.IsDir()]; mode.Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, mode, want)
		}
	}

	// Still down: retry says so. Without names all that failed are tried.
	out, status := w.reconnect(t, "retry")
	if status != 1 || !strings.Contains(out, w.dir+"\tlate\tstill failed\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.unmark("late", "down")

	// A pause keeps it down, whatever asks for it. Of a death OpenCode may not know (killedUnnoticed).
	w.reconnect(t, "pause")
	if _, status := w.reconnect(t, "retry", "late"); status != 1 {
		t.Errorf("retry during a pause: exit status %d", status)
	}
	w.eventually("status says so", func() bool { return w.phase("late") == "dormant" && a.seen(t).Paused })
	starts := w.starts("late")
	w.prompt("hello again")
	w.wants("late", "failed")
	w.reconnect(t, "resume")
	w.connects("late")
	if n := w.starts("late"); n != starts+1 {
		t.Errorf("during the pause and after it was started %d times", n-starts)
	}

	// By name, and in its directory alone.
	v := a.project(t).stdios("late")
	v.mark("late", "down")
	v.prompt("hello")
	v.tried(2, "late")
	v.unmark("late", "down")
	out, status = v.reconnect(t, "retry", "late", "--directory", v.dir)
	if status != 0 || !strings.HasSuffix(out, v.dir+"\tlate\tconnected\t-\n") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit status %d: %s", status, out)
	}
	v.wants("late", "connected")
	if n := w.starts("late"); n != starts+1 {
		t.Errorf("its namesake was started %d times", n-starts)
	}
	if n := u.starts("a"); n != 0 {
		t.Errorf("%d processes were started in an unused directory", n)
	}

	// What is left when OpenCode is gone is nobody's.
	a.server.Stop()
	<-a.server.Ended()
	if s := a.seen(t); len(s.Processes) != 0 {
		t.Errorf("after its end: %+v", s)
	}
	if left, err := filepath.Glob(filepath.Join(a.dataDir, "mcp-reconnect-state/instances/*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestSteeredAfterItsDirectoryWasRemoved: somebody removes a directory of ours while
// OpenCode runs, or both, and installs anew.
func TestSteeredAfterItsDirectoryWasRemoved(t *testing.T) {
	steeredWithoutDirectories(t, launch(t, patient))
}

func steeredWithoutDirectories(t *testing.T, a *app) {
	w, unused := a.project(t).stdios("a"), a.project(t).stdios("b")
	unused.post("/session")
	w.prompt("hello")
	w.connects("a")
	pluginDir, stateDir := filepath.Join(a.dataDir, "mcp-reconnect"), filepath.Join(a.dataDir, "mcp-reconnect-state")
	// A copy in its place, as a backup leaves it.
	for _, cmd := range []*exec.Cmd{exec.Command("mv", stateDir, stateDir+".old"), exec.Command("cp", "-a", stateDir+".old", stateDir), exec.Command("rm", "-r", stateDir+".old")} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	w.prompt("hello again") // at its latest, the next status finds out
	for _, what := range []string{"pause", "resume"} {
		if out, status := w.reconnect(t, what); status != 0 {
			t.Errorf("in a copy: %s: exit status %d: %s", what, status, out)
		}
	}
	for _, removed := range [][]string{{stateDir}, {filepath.Join(stateDir, "instances")}, {pluginDir}, {pluginDir, stateDir}, {a.dataDir}} {
		for _, dir := range removed {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(pluginDir); err != nil {
			if _, err := os.Stat(stateDir); len(removed) > 1 && err == nil {
				t.Error("the plugin made the directory of its state anew, though it was uninstalled")
			}
			merged(t, a.environ)
		}
		w.eventually("status tells of both directories", func() bool { return w.phase("a") == "connected" && unused.line("-") != nil })
		for _, what := range []string{"pause", "resume"} {
			out, status := w.reconnect(t, what)
			if status != 0 || !strings.HasSuffix(out, "directories in use: 1\n") {
				t.Errorf("without %q: %s: exit status %d: %s", removed, what, status, out)
			}
			if paused := a.paused(t, w.dir); paused != (what == "pause") {
				t.Errorf("without %q: after %s paused is %t", removed, what, paused)
			}
		}
	}
	a.installed = a.pluginFiles(t)
}

// paused reports whether the plugin in a directory says that it is.
func (a *app) paused(t testing.TB, dir string) bool {
	t.Helper()
	for _, p := range a.seen(t).Processes {
		for _, i := range p.Instances {
			if i.Directory == dir {
				return i.Paused
			}
		}
	}
	t.Errorf("status does not tell of %s", dir)
	return false
}
