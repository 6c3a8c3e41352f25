// Package publish sends the events of a Watcher through Redis, so that front ends on
// other machines get them, and passes on those of other Watchers. While Redis is away
// the last thousand events are kept for it; one that was under way then may come twice.
package publish

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// The channels, which all databases of a Redis server share.
const (
	ToolsChannel = "mcp:tools_changed"
	StateChannel = "mcp:state" // states of servers and of targets
)

const (
	backlog = 1000            // events that Redis may be behind
	limit   = 5 * time.Second // for an answer of Redis, and between two questions whether it is there
	again   = time.Second     // between two tries to reach Redis

	maxPayload = 8 << 10 // bytes of an event of others
	maxOrigin  = 200
)

// A Publisher connects a Watcher with Redis.
type Publisher struct {
	watcher     *watch.Watcher
	log         *slog.Logger
	url         string
	limit       time.Duration
	origin      string
	events      chan watch.Event
	unsubscribe func()
	cancel      context.CancelFunc
	running     sync.WaitGroup

	mu   sync.Mutex
	away map[string]bool // what does not work
}

// What a Publisher does with Redis, each with a connection of its own.
const (
	sending   = "sending"
	receiving = "receiving"
)

// Check reports what is wrong with a URL. Its errors never repeat it: a password may be
// in it.
func Check(url string) error {
	readable := errors.New("the URL can be read")
	_, err := redis.DialURL(url, redis.DialContextFunc(func(_ context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort(network, port)
		}
		if err != nil {
			return nil, err
		}
		return nil, readable
	}))
	if err != readable {
		return errors.New("that is no redis://HOST:PORT")
	}
	return nil
}

// New begins to publish. The URL is redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or
// rediss:// for TLS; a DATABASE does not keep events apart, since Redis has its channels
// beside its databases. Redis need not be there; Close ends it.
func New(w *watch.Watcher, url string, log *slog.Logger) (*Publisher, error) {
	if err := Check(url); err != nil {
		return nil, err
	}
	return newPublisher(w, url, log, limit), nil
}

func newPublisher(w *watch.Watcher, url string, log *slog.Logger, limit time.Duration) *Publisher {
	p := &Publisher{watcher: w, log: log, url: url, limit: limit, origin: newOrigin(), events: make(chan watch.Event, backlog), away: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.unsubscribe = w.Subscribe(p.take)
	var unsent *watch.Event
	p.running.Go(func() { p.keepOn(ctx, sending, func(ctx context.Context) error { return p.send(ctx, &unsent) }) })
	p.running.Go(func() { p.keepOn(ctx, receiving, p.receive) })
	return p
}

// newOrigin returns HOSTNAME/PID/RANDOM: the first two are for people.
func newOrigin() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	origin := func(host string) string { return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]) }
	if !isOrigin(origin(host)) {
		return origin("unknown") // others would refuse it
	}
	return origin(host)
}

// isOrigin reports whether a text may be shown to people as where an event comes from.
func isOrigin(text string) bool {
	return text != "" && len(text) <= maxOrigin && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}

// Close ends publishing.
func (p *Publisher) Close() {
	p.unsubscribe()
	p.cancel()
	p.running.Wait()
}

// take keeps an event of ours for Redis, in place of the oldest if there are too many.
func (p *Publisher) take(e watch.Event) {
	if e.Origin != "" {
		return // it would go round for ever
	}
	for {
		select {
		case p.events <- e:
			return
		default:
		}
		select {
		case <-p.events:
		default:
		}
	}
}

// keepOn has something done with one connection after the other.
func (p *Publisher) keepOn(ctx context.Context, what string, do func(context.Context) error) {
	for ctx.Err() == nil {
		connected, hangUp := context.WithCancel(ctx)
		err := do(connected)
		hangUp()
		p.say(ctx, what, err)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// dial connects to Redis, until the context ends.
func (p *Publisher) dial(ctx context.Context, patience time.Duration) (redis.Conn, error) {
	dialer := net.Dialer{Timeout: p.limit}
	return redis.DialURLContext(ctx, p.url,
		redis.DialContextFunc(func(_ context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}),
		redis.DialTLSHandshakeTimeout(p.limit), redis.DialReadTimeout(patience), redis.DialWriteTimeout(p.limit))
}

// send publishes events. One that Redis did not confirm is left for the next connection,
// and while there is one nothing else shows that sending works.
func (p *Publisher) send(ctx context.Context, unsent **watch.Event) error {
	conn, err := p.dial(ctx, p.limit)
	if err != nil {
		return err
	}
	quiet := time.NewTicker(p.limit)
	defer quiet.Stop()
	for {
		if *unsent != nil {
			err = p.publish(conn, **unsent)
		} else { // an event should not be the first to find out that Redis is gone
			_, err = conn.Do("PING")
		}
		if err != nil {
			return err
		}
		*unsent = nil
		p.say(ctx, sending, nil)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-p.events:
			*unsent = &e
		case <-quiet.C:
		}
	}
}

func (p *Publisher) publish(conn redis.Conn, e watch.Event) error {
	e.Origin = p.origin
	text, err := json.Marshal(e)
	if err != nil {
		return nil // an Event holds nothing that cannot be written
	}
	channel := StateChannel
	if e.Type == watch.ToolsChanged {
		channel = ToolsChannel
	}
	_, err = conn.Do("PUBLISH", channel, text)
	return err
}

// receive passes on what other Watchers publish.
func (p *Publisher) receive(ctx context.Context) error {
	conn, err := p.dial(ctx, 2*p.limit)
	if err != nil {
		return err
	}
	channels := redis.PubSubConn{Conn: conn}
	if err := channels.Subscribe(ToolsChannel, StateChannel); err != nil {
		return err
	}
	p.running.Go(func() {
		quiet := time.NewTicker(p.limit)
		defer quiet.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-quiet.C:
				_ = channels.Ping("") // that no answer comes is seen below
			}
		}
	})
	for {
		switch received := channels.Receive().(type) {
		case error:
			return received
		case redis.Subscription:
			p.say(ctx, receiving, nil)
		case redis.Message:
			if e, ok := eventIn(received.Data); ok && e.Origin != p.origin {
				p.watcher.Relay(e)
			}
		}
	}
}

// eventIn reads an event of another Watcher. Anybody may publish anything, and what is
// passed on is kept and shown.
func eventIn(payload []byte) (e watch.Event, ok bool) {
	ok = len(payload) <= maxPayload && json.Unmarshal(payload, &e) == nil && isOrigin(e.Origin) && !e.Time.IsZero()
	switch e.Type {
	case watch.ToolsChanged, watch.StateChanged, watch.TargetChanged:
		return e, ok
	}
	return e, false
}

// say says that Redis is away, once, and that it is back.
func (p *Publisher) say(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.away)
	if err == nil {
		delete(p.away, what)
	} else {
		p.away[what] = true
	}
	switch {
	case before == 0 && err != nil:
		p.log.Warn(fmt.Sprintf("redis is away, and the newest events are kept for it: %s", strings.Join(strings.Fields(err.Error()), " ")))
	case before > 0 && len(p.away) == 0:
		p.log.Info("redis is back")
	}
}
