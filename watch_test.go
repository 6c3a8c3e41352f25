//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
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
	if err := os.WriteFile(token, []byte("t0ken-of-16-characters\r\n"), 0o600); err != nil {
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
		res, err := http.Get(url + "/states?token=t0ken-of-16-characters")
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

// A watchRun is a `mcp-reconnect watch` that runs.
type watchRun struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr testenv.Text
	ended          chan error // its end
}

// watchWith starts one, which ends with the test. The command can be changed before it starts.
func watchWith(t *testing.T, change func(*exec.Cmd), args ...string) *watchRun {
	t.Helper()
	r := &watchRun{t: t, cmd: exec.Command("mcp-reconnect", append([]string{"watch", "--data-dir", t.TempDir()}, args...)...), ended: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env = &r.stdout, &r.stderr, os.Environ()
	if change != nil {
		change(r.cmd)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.ended <- r.cmd.Wait()
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-gone
		if t.Failed() {
			t.Logf("%v: it printed:\n%s%s", args, &r.stdout, &r.stderr)
		}
	})
	return r
}

// end waits until it has ended.
func (r *watchRun) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.t.Fatal("it does not end")
		return nil
	}
}

// terminates has it end by SIGTERM, which is no failure.
func (r *watchRun) terminates() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
}

func (r *watchRun) says(o *testenv.Text, text string) {
	r.t.Helper()
	eventually(r.t, "it says "+text, func() bool { return strings.Contains(o.String(), text) })
}

// address is where it listens.
func (r *watchRun) address() string {
	r.t.Helper()
	address := regexp.MustCompile(`listening at (http://\S+)\n`)
	r.says(&r.stderr, "listening at ")
	eventually(r.t, "it says where", func() bool { return address.MatchString(r.stderr.String()) })
	return address.FindStringSubmatch(r.stderr.String())[1]
}

func environ(variables ...string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, variables...) }
}

// TestWatchAdmits: who is to read does, and OpenCode gets the name and the password.
func TestWatchAdmits(t *testing.T) {
	opencode := fakeOpenCode(t)
	asked := opencode.Config.Handler
	opencode.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "ann" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked.ServeHTTP(w, r)
	})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("\ufeffs3cret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := watchWith(t, environ("OPENCODE_SERVER_USERNAME=ann"), "--url", opencode.URL, "--password-file", file,
		"--listen", "127.0.0.1:0", "--allow-origin", "http://a.example,http://front.example")
	watch.says(&watch.stderr, opencode.URL+": connected\n")
	for origin, want := range map[string]int{"http://front.example": http.StatusOK, "http://else.example": http.StatusForbidden} {
		req, err := http.NewRequest("GET", watch.address()+"/states", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != want || (allowed == origin) != (want == http.StatusOK) {
			t.Errorf("%s: %s, %q", origin, res.Status, allowed)
		}
	}
	watch.terminates()
	if text := watch.stdout.String() + watch.stderr.String(); strings.Contains(text, "s3cret") {
		t.Errorf("the password is told: %s", text)
	}
}

// TestWatchPublishes: another watch tells what this one publishes, and whose it is.
func TestWatchPublishes(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	server := exec.Command(testenv.Program(t, "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	listening := func() bool {
		conn, err := redis.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		defer conn.Close()
		subscribers, err := redis.IntMap(conn.Do("PUBSUB", "NUMSUB", "mcp:state"))
		return err == nil && subscribers["mcp:state"] == 1
	}
	url := "redis://127.0.0.1:" + port
	other := watchWith(t, environ("MCP_RECONNECT_PUBLISH="+url), "--url", "http://127.0.0.1:1")
	eventually(t, "the other one listens", listening)
	opencode := fakeOpenCode(t)
	watchWith(t, nil, "--url", opencode.URL, "--publish", url)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	other.says(&other.stdout, "  "+opencode.URL+"  connecting → connected  (from "+host+")\n")
	other.says(&other.stdout, "  "+opencode.URL+"  /home/ann/project  github  unknown → connected  (from "+host+")\n")
}

// failingOpenCode has a server of some name that fails always. It counts the looks, and the tries.
func failingOpenCode(t *testing.T, name string) (opencode *httptest.Server, looks, tries *atomic.Int32) {
	t.Helper()
	looks, tries = new(atomic.Int32), new(atomic.Int32)
	status, err := json.Marshal(map[string]map[string]string{name: {"status": "failed", "error": "exit\x1b[2J status 1"}})
	if err != nil {
		t.Fatal(err)
	}
	opencode = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "POST":
			tries.Add(1)
			http.Error(w, "no\x1b[2J", http.StatusInternalServerError)
		case r.URL.Path == "/mcp":
			looks.Add(1)
			w.Write(status)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\"}}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() {
		opencode.CloseClientConnections()
		opencode.Close()
	})
	return opencode, looks, tries
}

