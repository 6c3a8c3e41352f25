package publish_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/publish"
)

// A redisServer is a real one, which can be killed and started again.
type redisServer struct {
	t    *testing.T
	port string
	cmd  *exec.Cmd
}

const password = "s3cret"

func newRedis(t *testing.T) *redisServer {
	t.Helper()
	testenv.Program(t, "redis-server")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return &redisServer{t: t, port: port}
}

func (r *redisServer) start() {
	r.t.Helper()
	r.cmd = exec.Command("redis-server", "--port", r.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--requirepass", password, "--dir", r.t.TempDir())
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	cmd := r.cmd
	r.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func (r *redisServer) kill() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

func (r *redisServer) url() string { return "redis://:" + password + "@127.0.0.1:" + r.port + "/0" }

func (r *redisServer) dial() redis.Conn {
	r.t.Helper()
	conn, err := redis.DialURL(r.url())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A publishing is a Watcher that publishes, and the events that it tells.
type publishing struct {
	t      *testing.T
	w      *watch.Watcher
	logged *lockedText
	mu     sync.Mutex
	events []watch.Event
}

func publishes(t *testing.T, url string) *publishing {
	t.Helper()
	p := &publishing{t: t, logged: &lockedText{}}
	log := slog.New(slog.NewTextHandler(p.logged, nil))
	var err error
	if p.w, err = watch.New(watch.Options{Policy: plugin.DefaultPolicy(), Log: log}); err != nil {
		t.Fatal(err)
	}
	p.w.Subscribe(func(e watch.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	})
	publisher, err := publish.New(p.w, url, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { publisher.Close(); p.w.Close() })
	return p
}

// happens has a target of this Watcher change its state, once.
func (p *publishing) happens(name string) {
	p.t.Helper()
	// Nothing listens there: it goes from connecting to waiting, and is removed.
	if _, err := p.w.Connect(watch.Target{URL: "http://127.0.0.1:1/" + name}); err != nil {
		p.t.Fatal(err)
	}
	p.eventually(name+" is told at home", func(e watch.Event) bool { return strings.HasSuffix(e.URL, name) && e.Origin == "" })
	p.w.Disconnect("http://127.0.0.1:1/" + name)
}

func (p *publishing) count(holds func(watch.Event) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, e := range p.events {
		if holds(e) {
			n++
		}
	}
	return n
}

func (p *publishing) eventually(what string, holds func(watch.Event) bool) {
	p.t.Helper()
	eventually(p.t, what, func() bool { return p.count(holds) > 0 })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// reaches has something happen at one Watcher until another one tells of it: what
// happens while Redis is away is lost there.
func (p *publishing) reaches(other *publishing, name string) {
	p.t.Helper()
	n := 0
	eventually(p.t, name+" is told elsewhere", func() bool {
		n++
		p.happens(fmt.Sprint(name, n))
		return other.count(func(e watch.Event) bool { return strings.Contains(e.URL, name) && e.Origin != "" }) > 0
	})
}

func TestWatchersSeeEachOther(t *testing.T) {
	server := newRedis(t)
	a, b := publishes(t, server.url()), publishes(t, server.url())
	a.happens("alone") // Redis is not there yet
	eventually(t, "it is said that Redis is away", func() bool { return strings.Contains(a.logged.String(), "redis is away") })
	server.start()
	a.reaches(b, "first")
	b.reaches(a, "second")

	// What others get.
	client := server.dial()
	channels := redis.PubSubConn{Conn: server.dial()}
	if err := channels.Subscribe("mcp:tools_changed", "mcp:state"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err, ok := channels.Receive().(error); ok {
			t.Fatal(err)
		}
	}
	a.happens("third")
	for got := (redis.Message{}); !strings.Contains(string(got.Data), "third"); {
		var ok bool
		if got, ok = channels.ReceiveWithTimeout(time.Minute).(redis.Message); !ok {
			t.Fatal("nothing is published")
		}
		var e watch.Event
		if err := json.Unmarshal(got.Data, &e); err != nil || got.Channel != "mcp:state" || e.Type != watch.TargetChanged || e.To == "" || e.Time.IsZero() {
			t.Errorf("%v: %s: %s", err, got.Channel, got.Data)
		}
	}

	// Events of others that are none do no harm.
	for _, payload := range []string{"", "{", "[]", `{"type":"other"}`, `{"type":7}`, `{"type":"tools_changed","server":"elsewhere","origin":"else/where"}`} {
		if _, err := client.Do("PUBLISH", "mcp:tools_changed", payload); err != nil {
			t.Fatal(err)
		}
	}
	a.eventually("the last one is told", func(e watch.Event) bool { return e.Server == "elsewhere" })
	if n := a.count(func(e watch.Event) bool { return e.Origin != "" && e.Type == "other" || e.Type == "" }); n != 0 {
		t.Errorf("%d events that are none were told", n)
	}

	// What a connection's end kept from Redis is sent through the next one.
	if _, err := client.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		t.Fatal(err)
	}
	a.happens("cut")
	b.eventually("it is told elsewhere", func(e watch.Event) bool { return strings.HasSuffix(e.URL, "cut") && e.To == watch.Waiting })
	eventually(t, "it is back", func() bool { return strings.Count(a.logged.String(), "redis is back") == 2 })

	// Killed, and started again.
	server.kill()
	a.happens("fourth")
	b.happens("fifth")
	eventually(t, "it is said again", func() bool { return strings.Count(a.logged.String(), "redis is away") == 3 })
	server.start()
	a.reaches(b, "sixth")
	b.reaches(a, "seventh")
	eventually(t, "it is said that Redis is back", func() bool { return strings.Count(a.logged.String(), "redis is back") == 3 })

	for _, p := range []*publishing{a, b} {
		if n := p.count(func(e watch.Event) bool { return strings.HasSuffix(e.URL, "third") && e.To == watch.Waiting }); n != 1 {
			t.Errorf("told %d times", n)
		}
		if strings.Contains(p.logged.String(), password) {
			t.Errorf("the password is told:\n%s", p.logged)
		}
	}
}

// TestRelayedEventsAreNotSentOn: they would go round for ever.
func TestRelayedEventsAreNotSentOn(t *testing.T) {
	server := newRedis(t)
	server.start()
	p, other := publishes(t, server.url()), publishes(t, server.url())
	p.reaches(other, "ready")
	p.w.Relay(watch.Event{Type: watch.ToolsChanged, Server: "relayed", Origin: "elsewhere"})
	p.reaches(other, "done")
	if n := other.count(func(e watch.Event) bool { return e.Server == "relayed" }); n != 0 {
		t.Errorf("sent on %d times", n)
	}
}

// TestToolsChannel: what is announced there was announced by an OpenCode, and confirmed.
func TestToolsChannel(t *testing.T) {
	changes := make(chan string)
	opencode := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			fmt.Fprint(w, `{"github":{"status":"connected"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			w.(http.Flusher).Flush()
			select {
			case kind := <-changes:
				fmt.Fprintf(w, "data: {\"directory\":\"/p\",\"payload\":{\"type\":%q,\"properties\":{\"server\":\"github\"}}}\n\n", kind)
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer opencode.Close()
	server := newRedis(t)
	server.start()
	p, other := publishes(t, server.url()), publishes(t, server.url())
	p.reaches(other, "ready")
	if _, err := p.w.Connect(watch.Target{URL: opencode.URL}); err != nil {
		t.Fatal(err)
	}
	defer p.w.Disconnect(opencode.URL)
	changes <- "message.updated"
	changes <- "mcp.tools.changed"
	other.eventually("it is announced elsewhere", func(e watch.Event) bool {
		return e.Origin != "" && e.Type == watch.ToolsChanged && e.Server == "github" && e.Directory == "/p" && e.URL == opencode.URL
	})
}

func TestBadURL(t *testing.T) {
	w, err := watch.New(watch.Options{Policy: plugin.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, url := range []string{"", "http://x", "redis://:s3cret@[", "redis://:s3cret@host:port"} {
		if _, err := publish.New(w, url, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
