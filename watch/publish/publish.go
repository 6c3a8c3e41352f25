// Package publish sends the events of a Watcher through Redis, so that front ends on
// other machines get them, and passes on those of other Watchers. It keeps nothing:
// what happens while Redis is away is told to local subscribers alone.
package publish

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// The channels.
const (
	ToolsChannel = "mcp:tools_changed"
	StateChannel = "mcp:state" // states of servers and of targets
)

const (
	backlog = 1000 // events that Redis may be behind
	limit   = 5 * time.Second
	again   = time.Second // between two tries to reach Redis
)

// A message is an event, with who sends it.
type message struct {
	watch.Event
	Origin string `json:"origin"`
}

// A Publisher connects a Watcher with Redis.
type Publisher struct {
	watcher     *watch.Watcher
	log         *slog.Logger
	client      *redis.Client
	origin      string
	events      chan watch.Event
	unsubscribe func()
	cancel      context.CancelFunc
	running     sync.WaitGroup

	mu   sync.Mutex
	away string // the problem that was told last, "" while there is none
}

// silent keeps the library from writing to standard error: what is wrong with Redis is
// said once, by say.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var silence = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// New begins to publish. The URL is redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], with
// rediss for TLS, or unix://. Redis need not be there; Close ends it.
func New(w *watch.Watcher, url string, log *slog.Logger) (*Publisher, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("that is no redis://HOST:PORT") // the library's error repeats it, with a password in it
	}
	silence()
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = limit, limit, limit
	o.MaxRetries = -1 // the loops below try again
	p := &Publisher{watcher: w, log: log, client: redis.NewClient(o), origin: rand.Text(), events: make(chan watch.Event, backlog)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.unsubscribe = w.Subscribe(p.take)
	p.running.Go(func() { p.send(ctx) })
	p.running.Go(func() { p.receive(ctx) })
	return p, nil
}

// Close ends publishing.
func (p *Publisher) Close() {
	p.unsubscribe()
	p.cancel()
	p.client.Close()
	p.running.Wait()
}

// take keeps an event of ours for Redis, if it is not too far behind.
func (p *Publisher) take(e watch.Event) {
	if e.Relayed {
		return
	}
	select {
	case p.events <- e:
	default:
	}
}

func (p *Publisher) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-p.events:
			text, err := json.Marshal(message{e, p.origin})
			if err != nil {
				continue // an Event holds nothing that cannot be written
			}
			channel := StateChannel
			if e.Type == watch.ToolsChanged {
				channel = ToolsChannel
			}
			if err := p.client.Publish(ctx, channel, text).Err(); err != nil {
				p.say(ctx, err)
			}
		}
	}
}

// receive passes on what other Watchers publish, from one connection after the other.
func (p *Publisher) receive(ctx context.Context) {
	for ctx.Err() == nil {
		p.say(ctx, p.follow(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (p *Publisher) follow(ctx context.Context) error {
	channels := p.client.Subscribe(ctx, ToolsChannel, StateChannel)
	defer channels.Close()
	for asked := false; ; {
		received, err := channels.ReceiveTimeout(ctx, 2*limit)
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() && !asked {
			asked = true // it is quiet: is it there
			err = channels.Ping(ctx)
		} else {
			asked = false
		}
		if err != nil {
			return err
		}
		switch received := received.(type) {
		case *redis.Subscription:
			p.say(ctx, nil)
		case *redis.Message:
			var m message
			if json.Unmarshal([]byte(received.Payload), &m) != nil || m.Origin == p.origin || !known(m.Type) {
				continue
			}
			p.watcher.Relay(m.Event)
		}
	}
}

func known(kind string) bool {
	return kind == watch.ToolsChanged || kind == watch.StateChanged || kind == watch.TargetChanged
}

// say says that Redis is away, once, and that it is back.
func (p *Publisher) say(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil && p.away == "":
		p.away = strings.Join(strings.Fields(err.Error()), " ")
		p.log.Warn(fmt.Sprintf("redis is away, and events are told here alone: %s", p.away))
	case err == nil && p.away != "":
		p.away = ""
		p.log.Info("redis is back")
	}
}
