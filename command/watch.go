package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/publish"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

// defaultTarget is where `opencode serve` listens.
const defaultTarget = "http://127.0.0.1:4096"

func newWatchFlags() watchFlags {
	return watchFlags{
		url:          &flagText{name: "url", value: "URL", usage: "watch the OpenCode server at URL, such as http://HOST:PORT; comma-separated; may be repeated", initial: defaultTarget},
		passwordFile: &flagText{name: "password-file", value: "FILE", usage: "read its password from FILE", initial: "$OPENCODE_SERVER_PASSWORD"},
		format:       &flagText{name: "format", value: "NAME", usage: "write events in this format", choices: []string{"text", "json"}, initial: "text"},
		listen:       &flagText{name: "listen", value: "ADDR", usage: "serve events, states and a page at ADDR, such as 127.0.0.1:7333"},
		tokenFile:    &flagText{name: "token-file", value: "FILE", usage: "ask who comes to --listen for the token in FILE; needed where others than this machine can come"},
		origin:       &flagText{name: "allow-origin", value: "ORIGIN", usage: "let pages of ORIGIN, such as http://localhost:3000, read from --listen; comma-separated; may be repeated"},
		publish:      &flagText{name: "publish", value: "URL", usage: "send events through the Redis server at URL, such as redis://HOST:PORT"},
		dataDir:      newInstalledFlag(),
		policy:       newWatchPolicyFlags(),
	}
}

// newWatchPolicyFlags are those of the policy, in the words of watch.
func newWatchPolicyFlags() policyFlags {
	flags := newPolicyFlags()
	for _, f := range flags {
		f.category = "How it reconnects"
		if f.name == "log" {
			f.usage = "what is told on standard error"
		}
	}
	return flags
}

func watchCommand(s System) *cli.Command {
	flags := newWatchFlags()
	return &cli.Command{
		Name:      "watch",
		Usage:     "reconnect and report from outside, for OpenCode servers that run without the plugin",
		UsageText: "mcp-reconnect watch [flags]",
		Flags:     flags.all(),
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

func (f watchFlags) all() []cli.Flag {
	policy := slices.DeleteFunc(slices.Clone(f.policy), func(f *flagText) bool { return f.name == "notify" || f.name == "hold-prompt" }) // which are the plugin's alone
	return flagsOf([]*flagText{f.url, f.passwordFile, f.format, f.listen, f.tokenFile, f.origin, f.publish, f.dataDir}, policy)
}

type watchOptions struct {
	targets  []watch.Target
	json     bool
	listen   setting // an address, if anything
	token    setting // the file
	origins  setting
	serve    serve.Options // what is in token and origins
	publish  string        // "" for not at all
	stateDir string
	policy   plugin.Policy
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
	location, err := located(f.dataDir, s)
	if err != nil {
		return o, err
	}
	o.stateDir = location.StateDir
	if o.targets, err = f.targets(s); err != nil {
		return o, err
	}
	if err := f.serving(&o, s); err != nil {
		return o, err
	}
	o.publish, err = f.redis(s)
	return o, err
}

// redis is the URL that --publish names. With a password in it, it is no argument.
func (f watchFlags) redis(s System) (string, error) {
	url, err := f.publish.named(s)
	switch {
	case err != nil || !url.ok():
		return "", err
	case strings.Contains(url.value, "@") && f.publish.IsSet():
		return "", url.problem("other users can read a password there; give the URL by %s", f.publish.variable())
	}
	if err := publish.Check(url.value); err != nil {
		return "", url.problem("%v", err)
	}
	return url.value, nil
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
	urls, source, err := f.url.list(s)
	if err != nil {
		return nil, err
	}
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
	origins, source, err := f.origin.list(s)
	switch {
	case err != nil:
		return err
	case !listen.ok() && token.ok():
		return token.problem("there is no --listen that would ask for it")
	case !listen.ok() && source.ok():
		return source.problem("there is no --listen to read from")
	case !listen.ok():
		return nil
	}
	host, port, err := net.SplitHostPort(listen.value)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return listen.problem("%q is no address such as 127.0.0.1:7333", listen.value)
	}
	if !token.ok() && !loopback(host) {
		return listen.problem("others than this machine can come there, so --token-file is needed")
	}
	if token.ok() {
		if o.serve.Token, err = secretIn(token); err != nil {
			return err
		}
	}
	o.listen, o.token, o.origins = listen, token, source
	o.serve.Origins = origins
	if host != "" {
		o.serve.Hosts = []string{host}
	}
	return nil
}

// loopback reports whether a host is this machine for this machine alone.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// grace is how long what was told before the end has to be written, where somebody reads it.
const grace = 500 * time.Millisecond

func runWatch(o watchOptions, s System) error {
	// A closed pipe is an error of whoever writes to it: of standard output it ends the
	// watch in good order, of standard error it is nothing to end for.
	signal.Ignore(syscall.SIGPIPE)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	signalled, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(signalled, stop) // a second signal ends the program at once, as if it were not caught
	ctx, end := context.WithCancelCause(signalled)
	defer end(nil)

	lines := newLineQueue(s.Stderr)
	defer lines.close(grace)
	log := slog.New(&lineHandler{queue: lines, level: logLevels[o.policy.Log]})
	w, err := watch.New(watch.Options{Policy: o.policy, StateDir: o.stateDir, Log: log})
	if err != nil {
		return err
	}
	defer w.Close()
	finish := o.print(w, s, end)
	defer finish(grace)
	if o.listen.ok() {
		closeServer, err := o.startServer(w, log, end)
		if err != nil {
			return err
		}
		defer closeServer()
	}
	if o.publish != "" {
		publisher, err := publish.New(w, o.publish, log)
		if err != nil {
			return err
		}
		defer publisher.Close()
	}
	for _, target := range o.targets {
		if _, err := w.Connect(target); err != nil {
			return fmt.Errorf("%s: %w", target.URL, err)
		}
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		lines.add(err.Error()) // who does not read it must not keep the program from ending
		return &exitError{status: 1}
	}
	return nil
}

// lastEvent is the type of what is told to ourselves at the end, behind all that was told
// before.
const lastEvent = "last"

// print writes events to standard output, which may end the watch. What it returns waits
// until those that were told before are written, for so long at most.
func (o watchOptions) print(w *watch.Watcher, s System, end func(error)) (finish func(most time.Duration)) {
	printed := make(chan struct{})
	unsubscribe := w.Subscribe(func(e watch.Event) {
		if e.Type == lastEvent {
			close(printed)
			return
		}
		if open, err := s.write(o.line(e)); err != nil || !open {
			end(err)
		}
	})
	return func(most time.Duration) {
		w.Relay(watch.Event{Type: lastEvent})
		select {
		case <-printed:
		case <-time.After(most):
		}
		unsubscribe()
	}
}

// startServer serves --listen.
func (o watchOptions) startServer(w *watch.Watcher, log *slog.Logger, end func(error)) (stop func(), err error) {
	handler, err := serve.New(w, o.serve)
	if err != nil {
		return nil, o.refused(w, err)
	}
	network := "tcp"
	if at, err := netip.ParseAddrPort(o.listen.value); err == nil && at.Addr().Is4() {
		network = "tcp4" // 0.0.0.0 would be every IPv6 address, too
	}
	listener, err := net.Listen(network, o.listen.value)
	if err != nil {
		handler.Close()
		return nil, fmt.Errorf("%s: %w", o.listen.source, err)
	}
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    10 * time.Second, // for a request; a stream of events has no such end
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	log.Info("listening at http://" + listener.Addr().String())
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			end(fmt.Errorf("%s: %w", o.listen.source, err))
		}
	}()
	return func() {
		handler.Close()
		server.Close()
	}, nil
}

// refused says where what serve.New refuses was given: the origins, if it does not take
// them by themselves, or else the token.
func (o watchOptions) refused(w *watch.Watcher, err error) error {
	alone, problem := serve.New(w, serve.Options{Origins: o.serve.Origins})
	if problem != nil {
		return o.origins.problem("%v", problem)
	}
	alone.Close()
	return fmt.Errorf("%s: %w", o.token.source, err)
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
	if e.Type == watch.TargetChanged && e.Origin == "" {
		return ""
	}
	parts := []string{e.Time.Local().Format(time.DateTime), e.URL, e.Directory, e.Server}
	switch e.Type {
	case watch.ToolsChanged:
		parts = append(parts, "tools changed")
	case watch.Missed:
		parts = append(parts, e.Error)
	default:
		parts = append(parts, arrow(e))
		if e.Error != "" {
			parts = append(parts, "("+e.Error+")")
		}
	}
	if host, _, _ := strings.Cut(e.Origin, "/"); host != "" {
		parts = append(parts, "(from "+host+")")
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
