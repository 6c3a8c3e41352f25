package publish

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
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
	t.Parallel() // most of the time is waiting
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
	eventually(r.t, "Redis listens", func() bool {
		conn, err := redis.DialURL(r.url())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
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

// A publishing is a Watcher that publishes, and the events that it tells.
type publishing struct {
	t         *testing.T
	w         *watch.Watcher
	publisher *Publisher
	logged    *testenv.Text
	mu        sync.Mutex
	events    []watch.Event
}

func publishes(t *testing.T, url string) *publishing {
	t.Helper()
	return publishesWithin(t, url, limit)
}

func publishesWithin(t *testing.T, url string, limit time.Duration) *publishing {
	t.Helper()
	p := &publishing{t: t, logged: &testenv.Text{}}
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
	p.publisher = newPublisher(p.w, url, log, limit)
	t.Cleanup(func() { p.publisher.Close(); p.w.Close() })
	return p
}

// says waits until something was said so often.
func (p *publishing) says(text string, times int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q is said %d times", text, times), func() bool { return p.said(text) >= times })
}

func (p *publishing) said(text string) int { return strings.Count(p.logged.String(), text) }

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
	a.says("redis is away", 1)
	server.start()
	a.reaches(b, "first")
	b.reaches(a, "second")

	// Events of others that are none do no harm.
	client := server.dial()
	event := func(differences string) string {
		return `{"type":"tools_changed","server":"refused","time":"2026-11-29T10:25:32Z","origin":"else/where"` + differences + `}`
	}
	for _, payload := range []string{"", "{", "[]", "{}", event("") + "x",
		event(`,"type":"other"`), event(`,"type":"missed"`), event(`,"type":7`), event(`,"time":null`) + "]",
		`{"type":"tools_changed","server":"refused","origin":"without/a/time"}`,
		event(`,"origin":""`), event(`,"origin":"\u001b[2J"`), event(`,"origin":"` + strings.Repeat("x", 201) + `"`),
		event(`,"error":"` + strings.Repeat("x", 8<<10) + `"`),
		event(`,"server":"elsewhere"`),
	} {
		if _, err := client.Do("PUBLISH", "mcp:tools_changed", payload); err != nil {
			t.Fatal(err)
		}
	}
	a.eventually("the last one is told", func(e watch.Event) bool { return e.Server == "elsewhere" && e.Origin == "else/where" })
	if n := a.count(func(e watch.Event) bool { return e.Server == "refused" || e.Type == "" }); n != 0 {
		t.Errorf("%d events that are none were told", n)
	}

	// What a connection's end kept from Redis is sent through the next one.
	if _, err := client.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		t.Fatal(err)
	}
	a.happens("cut")
	b.eventually("it is told elsewhere", func(e watch.Event) bool { return strings.HasSuffix(e.URL, "cut") && e.To == watch.Waiting })
	a.says("redis is back", 2)

	// Killed, and started again.
	server.kill()
	a.happens("fourth")
	b.happens("fifth")
	a.says("redis is away", 3)
	server.start()
	a.reaches(b, "sixth")
	b.reaches(a, "seventh")
	a.says("redis is back", 3)

	for _, p := range []*publishing{a, b} {
		if n := p.count(func(e watch.Event) bool {
			return strings.HasSuffix(e.URL, "cut") && e.To == watch.Waiting && e.Origin == ""
		}); p == a && n != 1 {
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

// subscriber is what others have: a connection that gets what is published.
func (r *redisServer) subscriber() redis.PubSubConn {
	r.t.Helper()
	channels := redis.PubSubConn{Conn: r.dial()}
	if err := channels.Subscribe("mcp:tools_changed", "mcp:state"); err != nil {
		r.t.Fatal(err)
	}
	for range 2 {
		if err, ok := channels.ReceiveWithTimeout(time.Minute).(error); ok {
			r.t.Fatal(err)
		}
	}
	return channels
}

// next returns the next event that is published, and its channel.
func next(t *testing.T, channels redis.PubSubConn) (channel string, e watch.Event) {
	t.Helper()
	switch received := channels.ReceiveWithTimeout(time.Minute).(type) {
	case redis.Message:
		if err := json.Unmarshal(received.Data, &e); err != nil {
			t.Fatalf("%v: %s", err, received.Data)
		}
		return received.Channel, e
	default:
		t.Fatalf("nothing is published: %v", received)
		return "", e
	}
}

// TestChannels: each event is published as it is, where its type belongs, and people can
// tell whose it is.
func TestChannels(t *testing.T) {
	server := newRedis(t)
	server.start()
	p := publishes(t, server.url())
	channels := server.subscriber()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(fmt.Sprintf("^%s/%d/[A-Z2-7]{8}$", regexp.QuoteMeta(host), os.Getpid()))
	for kind, want := range map[string]string{"tools_changed": "mcp:tools_changed", "state": "mcp:state", "target": "mcp:state"} {
		told := watch.Event{Type: kind, Server: "github", Directory: "/p", URL: "http://127.0.0.1:4096", From: "waiting", To: "trying", Attempt: 3,
			Error: "closed", Time: time.Date(2026, 11, 29, 10, 25, 32, 0, time.UTC)}
		p.publisher.take(told)
		channel, e := next(t, channels)
		if !ours.MatchString(e.Origin) {
			t.Errorf("it comes from %q", e.Origin)
		}
		if e.Origin = ""; channel != want || e != told {
			t.Errorf("%s: %+v", channel, e)
		}
	}
}

// TestWatcherIsPublished: what a Watcher tells by itself gets there.
func TestWatcherIsPublished(t *testing.T) {
	server := newRedis(t)
	server.start()
	p := publishes(t, server.url())
	channels := server.subscriber()
	p.happens("third")
	if channel, e := next(t, channels); channel != "mcp:state" || e.Type != watch.TargetChanged || !strings.HasSuffix(e.URL, "/third") || e.To == "" || e.Time.IsZero() {
		t.Errorf("%s: %+v", channel, e)
	}
}

// TestTake: who tells an event never waits, and the newest ones are kept.
func TestTake(t *testing.T) {
	p := &Publisher{events: make(chan watch.Event, 3)}
	for n := range 10 {
		p.take(watch.Event{Attempt: n})
		p.take(watch.Event{Attempt: 100 + n, Origin: "another/Watcher"})
	}
	for want := 7; want < 10; want++ {
		if e := <-p.events; e.Attempt != want {
			t.Errorf("event %d instead of %d", e.Attempt, want)
		}
	}
	if n := len(p.events); n != 0 {
		t.Errorf("and %d more", n)
	}
}

// TestForbidden: a Redis that takes no event is not there, until it takes one; those of
// others are told all the while.
func TestForbidden(t *testing.T) {
	server := newRedis(t)
	server.start()
	client := server.dial()
	acl := func(rule string) {
		t.Helper()
		if _, err := client.Do("ACL", "SETUSER", "watch", "on", ">hunter2", "&*", "+@all", rule); err != nil {
			t.Fatal(err)
		}
	}
	acl("-publish")
	channels := server.subscriber()
	p, other := publishes(t, "redis://watch:hunter2@127.0.0.1:"+server.port), publishes(t, server.url())
	other.reaches(p, "before")
	p.publisher.take(watch.Event{Type: watch.StateChanged, Server: "refused", Time: time.Now()})
	eventually(t, "it is tried again", func() bool {
		stats, err := redis.String(client.Do("INFO", "commandstats"))
		if err != nil {
			t.Fatal(err)
		}
		_, publishes, _ := strings.Cut(stats, "cmdstat_publish:")
		publishes, _, _ = strings.Cut(publishes, "\r\n")
		_, rejected, _ := strings.Cut(publishes, "rejected_calls=")
		n, _ := strconv.Atoi(strings.Split(rejected, ",")[0])
		return n >= 3
	})
	other.reaches(p, "meanwhile")
	if away, back := p.said("redis is away"), p.said("redis is back"); away != 1 || back != 0 {
		t.Errorf("said to be away %d times, and back %d times:\n%s", away, back, p.logged)
	}
	acl("+publish")
	p.says("redis is back", 1)
	for e := (watch.Event{}); e.Server != "refused"; _, e = next(t, channels) {
	}
}

func TestWrongPassword(t *testing.T) {
	server := newRedis(t)
	server.start()
	p := publishes(t, "redis://:hunter2@127.0.0.1:"+server.port)
	p.says("redis is away", 1)
	if text := p.logged.String(); !strings.Contains(text, "WRONGPASS") || strings.Contains(text, "hunter2") || strings.Contains(text, "@") {
		t.Error(text)
	}
}

// TestClose: it waits for no answer.
func TestClose(t *testing.T) {
	for _, scheme := range []string{"redis://", "redis://:hunter2@", "rediss://"} {
		t.Run(scheme, func(t *testing.T) {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			p := publishesWithin(t, scheme+silent.Addr().String(), time.Hour)
			for range 2 {
				conn, err := silent.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				p.publisher.Close()
			}()
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Fatal("it still waits")
			}
			if text := p.logged.String(); strings.Contains(text, "away") {
				t.Errorf("it says at its end: %s", text)
			}
		})
	}
}

// A gate is a Redis server's other address, where connections of a kind can be cut off
// without their ends being told.
type gate struct {
	listener net.Listener
	mu       sync.Mutex
	shut     string // what a client's connections ask for that get no answer, as SUBSCRIBE
	pings    map[string]int
}

func newGate(t *testing.T, server *redisServer) *gate {
	t.Helper()
	g := &gate{pings: map[string]int{}}
	var err error
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.listener.Close() })
	go func() {
		for {
			client, err := g.listener.Accept()
			if err != nil {
				return
			}
			go g.pass(client, "127.0.0.1:"+server.port)
		}
	}()
	return g
}

