//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fakeOpenCode is enough of an OpenCode 1 for the command: one directory is in use, whose
// server is switched off after the first look.
func fakeOpenCode(t *testing.T) *httptest.Server {
	t.Helper()
	var looks atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			status := "connected"
			if looks.Add(1) > 1 {
				status = "disabled"
			}
			fmt.Fprintf(w, `{"github":{"status":%q}}`, status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\"}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// TestWatchTellsPeople: what happens goes to standard output, what is wrong to standard
// error, and a closed pipe ends it quietly.
func TestWatchTellsPeople(t *testing.T) {
	server := fakeOpenCode(t)
	cmd := exec.Command("sh", "-c", `mcp-reconnect watch --url "$0" --url http://127.0.0.1:1 --data-dir "$1" | head -n 1`, server.URL, t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if want := "  " + server.URL + "  /home/ann/project  github  unknown → connected\n"; err != nil || !strings.HasSuffix(line, want) {
		t.Errorf("%q, %v", line, err)
	}
	server.CloseClientConnections() // it looks again, and writes once more
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"mcp-reconnect: " + server.URL + ": connected\n",
		"mcp-reconnect: http://127.0.0.1:1: nothing listens there: connection refused\n",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error does not say %q:\n%s", want, stderr.String())
		}
	}
}

// TestWatchObeysPause: it is told as the plugins are.
func TestWatchObeysPause(t *testing.T) {
	data := t.TempDir()
	mcpReconnect := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("mcp-reconnect", append(args, "--data-dir", data)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mcpReconnect("env")
	mcpReconnect("pause")
	var looks, connects atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "POST":
			connects.Add(1)
		case r.URL.Path == "/mcp":
			looks.Add(1)
			io.WriteString(w, `{"github":{"status":"failed"}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\"}}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	cmd := exec.Command("mcp-reconnect", "watch", "--url", server.URL, "--data-dir", data, "--poll-interval", "1s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(os.Interrupt)
	eventually(t, "it looks", func() bool { return looks.Load() >= 3 })
	if n := connects.Load(); n != 0 {
		t.Errorf("connected %d times during a pause", n)
	}
	mcpReconnect("resume")
	eventually(t, "it goes on", func() bool { return connects.Load() > 0 })
}

// TestWatchListens asks the program itself for its states, with and without the token,
// and has it paused and interrupted.
func TestWatchListens(t *testing.T) {
	server, data := fakeOpenCode(t), t.TempDir()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken-of-16-chars\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("mcp-reconnect", "watch", "--url", server.URL, "--format", "json", "--data-dir", data, "--listen", "127.0.0.1:0", "--token-file", token)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	url, ok := strings.CutPrefix(lines.Text(), "mcp-reconnect: listening at ")
	if !ok {
		t.Fatal(lines.Text())
	}
	go io.Copy(io.Discard, pipe)
	if res, err := http.Get(url + "/states"); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %v, %v", res, err)
	}
	var states struct {
		Targets []struct {
			URL, State  string
			Directories []struct{ Directory string }
		}
	}
	for deadline := time.Now().Add(patience); len(states.Targets) == 0 || len(states.Targets[0].Directories) == 0; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(url + "/states?token=t0ken-of-16-chars")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(res.Body).Decode(&states); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v: %+v", err, states)
		}
		res.Body.Close()
	}
	if got := states.Targets[0]; got.URL != server.URL || got.State != "connected" || got.Directories[0].Directory != "/home/ann/project" {
		t.Errorf("%+v", got)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
