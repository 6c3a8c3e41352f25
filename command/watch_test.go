package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// TestWatchOptions: what --url and --listen name is what is watched and answered for.
func TestWatchOptions(t *testing.T) {
	flags := newWatchFlags()
	flags.url.Set("http://localhost:4096/, http://LOCALHOST:4096")
	flags.url.Set("https://example.org")
	flags.listen.Set("LOCALHOST:0")
	o, err := flags.options(System{Environ: []string{"OPENCODE_SERVER_USERNAME=ann", "OPENCODE_SERVER_PASSWORD=s3cret", "MCP_RECONNECT_DATA_DIR=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	want := []watch.Target{
		{URL: "http://localhost:4096", Username: "ann", Password: "s3cret", Keep: true},
		{URL: "https://example.org", Username: "ann", Password: "s3cret", Keep: true},
	}
	if diff := cmp.Diff(want, o.targets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"LOCALHOST"}, o.serve.Hosts); diff != "" {
		t.Error(diff)
	}
}

// TestLineQueue: who reads no lines stops nobody, and has the newest ones later.
func TestLineQueue(t *testing.T) {
	read, write := io.Pipe() // writing waits for reading
	q := newLineQueue(write)
	const all = maxLines + 50
	for n := range all {
		q.add(fmt.Sprintf("line %d\x1b", n))
	}
	q.close(time.Millisecond) // does not wait for ever
	go func() {
		<-q.written
		write.Close()
	}()
	next := 0
	for lines := bufio.NewScanner(read); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "mcp-reconnect: %d lines were dropped", &n); err == nil {
			next += n
			continue
		}
		if want := fmt.Sprintf(`mcp-reconnect: line %d\x1b`, next); lines.Text() != want {
			t.Fatalf("%q instead of %q", lines.Text(), want)
		}
		next++
	}
	if next != all {
		t.Errorf("%d lines are told of, and not %d", next, all)
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]string{
		"info": "mcp-reconnect: URL: told\nmcp-reconnect: URL: warned\nmcp-reconnect: URL: DIR: failed\n",
		"warn": "mcp-reconnect: URL: warned\nmcp-reconnect: URL: DIR: failed\n",
		"none": "",
	} {
		var out strings.Builder
		q := newLineQueue(&out)
		log := slog.New(&lineHandler{queue: q, level: logLevels[level]}).With("url", "URL")
		log.Debug("no")
		log.Info("told")
		log.Warn("warned")
		log.Error("failed", "directory", "DIR", "stack", "not shown")
		q.close(time.Minute)
		if got := out.String(); got != want {
			t.Errorf("%s:\n%s", level, got)
		}
	}
}

// A stalled writer takes nothing before it is released.
type stalled struct {
	released chan struct{}
	text     strings.Builder
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.released
	return s.text.Write(p)
}

// TestPrintFinishes: what was told before the end is written, if it is taken.
func TestPrintFinishes(t *testing.T) {
	w, err := watch.New(watch.Options{Policy: plugin.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	slow, stuck := &stalled{released: make(chan struct{})}, &stalled{released: make(chan struct{})}
	_, end := context.WithCancelCause(context.Background())
	finish := watchOptions{json: true}.print(w, System{Stdout: slow}, end)
	for n := range 100 {
		w.Relay(watch.Event{Type: watch.StateChanged, Attempt: n, Time: time.Now(), Origin: "another/Watcher"})
	}
	time.AfterFunc(10*time.Millisecond, func() { close(slow.released) })
	finish(time.Minute)
	if n := strings.Count(slow.text.String(), "\n"); n != 100 {
		t.Errorf("%d events are written", n)
	}

	defer close(stuck.released)
	finish = watchOptions{json: true}.print(w, System{Stdout: stuck}, end)
	w.Relay(watch.Event{Type: watch.StateChanged, Time: time.Now(), Origin: "another/Watcher"})
	finish(time.Millisecond)
}

// TestPrintEnds: without a reader, or on a full disk, it is over.
func TestPrintEnds(t *testing.T) {
	w, err := watch.New(watch.Options{Policy: plugin.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	read, write := io.Pipe()
	full := errors.New("no space left")
	read.CloseWithError(full)
	ctx, end := context.WithCancelCause(context.Background())
	finish := watchOptions{}.print(w, System{Stdout: write}, end)
	w.Relay(watch.Event{Type: watch.ToolsChanged, Time: time.Now()})
	finish(time.Minute)
	if err := context.Cause(ctx); !errors.Is(err, full) || !strings.Contains(err.Error(), "writing standard output") {
		t.Error(err)
	}
}

func TestEventLines(t *testing.T) {
	at := time.Date(2026, 11, 29, 10, 25, 32, 117e6, time.Local)
	const origin = "desk\x1b/4711/ABCDEFGH"
	for _, test := range []struct {
		event watch.Event
		want  string
	}{
		{watch.Event{Type: watch.ToolsChanged, URL: "http://x", Directory: "/p", Server: "git\x1b[2Jhub"}, `  http://x  /p  git\x1b[2Jhub  tools changed`},
		{watch.Event{Type: watch.StateChanged, URL: "http://x", Directory: "/p", Server: "github", To: "trying", Attempt: 2, Error: "closed"}, "  http://x  /p  github  unknown → trying, tries: 2  (closed)"},
		{watch.Event{Type: watch.StateChanged, URL: "http://x", Directory: "/p", Server: "github", From: "trying", To: "connected", Attempt: 2, Origin: origin}, `  http://x  /p  github  trying → connected  (from desk\x1b)`},
		{watch.Event{Type: watch.TargetChanged, URL: "http://x", From: "connected", To: "waiting", Error: "closed", Origin: origin}, `  http://x  connected → waiting  (closed)  (from desk\x1b)`},
		{watch.Event{Type: watch.TargetChanged, URL: "http://x", To: "waiting"}, ""},
		{watch.Event{Type: watch.Missed, Error: "7 events are lost"}, "  7 events are lost"},
	} {
		test.event.Time = at
		want := test.want
		if want != "" {
			want = "2026-11-29 10:25:32" + want + "\n"
		}
		if got := (watchOptions{}).line(test.event); got != want {
			t.Errorf("%q, and not %q", got, want)
		}
	}
	want := `{"type":"missed","server":"","directory":"","url":"","from":"","to":"","attempt":0,"error":"7 events are lost","time":"2026-11-29T10:25:32.117Z"}` + "\n"
	if got := (watchOptions{json: true}).line(watch.Event{Type: watch.Missed, Error: "7 events are lost", Time: time.Date(2026, 11, 29, 10, 25, 32, 117e6, time.UTC)}); got != want {
		t.Errorf("%s", got)
	}
}