// TestWatchEscapes: the name of a server steers no terminal.
func TestWatchEscapes(t *testing.T) {
	opencode, _, _ := failingOpenCode(t, "git\x1b[2Jhub")
	watch := watchWith(t, nil, "--url", opencode.URL, "--max-attempts", "1") // then it is given up, which is said
	watch.says(&watch.stdout, `  git\x1b[2Jhub  waiting → trying`)
	watch.says(&watch.stderr, `git\x1b[2Jhub`)
	if text := watch.stdout.String() + watch.stderr.String(); strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// TestWatchObeysRetry: what was asked for before it started was asked of others.
func TestWatchObeysRetry(t *testing.T) {
	data := t.TempDir()
	retry := func() {
		t.Helper()
		if out, err := exec.Command("mcp-reconnect", "retry", "--wait", "0s", "--data-dir", data).CombinedOutput(); err != nil || !strings.Contains(string(out), "asked, and not waited for") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := exec.Command("mcp-reconnect", "env", "--data-dir", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := saveState(data, `{"directory":"/elsewhere"}`); err != nil { // there must be a plugin to ask
		t.Fatal(err)
	}
	retry()
	opencode, looks, tries := failingOpenCode(t, "github")
	watchWith(t, nil, "--url", opencode.URL, "--data-dir", data, "--first-delay", "1h", "--poll-interval", "1s")
	eventually(t, "it looks", func() bool { return looks.Load() >= 3 })
	if n := tries.Load(); n != 0 {
		t.Errorf("tried %d times", n)
	}
	retry()
	eventually(t, "it tries", func() bool { return tries.Load() > 0 })
}

// busyOpenCode has 20 directories with 500 servers, which are others at each look, and looks
// are wanted without end.
func busyOpenCode(t *testing.T) (opencode *httptest.Server, looks *atomic.Int32) {
	t.Helper()
	looks = new(atomic.Int32)
	var answers [2][]byte
	for n, status := range []string{"connected", "disabled"} {
		servers := map[string]map[string]string{}
		for n := range 500 {
			servers[fmt.Sprint("server", n)] = map[string]string{"status": status}
		}
		var err error
		if answers[n], err = json.Marshal(servers); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	looksAt := map[string]int{} // directory ->
	opencode = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			looks.Add(1)
			mu.Lock()
			n := looksAt[r.URL.RawQuery]
			looksAt[r.URL.RawQuery]++
			mu.Unlock()
			w.Write(answers[n%2])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for kind := "message.updated"; ; kind = "mcp.tools.changed" {
			for n := range 20 {
				fmt.Fprintf(w, "data: {\"directory\":\"/home/ann/%d\",\"payload\":{\"type\":%q,\"properties\":{\"server\":\"server1\"}}}\n\n", n, kind)
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(func() {
		opencode.CloseClientConnections()
		opencode.Close()
	})
	return opencode, looks
}

// fullPipe is a pipe that takes nothing more until it is read.
func fullPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	if err := write.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := write.Write(bytes.Repeat([]byte("\n"), 4<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return read, write
}

// TestWatchWithoutReaders: who stops reading stops nothing, is told what was lost, and is
// not waited for at the end.
func TestWatchWithoutReaders(t *testing.T) {
	for format, missed := range map[string]string{"json": `{"type":"missed",`, "text": "  "} {
		t.Run(format, func(t *testing.T) {
			stdout, stdoutEnd := fullPipe(t)
			_, stderrEnd := fullPipe(t)
			opencode, looks := busyOpenCode(t)
			watch := watchWith(t, func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = stdoutEnd, stderrEnd }, "--url", opencode.URL, "--format", format)
			eventually(t, "it goes on", func() bool { return looks.Load() >= 60 }) // thousands of events more than are kept
			stdoutEnd.Close()
			lines := bufio.NewScanner(stdout)
			lost := regexp.MustCompile(`[0-9]+ events are lost`)
			for !lost.MatchString(lines.Text()) {
				if !lines.Scan() {
					t.Fatal("it does not say that events are lost")
				}
			}
			if !strings.Contains(lines.Text(), missed) {
				t.Error(lines.Text())
			}
			watch.terminates()
		})
	}
}

// TestWatchIsKilled: a second signal does not wait.
func TestWatchIsKilled(t *testing.T) {
	eventually(t, "a second signal kills it, if it comes in time", func() bool {
		_, stdoutEnd := fullPipe(t)
		opencode, looks := busyOpenCode(t)
		watch := watchWith(t, func(cmd *exec.Cmd) { cmd.Stdout = stdoutEnd }, "--url", opencode.URL, "--listen", "127.0.0.1:0")
		address := strings.TrimPrefix(watch.address(), "http://")
		eventually(t, "it looks", func() bool { return looks.Load() >= 30 })
		watch.cmd.Process.Signal(syscall.SIGTERM)
		eventually(t, "it begins to end", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		watch.cmd.Process.Signal(syscall.SIGTERM)
		err := watch.end()
		return err != nil && err.Error() == "signal: terminated"
	})
}

// TestWatchFails: what ends it is said, also where nothing else is to be, with its source.
func TestWatchFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	opencode := fakeOpenCode(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.Skip(t, "there is no full disk: %v", err)
	}
	defer full.Close()
	for want, change := range map[string]func(*exec.Cmd){
		"mcp-reconnect: MCP_RECONNECT_LISTEN: listen tcp4 " + taken.Addr().String() + ": bind: address already in use\n": environ("MCP_RECONNECT_LISTEN=" + taken.Addr().String()),
		"mcp-reconnect: writing standard output: write /dev/stdout: no space left on device\n":                           func(cmd *exec.Cmd) { cmd.Stdout = full },
	} {
		watch := watchWith(t, change, "--url", opencode.URL, "--log", "none", "--format", "json")
		var exit *exec.ExitError
		if err := watch.end(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Error(err)
		}
		if text := watch.stderr.String(); text != want {
			t.Errorf("%q, and not %q", text, want)
		}
	}
}

// TestTwoWatches: of two that look after the same directory, one connects its servers.
func TestTwoWatches(t *testing.T) {
	var connects, streams atomic.Int32
	both := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			connects.Add(1)
			fmt.Fprint(w, "true")
		case r.URL.Path == "/mcp":
			status := "failed"
			if connects.Load() > 0 {
				status = "connected"
			}
			fmt.Fprintf(w, `{"github":{"status":%q}}`, status)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			if streams.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
				io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\"}}\n\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	data := t.TempDir()
	var ended sync.WaitGroup
	defer ended.Wait()
	for range 2 {
		// Enough time for the other one's file to be there, however slow this machine is.
		cmd := exec.Command("mcp-reconnect", "watch", "--url", server.URL, "--format", "json", "--data-dir", data, "--jitter", "0", "--first-delay", "5s", "--poll-interval", "1s")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Signal(os.Interrupt)
		back := make(chan bool, 1)
		ended.Go(func() {
			defer cmd.Wait()
			for lines := bufio.NewScanner(pipe); lines.Scan(); {
				if strings.Contains(lines.Text(), `"type":"tools_changed"`) {
					select {
					case back <- true:
					default:
					}
				}
			}
		})
		defer func() {
			select {
			case <-back:
			case <-time.After(patience):
				t.Error("one of them does not tell that the server is back")
			}
			if n := connects.Load(); n != 1 {
				t.Errorf("connected %d times", n)
			}
		}()
	}
}

// TestRetryWakesAWatch: of an OpenCode that cannot be reached no directory is known, and
// nobody has installed the plugin.
func TestRetryWakesAWatch(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	data := t.TempDir()
	watch := watchWith(t, nil, "--data-dir", data, "--url", "http://"+address, "--max-attempts", "1")
	eventually(t, "it has given up", func() bool { return strings.Contains(watch.stderr.String(), "given up after 1 try, and") })
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	defer server.CloseClientConnections()
	// Whatever it says of directories, of which there are none.
	if out, err := exec.Command("mcp-reconnect", "retry", "--data-dir", data).CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Errorf("retry: %v: %s", err, out)
	}
	if out, err := exec.Command("mcp-reconnect", "pause", "--data-dir", data).CombinedOutput(); err != nil {
		t.Errorf("pause: %v: %s", err, out)
	}
	eventually(t, "it is connected", func() bool { return strings.Contains(watch.stderr.String(), address+": connected\n") })
}

// TestWatchWithClosedPipes: that of standard output ends it in good order, with nothing left
// behind; that of standard error is nothing to end for.
func TestWatchWithClosedPipes(t *testing.T) {
	server, data := fakeOpenCode(t), t.TempDir()
	closed := func(t *testing.T) *os.File {
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		t.Cleanup(func() { w.Close() })
		return w
	}
	deaf := watchWith(t, func(cmd *exec.Cmd) { cmd.Stderr = closed(t) }, "--data-dir", data, "--url", server.URL, "--url", "http://127.0.0.1:1", "--format", "json")
	eventually(t, "it goes on", func() bool { return strings.Contains(deaf.stdout.String(), `"server":"github"`) })
	deaf.terminates()
	mute := watchWith(t, func(cmd *exec.Cmd) { cmd.Stdout = closed(t) }, "--data-dir", data, "--url", server.URL)
	if err := mute.end(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(data, "mcp-reconnect-state", "instances")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
