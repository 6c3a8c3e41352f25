// Package publish sends the events of a Watcher through Redis, so that front ends on
// other machines get them, and passes on those of other Watchers. While Redis is away
// the last thousand events are kept for it.
package publish

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// The channels.
const (
	ToolsChannel = "mcp:tools_changed"
	StateChannel = "mcp:state" // states of servers and of targets
)

const (
	backlog = 1000            // events that Redis may be behind
	limit   = 5 * time.Second // for an answer of Redis, and between two questions whether it is there
	again   = time.Second     // between two tries to reach Redis
)

// A Publisher connects a Watcher with Redis.
type Publisher struct {
	watcher     *watch.Watcher
	log         *slog.Logger
	url         string
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

// New begins to publish. The URL is redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], or
// rediss:// for TLS. Redis need not be there; Close ends it.
func New(w *watch.Watcher, url string, log *slog.Logger) (*Publisher, error) {
	p := &Publisher{watcher: w, log: log, url: url, origin: rand.Text(), events: make(chan watch.Event, backlog), away: map[string]bool{}}
	readable := errors.New("the URL can be read")
	if _, err := redis.DialURL(url, redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
		return nil, readable
	})); err != readable {
		return nil, errors.New("that is no redis://HOST:PORT") // the library's error repeats it, with a password in it
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.unsubscribe = w.Subscribe(p.take)
	var unsent *watch.Event
	p.running.Go(func() { p.keepOn(ctx, sending, func(ctx context.Context) error { return p.send(ctx, &unsent) }) })
	p.running.Go(func() { p.keepOn(ctx, receiving, p.receive) })
	return p, nil
}

// Close ends publishing.
func (p *Publisher) Close() {
	p.unsubscribe()
	p.cancel()
	p.running.Wait()
}

// take keeps an event of ours for Redis, in place of the oldest if there are too many.
func (p *Publisher) take(e watch.Event) {
	for e.Origin == "" {
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
	dialer := net.Dialer{Timeout: limit}
	return redis.DialURLContext(ctx, p.url,
		redis.DialContextFunc(func(_ context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}),
		redis.DialTLSHandshakeTimeout(limit), redis.DialReadTimeout(patience), redis.DialWriteTimeout(limit))
}

// send publishes events. One that an end of the connection kept from Redis is left for
// the next one.
func (p *Publisher) send(ctx context.Context, unsent **watch.Event) error {
	conn, err := p.dial(ctx, limit)
	if err != nil {
		return err
	}
	quiet := time.NewTicker(limit)
	defer quiet.Stop()
	p.say(ctx, sending, nil)
	for {
		if *unsent == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e := <-p.events:
				*unsent = &e
			case <-quiet.C: // an event should not be the first to find out
				if _, err := conn.Do("PING"); err != nil {
					return err
				}
				continue
			}
		}
		err := p.publish(conn, **unsent)
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		*unsent = nil
		if err != nil {
			return err
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
	conn, err := p.dial(ctx, 2*limit)
	if err != nil {
		return err
	}
	channels := redis.PubSubConn{Conn: conn}
	if err := channels.Subscribe(ToolsChannel, StateChannel); err != nil {
		return err
	}
	p.running.Go(func() {
		quiet := time.NewTicker(limit)
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
			var e watch.Event
			if json.Unmarshal(received.Data, &e) == nil && e.Origin != "" && e.Origin != p.origin && known(e.Type) {
				p.watcher.Relay(e)
			}
		}
	}
}

func known(kind string) bool {
	return kind == watch.ToolsChanged || kind == watch.StateChanged || kind == watch.TargetChanged
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
		p.log.Warn(fmt.Sprintf("redis is away, and events are told here alone: %s", strings.Join(strings.Fields(err.Error()), " ")))
	case before > 0 && len(p.away) == 0:
		p.log.Info("redis is back")
	}
}
