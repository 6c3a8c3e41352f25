package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/publish"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

const (
	// defaultTarget is where `opencode serve` listens.
	defaultTarget = "http://127.0.0.1:4096"
	// steerInterval is how often pause and retry are looked for: within the second of rule 19.
	steerInterval = 500 * time.Millisecond
)

func watchCommand(s System) *cli.Command {
	flags := watchFlags{
		url:          &flagText{name: "url", value: "URL", usage: "watch the OpenCode server at URL, such as http://HOST:PORT; comma-separated; may be repeated", initial: defaultTarget},
		passwordFile: &flagText{name: "password-file", value: "FILE", usage: "read its password from FILE", initial: "$OPENCODE_SERVER_PASSWORD"},
		format:       &flagText{name: "format", value: "NAME", usage: "write events in this format", choices: []string{"text", "json"}, initial: "text"},
		listen:       &flagText{name: "listen", value: "ADDR", usage: "serve events, states and a page at ADDR, such as 127.0.0.1:7333"},
		tokenFile:    &flagText{name: "token-file", value: "FILE", usage: "ask who comes to --listen for the token in FILE; needed where others than this machine can come"},
		origin:       &flagText{name: "allow-origin", value: "ORIGIN", usage: "let pages of ORIGIN, such as http://localhost:3000, read from --listen; comma-separated; may be repeated"},
		publish:      &flagText{name: "publish", value: "URL", usage: "send events through the Redis server at URL, such as redis://HOST:PORT"},
		dataDir:      newInstalledFlag(),
		policy:       newPolicyFlags(),
	}
	return &cli.Command{
		Name:      "watch",
		Usage:     "reconnect and report from outside, for OpenCode servers that run without the plugin",
		UsageText: "mcp-reconnect watch [flags]",
		Flags: flagsOf([]*flagText{flags.url, flags.passwordFile, flags.format, flags.listen, flags.tokenFile,
			flags.origin, flags.publish, flags.dataDir}, flags.policy),
		Action: func(*cli.Context) error {
			options, err := flags.options(s)
			if err != nil {
				return err
			}
			return runWatch(options, s)
		},
	}
}

type watchFlags struct {
	url, passwordFile, format, listen, tokenFile, origin, publish, dataDir *flagText
	policy                                                                 policyFlags
}

type watchOptions struct {
	targets []watch.Target
	json    bool
	listen  string // "" for not at all
	serve   serve.Options
	publish string // "" for not at all
	dir     string // of the plugin
	policy  plugin.Policy
}

func (f watchFlags) options(s System) (watchOptions, error) {
	var o watchOptions
	var err error
	if o.policy, err = f.policy.policy(s); err != nil {
		return o, err
	}
	format, err := f.format.choice(s)
	if err != nil {
		return o, err
	}
	o.json = format == "json"
	if o.dir, err = installedDir(f.dataDir, s); err != nil {
		return o, err
	}
	if o.targets, err = f.targets(s); err != nil {
		return o, err
	}
	if err := f.serving(&o, s); err != nil {
		return o, err
	}
	redis, err := f.publish.named(s)
	if err != nil {
		return o, err
	}
	if strings.Contains(redis.value, "@") && f.publish.IsSet() {
		return o, usagef("--publish: other users can read a password there; give the URL by %s", f.publish.variable())
	}
	o.publish = redis.value
	return o, nil
}

// targets are what --url names, each once, with the credentials that OpenCode's own
// clients use.
func (f watchFlags) targets(s System) ([]watch.Target, error) {
	password := s.getenv("OPENCODE_SERVER_PASSWORD")
	file, err := f.passwordFile.named(s)
	if err != nil {
		return nil, err
	}
	if file.ok() {
		if password, err = secretIn(file); err != nil {
			return nil, err
		}
	}
	urls, source := list(f.url, s)
	if len(urls) == 0 {
		urls = []string{defaultTarget}
	}
	var targets []watch.Target
	known := map[string]bool{}
	for _, url := range urls {
		id, err := watch.ID(url)
		if err != nil {
			return nil, source.problem("%v", err)
		}
		if !known[id] {
			known[id] = true
			targets = append(targets, watch.Target{URL: id, Username: s.getenv("OPENCODE_SERVER_USERNAME"), Password: password, Keep: true})
		}
	}
	if len(targets) > watch.MaxTargets {
		return nil, source.problem("%d servers are more than the %d that are watched at once", len(targets), watch.MaxTargets)
	}
	return targets, nil
}

// serving reads what --listen is about. Who is not on this machine needs a token.
func (f watchFlags) serving(o *watchOptions, s System) error {
	listen, err := f.listen.named(s)
	if err != nil {
		return err
	}
	token, err := f.tokenFile.named(s)
	if err != nil {
		return err
	}
	origins, source := list(f.origin, s)
	switch {
	case !listen.ok() && token.ok():
		return token.problem("there is no --listen that would ask for it")
	case !listen.ok() && len(origins) > 0:
		return source.problem("there is no --listen to read from")
	case !listen.ok():
		return nil
	}
	host, _, err := net.SplitHostPort(listen.value)
	if err != nil {
		return listen.problem("%q is no address such as 127.0.0.1:7333", listen.value)
	}
	if token.ok() {
		if o.serve.Token, err = secretIn(token); err != nil {
			return err
		}
	}
	if ip := net.ParseIP(host); o.serve.Token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return listen.problem("others than this machine can come there, so --token-file is needed")
	}
	for _, origin := range origins {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
			return source.problem("%q is no origin such as http://localhost:3000", origin)
		}
	}
	o.listen, o.serve.Origins = listen.value, origins
	if host != "" {
		o.serve.Hosts = []string{host}
	}
	return nil
}

