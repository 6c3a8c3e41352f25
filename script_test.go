package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata/script")

// TestScripts runs the sessions in testdata/script: the whole program, as
// somebody at a shell sees it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_DATA_HOME", env.WorkDir+"/data")
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("schema", "$schema") // cmpenv would expand it otherwise
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "running": running},
	})
}

// exits runs a command and wants an exit status: exits STATUS COMMAND [ARG…].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// running lets a plugin in a running process, which is this test's, have written a state
// file into a data directory: running DIR FILE, where FILE has what differs from that
// of an instance in use, without servers.
func running(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: running DIR FILE")
	}
	ts.Check(saveState(ts.MkAbs(args[0]), os.Expand(ts.ReadFile(args[1]), ts.Getenv)))
	ts.Setenv("RUNNING", strconv.Itoa(os.Getpid()))
}

func saveState(dataDir, differences string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	self, _ := process.Find(os.Getpid())
	state := map[string]any{"format": 1, "version": "0.1.0", "pid": os.Getpid(), "host": host, "space": process.Space(), "began": self.Began, "url": nil,
		"started": true, "paused": false, "known": true, "retriedAt": 0, "servers": []any{}}
	if err := json.Unmarshal([]byte(differences), &state); err != nil {
		return err
	}
	content, err := json.Marshal(state)
	if err != nil {
		return err
	}
	dir := filepath.Join(dataDir, "mcp-reconnect-state", "instances")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(fmt.Sprint(state["directory"])))
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%x.json", os.Getpid(), hash[:8])), content, 0o600)
}

// TestStatusWatches: a line of JSON at once, and one for each change, until it is interrupted.
func TestStatusWatches(t *testing.T) {
	data := t.TempDir()
	cmd := exec.Command("mcp-reconnect", "status", "--watch", "--format", "json", "--data-dir", data)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for n, directory := range []string{"", "/one", "/two"} {
		if directory != "" {
			if err := saveState(data, `{"directory":"`+directory+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if got := strings.Count(lines.Text(), `"directory":`); got != n || !json.Valid(lines.Bytes()) {
			t.Errorf("line %d tells of %d directories: %s", n, got, lines.Text())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("and then %s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStatusWatchEndsWithItsReader: a closed pipe is a quiet end.
func TestStatusWatchEndsWithItsReader(t *testing.T) {
	data := t.TempDir()
	if err := saveState(data, `{"directory":"/one"}`); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `mcp-reconnect status --watch --format json --data-dir "$0" | head -n 1`, data)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(pipe); !lines.Scan() {
		t.Fatal(lines.Err())
	}
	if err := saveState(data, `{"directory":"/two"}`); err != nil { // it writes once more
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, stderr.String())
	}
}
