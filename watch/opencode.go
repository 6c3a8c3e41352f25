package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
)

const (
	answerLimit  = 4 << 20           // of an answer that is no stream, in bytes
	serverLimit  = 1000              // of MCP servers in one directory
	nameLimit    = 256               // of a server's name, and of an event's id, in bytes
	pathLimit    = 4 << 10           // of a directory, in bytes
	textLimit    = 16 << 10          // of what a tool's call says, in bytes
	errorLimit   = 200               // of an error, in characters
	readLimit    = 150 * time.Second // of a status read: less than what the engine gives it (rule 16)
	connectLimit = 3 * time.Minute   // of a connect: its server is not tried again before (rule 5), and no start takes longer (rule 16)
)

// errUnauthorized says what to do about a 401.
var errUnauthorized = errors.New("the server asks for another password: set OPENCODE_SERVER_PASSWORD, and OPENCODE_SERVER_USERNAME if it is not opencode, or give --password-file")

// An opencode makes requests to an OpenCode server.
type opencode struct {
	client   *http.Client
	base     string
	username string
	password string
}

func newOpencode(client *http.Client, base string, o Target) opencode {
	if o.Username == "" {
		o.Username = "opencode" // as OpenCode does
	}
	return opencode{client: client, base: base, username: o.Username, password: o.Password}
}

// A dialect is the API of a major version of OpenCode.
type dialect struct {
	version int
	events  string // the path of the event stream
	status  func(directory string) string
	connect func(directory, server string) string
	remotes func(directory string) string // the path of the configuration; nil where no call is told
	decode  func(data []byte) signal
	answer  func(content []byte) (servers map[string]json.RawMessage, err error)
}

// The order is that in which they are tried: OpenCode 1 answers a path that it does
// not know with a page.
var dialects = []*dialect{
	{
		version: 1,
		events:  "/global/event",
		status:  func(directory string) string { return "/mcp?" + query1(directory) },
		connect: func(directory, server string) string {
			return "/mcp/" + url.PathEscape(server) + "/connect?" + query1(directory)
		},
		remotes: func(directory string) string { return "/config?" + query1(directory) },
		decode:  decode1,
		answer:  answer1,
	},
	{
		version: 2,
		events:  "/api/event",
		status:  func(directory string) string { return "/api/mcp?" + location(directory) },
		connect: func(directory, server string) string {
			return "/api/experimental/mcp/" + url.PathEscape(server) + "/connect?" + location(directory)
		},
		decode: decode2,
		answer: answer2,
	},
}

// query1 is for OpenCode 1, which decodes a directory twice: asked for /a%20b it would
// start the servers of "/a b".
func query1(directory string) string {
	return url.Values{"directory": {strings.ReplaceAll(directory, "%", "%25")}}.Encode()
}

func location(directory string) string {
	return url.Values{"location[directory]": {directory}}.Encode()
}

func (o opencode) do(ctx context.Context, method, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.base+path, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if o.password != "" {
		req.SetBasicAuth(o.username, o.password)
	}
	res, err := o.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusUnauthorized {
		res.Body.Close()
		return nil, errUnauthorized
	}
	return res, nil
}

// subscribe opens the event stream, of whatever version the server is, with hedged
// requests, which are counted in calls.
func (o opencode) subscribe(ctx context.Context, calls *sync.WaitGroup, lastEventID string) (*stream, error) {
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	if lastEventID != "" {
		header.Set("Last-Event-ID", lastEventID)
	}
	var first error
	var took time.Duration
	for _, d := range dialects {
		got := hedged(ctx, calls, func(ctx context.Context) (*http.Response, error) {
			return o.do(ctx, http.MethodGet, d.events, header)
		})
		res, err := got.res, got.err
		took += got.took
		if err == nil {
			if err = checkStream(res); err == nil {
				s := &stream{dialect: d, body: res.Body, took: took}
				s.heard.set(time.Now())
				s.lastID.Store(lastEventID)
				return s, nil
			}
			res.Body.Close()
		}
		var elsewhere *notAStream
		if !errors.As(err, &elsewhere) { // the other one would fare no better
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// notAStream is an answer of a server that has no event stream there.
type notAStream struct{ problem string }

func (e *notAStream) Error() string { return e.problem }

func checkStream(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode >= 500:
		return answers(res)
	case res.StatusCode != http.StatusOK:
		return &notAStream{answers(res).Error() + ": is it an OpenCode server?"}
	case kind != "text/event-stream":
		if kind == "" {
			kind = "something without a type"
		}
		return &notAStream{fmt.Sprintf("the server answers with %s, not with events: is it an OpenCode server?", shown(kind, 100))}
	}
	return nil
}

// answers says how the server answers, in our words: its own have any length and content.
func answers(res *http.Response) error {
	return errors.New(strings.TrimSpace(fmt.Sprintf("the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))))
}

// A signal is what an event means for the engines.
type signal struct {
	kind      signalKind
	directory string
	use       reconnect.Use
	server    string
	call      reconnect.Call
}

type signalKind int

const (
	malformed   signalKind = iota
	greeting               // the stream is open
	heartbeat              // the server is there, and nothing happened
	oversized              // something that was too long to be read
	seen                   // something that is no sign of use, perhaps in no directory
	used                   // a sign of use
	called                 // what became of a call of a tool
	noticing               // this version notices by itself that a local server is gone
	disposed               // the instance is no more
	allDisposed            // no instance is any more
)

// bounded takes what is too long to be a name for none.
func (s signal) bounded() signal {
	if len(s.directory) > pathLimit || len(s.server) > nameLimit {
		return signal{kind: malformed}
	}
	return s
}

// event1 is an event of OpenCode 1's /global/event.
type event1 struct {
	Directory string
	Payload   struct {
		Type       string
		Properties json.RawMessage
	}
}

func decode1(data []byte) signal {
	var e event1
	if json.Unmarshal(data, &e) != nil || e.Payload.Type == "" {
		return signal{kind: malformed}
	}
	s := signal{directory: e.Directory, kind: seen}
	properties := e.Payload.Properties
	switch kind := e.Payload.Type; {
	case kind == "server.connected":
		s.kind = greeting
	case kind == "server.heartbeat":
		s.kind = heartbeat
	case kind == "global.disposed":
		s.kind = allDisposed
	case !isDirectory(e.Directory):
	case kind == "server.instance.disposed":
		s.kind = disposed
		if directory := field(properties, "directory"); directory != "" {
			s.directory = directory
		}
	case strings.HasPrefix(kind, "mcp."):
		s.kind, s.use, s.server = used, reconnect.MCP, changed(kind, properties)
	case kind == "message.part.updated":
		if call, ok := callOf(fields(properties)["part"]); ok {
			s.kind, s.call = called, call
		}
	case kind == "session.created", kind == "session.updated":
		if reconnect.NoticesDeaths(field(fields(properties)["info"], "version")) {
			s.kind = noticing
		}
	case kind == "session.status":
		if field(fields(properties)["status"], "type") == "busy" {
			s.kind, s.use = used, reconnect.Busy
		}
	case kind == "message.updated":
		s.kind, s.use = used, reconnect.Busy
		if field(fields(properties)["info"], "role") == "user" {
			s.use = reconnect.Prompt
		}
	}
	return s
}

// callOf is what a part of a message says of a tool's call. The part is the call: the
// model may give one id twice. Up to 1.17.0 a result that is an error is completed.
func callOf(raw json.RawMessage) (call reconnect.Call, ok bool) {
	var part struct {
		Type, ID, Tool string
		State          struct {
			Status        string
			Error, Output json.RawMessage // an end is one, whatever they are
		}
	}
	if json.Unmarshal(raw, &part) != nil || part.Type != "tool" || len(part.ID) > nameLimit || len(part.Tool) > nameLimit {
		return call, false
	}
	said := cmp.Or(text(part.State.Error), text(part.State.Output))
	return reconnect.Call{ID: part.ID, Tool: part.Tool, State: part.State.Status, Text: said[:min(len(said), textLimit)]}, true
}

// changed is the server whose tools or status an event says to be others than before. Of
// what else there is, such as its prompts, no tools follow.
func changed(kind string, properties json.RawMessage) string {
	if strings.HasPrefix(kind, "mcp.tools.") || strings.HasPrefix(kind, "mcp.status.") {
		return field(properties, "server")
	}
	return ""
}

// isDirectory reports whether an event's directory is one, of whatever system the server
// is on: what concerns the whole process has none, or the word global.
func isDirectory(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) || len(path) > 2 && path[1] == ':'
}

// event2 is an event of OpenCode 2's /api/event.
type event2 struct {
	Type     string
	Location struct{ Directory string }
	Data     json.RawMessage
}

func decode2(data []byte) signal {
	var e event2
	if json.Unmarshal(data, &e) != nil || e.Type == "" {
		return signal{kind: malformed}
	}
	s := signal{directory: e.Location.Directory, kind: seen}
	switch {
	case e.Type == "server.connected":
		s.kind = greeting
	case !isDirectory(s.directory):
	case strings.HasPrefix(e.Type, "mcp."):
		s.kind, s.use, s.server = used, reconnect.MCP, changed(e.Type, e.Data)
	case e.Type == "session.execution.started":
		s.kind, s.use = used, reconnect.Prompt
	case strings.HasPrefix(e.Type, "session.execution."), strings.HasPrefix(e.Type, "session.step."):
		s.kind, s.use = used, reconnect.Busy
	}
	return s
}

// text is a JSON string's value, and "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// fields are those of a JSON object, and none of anything else.
func fields(raw json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return object
}

// field is the text in a field of a JSON object, and "" for anything else.
func field(raw json.RawMessage, name string) string { return text(fields(raw)[name]) }

// status reads the status of a directory's servers. It starts them, in OpenCode 1.
func (o opencode) status(ctx context.Context, d *dialect, directory string) (map[string]reconnect.Status, error) {
	res, err := o.do(ctx, http.MethodGet, d.status(directory), http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, answers(res)
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, answerLimit+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > answerLimit:
		return nil, fmt.Errorf("the server's answer has more than %d MiB", answerLimit>>20)
	}
	servers, err := d.answer(content)
	if err != nil {
		return nil, err
	}
	return statuses(servers)
}

var errMalformed = errors.New("the server's answer is no list of MCP servers")

// statuses refuses what no configuration has: each name costs something for as long as
// the directory is in use.
func statuses(servers map[string]json.RawMessage) (map[string]reconnect.Status, error) {
	if len(servers) > serverLimit {
		return nil, fmt.Errorf("the server's answer lists more than %d MCP servers", serverLimit)
	}
	answer := map[string]reconnect.Status{}
	for name, raw := range servers {
		if len(name) > nameLimit {
			return nil, fmt.Errorf("the server's answer names an MCP server with more than %d bytes", nameLimit)
		}
		answer[name] = statusOf(raw)
	}
	return answer, nil
}

func answer1(content []byte) (map[string]json.RawMessage, error) {
	servers := fields(content)
	if servers == nil {
		return nil, errMalformed
	}
	return servers, nil
}

func answer2(content []byte) (map[string]json.RawMessage, error) {
	var list struct {
		Data []struct {
			Name   string
			Status json.RawMessage
		}
	}
	if json.Unmarshal(content, &list) != nil || list.Data == nil {
		return nil, errMalformed
	}
	servers := map[string]json.RawMessage{}
	for _, server := range list.Data {
		servers[server.Name] = server.Status
	}
	return servers, nil
}

// remotes reads which of a directory's servers are configured as remote. It starts none.
func (o opencode) remotes(ctx context.Context, d *dialect, directory string) ([]string, error) {
	ctx, cancel := within(ctx, readLimit)
	defer cancel()
	res, err := o.do(ctx, http.MethodGet, d.remotes(directory), http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, reason(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, answers(res)
	}
	var config struct {
		MCP map[string]struct{ Type string }
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, answerLimit)).Decode(&config); err != nil {
		return nil, errors.New("the server's answer is no configuration") // whose content is nobody's to repeat
	}
	var remotes []string
	for name, server := range config.MCP {
		if server.Type == "remote" {
			remotes = append(remotes, name)
		}
	}
	return remotes, nil
}

// statusOf reads a status, which is an object, and a bare string in old versions (rule 1).
func statusOf(raw json.RawMessage) reconnect.Status {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return reconnect.Status{State: text(raw)}
	}
	status := fields(raw)
	return reconnect.Status{State: text(status["status"]), Error: text(status["error"])}
}

// connect asks for one connect, and returns when it is over, or has to be. What it came
// to is what the next status says (rule 11).
func (o opencode) connect(ctx context.Context, d *dialect, directory, server string) error {
	ctx, cancel := within(ctx, connectLimit)
	defer cancel()
	res, err := o.do(ctx, http.MethodPost, d.connect(directory, server), nil)
	if err != nil {
		return reason(ctx, err)
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, answerLimit))
	return reason(ctx, err)
}

// within limits how long something takes. What is too late says so.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the server did not answer within %v", limit))
}

// reason is why something failed: if there was no time left for it, that.
func reason(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