// list returns what a flag that holds lists has, and where it was given.
func list(f *flagText, s System) ([]string, setting) {
	source := f.setting(s)
	values := f.given
	if !f.IsSet() && source.ok() {
		values = []string{source.value}
	}
	var all []string
	for _, value := range values {
		for _, item := range strings.Split(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				all = append(all, item)
			}
		}
	}
	return all, source
}

// secretIn returns the first line of a file.
func secretIn(file setting) (string, error) {
	content, err := os.ReadFile(file.value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file.source, err)
	}
	secret, _, _ := strings.Cut(string(content), "\n")
	if secret = strings.TrimSuffix(secret, "\r"); secret == "" {
		return "", fmt.Errorf("%s: the first line of %s is empty", file.source, oneline.Text(file.value))
	}
	return secret, nil
}

func runWatch(o watchOptions, s System) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)

	var listener net.Listener
	if o.listen != "" {
		var err error
		if listener, err = net.Listen("tcp", o.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		defer listener.Close()
	}
	log := slog.New(&lineHandler{system: s, mu: &sync.Mutex{}})
	w, err := watch.New(watch.Options{Policy: o.policy, PluginDir: o.dir, Log: log})
	if err != nil {
		return err
	}
	defer w.Close()
	w.Subscribe(func(e watch.Event) {
		if open, err := s.write(o.line(e)); err != nil || !open {
			end(err)
		}
	})
	if o.publish != "" {
		publisher, err := publish.New(w, o.publish, log)
		if err != nil {
			return usagef("--publish: %v", err)
		}
		defer publisher.Close()
	}
	if listener != nil {
		handler, err := serve.New(w, o.serve)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
		log.Info("listening at http://" + listener.Addr().String())
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				end(fmt.Errorf("--listen: %w", err))
			}
		}()
		defer server.Close()
		defer handler.Close()
	}
	steer := newSteering(o.dir)
	steer.look(w)
	for _, target := range o.targets {
		if _, err := w.Connect(target); err != nil {
			return fmt.Errorf("%s: %w", target.URL, err)
		}
	}
	ticker := time.NewTicker(steerInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		case <-ticker.C:
			steer.look(w)
		}
	}
}

// line is an event as it is printed. For people, what becomes of a target is said on
// standard error.
func (o watchOptions) line(e watch.Event) string {
	if o.json {
		text, err := json.Marshal(e)
		if err != nil {
			return "" // an Event holds nothing that cannot be written
		}
		return string(text) + "\n"
	}
	what := "tools changed"
	switch e.Type {
	case watch.TargetChanged:
		if e.Origin == "" {
			return ""
		}
		what = arrow(e)
	case watch.StateChanged:
		what = arrow(e)
	}
	parts := []string{e.Time.Local().Format(time.DateTime), e.URL, e.Directory, e.Server, what}
	if e.Error != "" {
		parts = append(parts, "("+e.Error+")")
	}
	var shown []string
	for _, part := range parts {
		if part != "" {
			shown = append(shown, oneline.Text(part))
		}
	}
	return strings.Join(shown, "  ") + "\n"
}

func arrow(e watch.Event) string {
	word := func(state string) string {
		if state == "" {
			return "unknown"
		}
		return state
	}
	text := word(e.From) + " → " + word(e.To)
	if e.Attempt > 0 && e.To != "connected" {
		text += fmt.Sprintf(", tries: %d", e.Attempt)
	}
	return text
}

// steering passes on what pause, resume and retry say to plugins.
type steering struct {
	dir     string
	paused  bool
	retried int64
}

func newSteering(dir string) *steering {
	t := &steering{dir: dir}
	if control, err := state.ReadControl(dir); err == nil {
		t.retried = control.Retry.At // what was asked of others
	}
	return t
}

func (t *steering) look(w *watch.Watcher) {
	control, err := state.ReadControl(t.dir)
	if err != nil {
		return // as the plugins do
	}
	if control.Paused != t.paused {
		t.paused = control.Paused
		w.Pause(t.paused)
	}
	if control.Retry.At > t.retried {
		t.retried = control.Retry.At
		w.Retry(control.Retry.Servers, control.Retry.Directories)
	}
}

// A lineHandler writes a log in this program's words: "mcp-reconnect: URL: DIR: text".
type lineHandler struct {
	system System
	mu     *sync.Mutex
	before string // what the attributes are written as
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := h.before
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "stack" {
			line += a.Value.String() + ": "
		}
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintf(h.system.Stderr, "mcp-reconnect: %s\n", oneline.Text(line+r.Message))
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.before += a.Value.String() + ": "
	}
	return &with
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }
