package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
)

const (
	eventLimit  = 16 << 20          // of one event of a stream, in bytes: OpenCode sends 10 MiB in one
	answerLimit = 4 << 20           // of any other answer
	readLimit   = 150 * time.Second // of a status read: less than what the engine gives it (rule 16)
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

// A dialect is the API of a major version of OpenCode.
type dialect struct {
	version int
	events  string // the path of the event stream
	status  func(directory string) string
	connect func(directory, server string) string
	decode  func(data []byte) signal
	answer  func(content []byte) (map[string]reconnect.Status, error)
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
		decode: decode1,
		answer: answer1,
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

func (o *opencode) do(ctx context.Context, method, path string, header http.Header) (*http.Response, error) {
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

// A stream is an open event stream.
type stream struct {
	*dialect
	body   io.ReadCloser
	heard  atomic.Int64 // when something was read last, in Unix nanoseconds
	active atomic.Int64 // when an event of a directory was read last
	beats  atomic.Bool  // it sends heartbeats
	lastID atomic.Value // of its events, a string
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if n > 0 {
		s.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// subscribe opens the event stream, of whatever version the server is.
func (o *opencode) subscribe(ctx context.Context, lastEventID string) (*stream, error) {
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	if lastEventID != "" {
		header.Set("Last-Event-ID", lastEventID)
	}
	var first error
	for _, d := range dialects {
		res, err := o.do(ctx, http.MethodGet, d.events, header)
		if err == nil {
			if err = checkStream(res); err == nil {
				s := &stream{dialect: d, body: res.Body}
				s.heard.Store(time.Now().UnixNano())
				s.beats.Store(d.version == 2)
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
		return fmt.Errorf("the server answers %s", res.Status)
	case res.StatusCode != http.StatusOK:
		return &notAStream{fmt.Sprintf("the server answers %s: is it an OpenCode server", res.Status)}
	case kind != "text/event-stream":
		if kind == "" {
			kind = "something without a type"
		}
		return &notAStream{fmt.Sprintf("the server answers with %s, not with events: is it an OpenCode server", kind)}
	}
	return nil
}

// A signal is what an event means for the engines.
type signal struct {
	kind      signalKind
	directory string
	use       reconnect.Use
	server    string
}

type signalKind int

const (
	malformed   signalKind = iota
	heartbeat              // the server is there, and nothing happened
	seen                   // something that is no sign of use, perhaps in no directory
	used                   // a sign of use
	disposed               // the instance is no more
	allDisposed            // no instance is any more
)

// follow passes on the signals of a stream until it ends, or pass refuses one.
func (s *stream) follow(pass func(signal) bool) error {
	for event, err := range sse.Read(s, &sse.ReadConfig{MaxEventSize: eventLimit}) {
		if err != nil {
			if strings.Contains(err.Error(), "token too long") { // bufio.ErrTooLong
				err = fmt.Errorf("the server sends an event, or a line, of more than %d MiB", eventLimit>>20)
			}
			return err
		}
		if event.LastEventID != "" {
			s.lastID.Store(event.LastEventID)
		}
		got := s.decode([]byte(event.Data))
		switch got.kind {
		case heartbeat:
			s.beats.Store(true)
		case malformed:
		default:
			s.active.Store(time.Now().UnixNano())
		}
		if !pass(got) {
			break
		}
	}
	return io.EOF
}

// event1 is an event of OpenCode 1's /global/event.
type event1 struct {
	Directory string
	Payload   struct {
		Type       string
		Properties struct {
			Directory string
			Server    json.RawMessage
			Status    json.RawMessage
			Info      json.RawMessage
		}
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
	case kind == "server.connected", kind == "server.heartbeat":
		s.kind = heartbeat
	case kind == "global.disposed":
		s.kind = allDisposed
	case !isDirectory(e.Directory):
	case kind == "server.instance.disposed":
		s.kind = disposed
		if properties.Directory != "" {
			s.directory = properties.Directory
		}
	case strings.HasPrefix(kind, "mcp."):
		s.kind, s.use, s.server = used, reconnect.MCP, text(properties.Server)
	case kind == "session.status":
		if field(properties.Status, "type") == "busy" {
			s.kind, s.use = used, reconnect.Busy
		}
	case kind == "message.updated":
		s.kind, s.use = used, reconnect.Busy
		if field(properties.Info, "role") == "user" {
			s.use = reconnect.Prompt
		}
	}
	return s
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
	Data     struct{ Server json.RawMessage }
}

func decode2(data []byte) signal {
	var e event2
	if json.Unmarshal(data, &e) != nil || e.Type == "" {
		return signal{kind: malformed}
	}
	s := signal{directory: e.Location.Directory, kind: seen}
	switch {
	case e.Type == "server.connected":
		s.kind = heartbeat
	case !isDirectory(s.directory):
	case strings.HasPrefix(e.Type, "mcp."):
		s.kind, s.use, s.server = used, reconnect.MCP, text(e.Data.Server)
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

// field is the text in a field of a JSON object, and "" for anything else.
func field(raw json.RawMessage, name string) string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return text(object[name])
}

// status reads the status of a directory's servers. It starts them, in OpenCode 1.
func (o *opencode) status(ctx context.Context, d *dialect, directory string) (map[string]reconnect.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	res, err := o.do(ctx, http.MethodGet, d.status(directory), http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", res.Status)
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, answerLimit+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > answerLimit:
		return nil, fmt.Errorf("the server's answer has more than %d MiB", answerLimit>>20)
	}
	return d.answer(content)
}

var errMalformed = errors.New("the server's answer is no list of MCP servers")

func answer1(content []byte) (map[string]reconnect.Status, error) {
	var servers map[string]json.RawMessage
	if json.Unmarshal(content, &servers) != nil || servers == nil {
		return nil, errMalformed
	}
	answer := map[string]reconnect.Status{}
	for name, raw := range servers {
		answer[name] = statusOf(raw)
	}
	return answer, nil
}

func answer2(content []byte) (map[string]reconnect.Status, error) {
	var list struct {
		Data []struct {
			Name   string
			Status json.RawMessage
		}
	}
	if json.Unmarshal(content, &list) != nil || list.Data == nil {
		return nil, errMalformed
	}
	answer := map[string]reconnect.Status{}
	for _, server := range list.Data {
		answer[server.Name] = statusOf(server.Status)
	}
	return answer, nil
}

// statusOf reads a status, which is an object, and a bare string in old versions (rule 1).
func statusOf(raw json.RawMessage) reconnect.Status {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return reconnect.Status{State: text(raw)}
	}
	return reconnect.Status{State: field(raw, "status"), Error: field(raw, "error")}
}

// connect asks for one connect, and returns when it is over. What it came to is what
// the next status says (rule 11).
func (o *opencode) connect(ctx context.Context, d *dialect, directory, server string) error {
	res, err := o.do(ctx, http.MethodPost, d.connect(directory, server), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, answerLimit))
	return err
}