func (g *gate) url() string { return "redis://:" + password + "@" + g.listener.Addr().String() }

func (g *gate) set(shut string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

func (g *gate) pinged(kind string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pings[kind]
}

// pass passes on what goes from a client to the server and back.
func (g *gate) pass(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		io.Copy(client, server)
	}()
	kind := sending
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		text := string(buffer[:n])
		if strings.Contains(text, "SUBSCRIBE") {
			kind = receiving
		}
		g.mu.Lock()
		g.pings[kind] += strings.Count(text, "PING")
		shut := g.shut == kind
		g.mu.Unlock()
		if !shut {
			server.Write(buffer[:n])
		}
	}
}

// TestQuietDeath: also where nothing happens it is seen that Redis does not answer any
// more, on each connection, and that one which answers is there.
func TestQuietDeath(t *testing.T) {
	for _, kind := range []string{sending, receiving} {
		t.Run(kind, func(t *testing.T) {
			server := newRedis(t)
			server.start()
			g := newGate(t, server)
			p := publishesWithin(t, g.url(), 3*time.Second)
			eventually(t, "it asks whether Redis is there", func() bool { return g.pinged(kind) >= 4 })
			if text := p.logged.String(); strings.Count(text, "away") != strings.Count(text, "back") {
				t.Errorf("while it is there:\n%s", text)
			}
			before := p.said("redis is away")
			g.set(kind)
			p.says("redis is away", before+1)
			g.set("")
			p.says("redis is back", before+1)
		})
	}
}

func TestBadURL(t *testing.T) {
	w, err := watch.New(watch.Options{Policy: plugin.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, url := range []string{"", "http://x", "redis:x", "redis://:s3cret@[", "redis://:s3cret@host:port", "redis://:s3cret@host:99999", "redis://:s3cret@host/name"} {
		if _, err := New(w, url, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
