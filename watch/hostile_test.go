package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
)

// A body counts what is read of it, and knows whether it was closed.
type body struct {
	io.Reader
	read   int
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *body) Close() error { b.closed = true; return nil }

// answering is a client of a server with one answer.
func answering(code int, b *body) *opencode {
	return &opencode{client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: b}, nil
	})}}
}

// An endlessReader repeats a text, up to what nobody should have read.
func endlessReader(text string) io.Reader {
	return io.LimitReader(repeat(text), 100<<20)
}

func repeat(text string) *repeated { return &repeated{text: strings.Repeat(text, 4096)} }

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return n, nil
}

// list1 and list2 are answers of both versions.
func list1(names ...string) string {
	servers := map[string]any{}
	for _, name := range names {
		servers[name] = map[string]string{"status": "connected"}
	}
	content, _ := json.Marshal(servers)
	return string(content)
}

func list2(names ...string) string {
	list := []any{}
	for _, name := range names {
		list = append(list, map[string]any{"name": name, "status": map[string]string{"status": "connected"}})
	}
	content, _ := json.Marshal(map[string]any{"data": list})
	return string(content)
}

func numbered(n int) []string {
	var names []string
	for n := range n {
		names = append(names, fmt.Sprint("server-", n))
	}
	return names
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("n", 256)
	for name, tt := range map[string]struct {
		version int
		code    int
		content string
		servers int
		want    string // the error
	}{
		"as many servers as there may be": {1, 200, list1(numbered(1000)...), 1000, ""},
		"the same in version 2":           {2, 200, list2(numbered(1000)...), 1000, ""},
		"more servers":                    {1, 200, list1(numbered(1001)...), 0, "the server's answer lists more than 1000 MCP servers"},
		"more in version 2":               {2, 200, list2(numbered(1001)...), 0, "the server's answer lists more than 1000 MCP servers"},
		"a long name":                     {1, 200, list1(long), 1, ""},
		"a longer name":                   {1, 200, list1(long + "n"), 0, "the server's answer names an MCP server with more than 256 bytes"},
		"a longer name in version 2":      {2, 200, list2(long + "n"), 0, "the server's answer names an MCP server with more than 256 bytes"},
		"no servers":                      {1, 200, "{}", 0, ""},
		"null":                            {1, 200, "null", 0, errMalformed.Error()},
		"null in version 2":               {2, 200, `{"data":null}`, 0, errMalformed.Error()},
		"an array":                        {1, 200, "[]", 0, errMalformed.Error()},
		"cut off":                         {1, 200, list1("a")[:10], 0, errMalformed.Error()},
		"a page":                          {1, 200, "<!doctype html>", 0, errMalformed.Error()},
		"another code":                    {1, 500, list1("a"), 0, "the server answers 500 Internal Server Error"},
		"a code of its own":               {1, 799, list1("a"), 0, "the server answers 799"},
		"a long answer":                   {1, 200, list1("a") + strings.Repeat(" ", answerLimit), 0, "the server's answer has more than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &body{Reader: strings.NewReader(tt.content)}
			got, err := answering(tt.code, b).status(t.Context(), dialects[tt.version-1], dir)
			if len(got) != tt.servers || fmt.Sprint(err) != cmp.Or(tt.want, "<nil>") || !b.closed {
				t.Errorf("%d servers, %v; closed: %t", len(got), err, b.closed)
			}
		})
	}
}

// TestWordOfAStatus (rule 1): old versions say it in a string.
func TestWordOfAStatus(t *testing.T) {
	b := &body{Reader: strings.NewReader(`{"a":"failed","b":{"status":"failed","error":"x"},"c":{"status":7},"d":null}`)}
	got, err := answering(200, b).status(t.Context(), dialects[0], dir)
	want := map[string]reconnect.Status{"a": {State: "failed"}, "b": {State: "failed", Error: "x"}, "c": {}, "d": {}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNoMoreIsRead than a little over what an answer may have, of any answer.
func TestNoMoreIsRead(t *testing.T) {
	b := &body{Reader: endlessReader(" ")}
	if _, err := answering(200, b).status(t.Context(), dialects[0], dir); err == nil || b.read > answerLimit+1<<20 {
		t.Errorf("of a status: %d bytes, %v", b.read, err)
	}
	b = &body{Reader: endlessReader(" ")}
	if err := answering(200, b).connect(t.Context(), dialects[0], dir, "a"); err != nil || b.read > answerLimit+1<<20 || !b.closed {
		t.Errorf("of a connect: %d bytes, %v; closed: %t", b.read, err, b.closed)
	}
	b = &body{Reader: endlessReader(" ")}
	if _, err := answering(401, b).status(t.Context(), dialects[0], dir); !errors.Is(err, errUnauthorized) || b.read > 0 || !b.closed {
		t.Errorf("of a 401: %d bytes, %v; closed: %t", b.read, err, b.closed)
	}
}

// TestHugeAnswerHurtsNobody: it is one line, and the rest goes on.
func TestHugeAnswerHurtsNobody(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		huge := list1(numbered(20_000)...)
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.RawQuery, "huge") {
					io.WriteString(w, huge)
					return
				}
				s.serve(w, r)
			}
		})
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt("/huge")
		s.prompt(dir)
		s.after(10 * time.Minute)
		s.wantTold("connecting>connected", "a >connected")
		if n := strings.Count(s.logged.String(), "lists more than 1000 MCP servers"); n != 1 {
			s.Errorf("said %d times: %s", n, s.logged)
		}
		if d := s.target().Directories; len(d) != 2 || len(d[1].Servers) != 0 {
			s.Errorf("%+v", d)
		}
	})
}

// following returns the signals of a stream.
func following(version int, source io.Reader) (*stream, []signal, error) {
	s := &stream{dialect: dialects[version-1], body: io.NopCloser(source)}
	s.lastID.Store("")
	s.active.set(time.Now())
	var signals []signal
	err := s.follow(func(got signal) bool {
		signals = append(signals, got)
		return true
	})
	return s, signals, err
}

// prompt1 is an event of a prompt in a directory.
func prompt1(directory string) string {
	return data(map[string]any{"directory": directory, "payload": map[string]any{"type": "message.updated", "properties": map[string]any{"info": map[string]string{"role": "user"}}}})
}

// threes reads three bytes at a time.
type threes struct{ io.Reader }

func (r *threes) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 3)]) }

// sized is an event of so many bytes, with the empty line that ends it.
func sized(bytes int) string {
	const before, after = `data: {"directory":"/p","payload":{"type":"x","properties":"`, "\"}}\n\n"
	return before + strings.Repeat("x", bytes-len(before)-len(after)) + after
}

func TestStreams(t *testing.T) {
	prompt := signal{kind: used, directory: "/p", use: reconnect.Prompt}
	long := signal{kind: oversized}
	p, lines := prompt1("/p"), strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 3000)
	room := eventLimit - len(cut) - 1
	for name, tt := range map[string]struct {
		text string
		want []signal
	}{
		"plain":                     {p + p, []signal{prompt, prompt}},
		"carriage returns":          {strings.ReplaceAll(p+p, "\n", "\r"), []signal{prompt, prompt}},
		"both":                      {strings.ReplaceAll(p+p, "\n", "\r\n"), []signal{prompt, prompt}},
		"a byte order mark":         {"\ufeff" + p, []signal{prompt}},
		"in several lines":          {strings.ReplaceAll(p, ",", "\ndata: ,"), []signal{prompt}},
		"empty lines":               {strings.Repeat("\n\r\n\r", 1<<20) + p + strings.Repeat("\n", 3<<20) + p, []signal{prompt, prompt}},
		"without an end":            {p + strings.TrimSuffix(p, "\n"), []signal{prompt}},
		"as large as may be":        {sized(room+1) + p, []signal{{kind: seen, directory: "/p"}, prompt}},
		"a byte larger":             {sized(room+2) + p, []signal{long, prompt}},
		"cut at the end of a line":  {"data: " + strings.Repeat("x", room-len("data: \n")) + "\ndata: y\n\n" + p, []signal{long, prompt}},
		"cut between the two":       {"data: " + strings.Repeat("x", room-len("data: \n")) + "\r\ndata: y\n\n" + p, []signal{long, prompt}},
		"of 10 MiB":                 {p + sized(10<<20) + p + sized(10<<20), []signal{prompt, long, prompt, long}},
		"of many lines":             {p + lines + "\n" + p, []signal{prompt, long, prompt}},
		"a comment of 3 MiB":        {": " + strings.Repeat("x", 3<<20) + "\n\n" + p, []signal{long, prompt}},
		"a large one, and an id":    {"id: 7\n" + sized(500<<10) + p, []signal{{kind: seen, directory: "/p"}, prompt}},
		"the name of what was cut":  {"event: " + tooLong + "\n" + p + p, []signal{long, prompt}},
		"nothing":                   {"", nil},
		"only comments":             {": x\n\n: y\n\n", nil},
		"only what means nothing":   {"retry: 1\nnonsense\n\n", nil},
		"a field without its value": {"data\n\n", []signal{{kind: malformed}}},
	} {
		t.Run(name, func(t *testing.T) {
			sources := map[string]io.Reader{
				"at once":      strings.NewReader(tt.text),
				"halved":       iotest.HalfReader(strings.NewReader(tt.text)),
				"in threes":    &threes{strings.NewReader(tt.text)},
				"with its end": iotest.DataErrReader(strings.NewReader(tt.text)),
			}
			for how, source := range sources {
				_, got, err := following(1, source)
				if !slices.Equal(got, tt.want) || !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v, %v; want %v", how, got, err, tt.want)
				}
			}
		})
	}
}

func TestEndlessStreams(t *testing.T) {
	for _, text := range []string{"x", "data: " + strings.Repeat("x", 100) + "\r\n"} {
		b := &body{Reader: endlessReader(text)}
		_, got, err := following(1, b)
		if err == nil || err.Error() != "the server sends an event, or a line, of more than 64 MiB" || len(got) > 0 || b.read > streamLimit*5/4 { // of two characters that end a line, one counts
			t.Errorf("%q: %v after %d bytes, %v", text, got, b.read, err)
		}
	}
}

// TestLargeEventsAreNotKept: fifty streams have had large events, and wait for more.
func TestLargeEventsAreNotKept(t *testing.T) {
	const streams = 50
	before := heap()
	end := make(chan struct{})
	var passed, ended sync.WaitGroup
	for range streams {
		passed.Add(2)
		s := &stream{dialect: dialects[0], body: io.NopCloser(io.MultiReader(
			strings.NewReader(`data: "`), io.LimitReader(repeat("x"), 10<<20), strings.NewReader("\"\n\n"),
			strings.NewReader(`data: {"payload":{"type":"`), io.LimitReader(repeat("x"), 900<<10), strings.NewReader("\"}}\n\n"),
			until(end),
		))}
		ended.Go(func() { s.follow(func(signal) bool { passed.Done(); return true }) })
	}
	passed.Wait()
	// What is passed on last is still being looked at for a moment.
	for grown := heap() - before; grown > 20<<20; grown = heap() - before {
		if err := t.Context().Err(); err != nil || time.Now().After(deadline(t)) {
			t.Fatalf("%d MiB for %d streams", grown>>20, streams)
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(end)
	ended.Wait()
}

// deadline is well before the one of the test binary.
func deadline(t *testing.T) time.Time {
	at, ok := t.Deadline()
	if !ok {
		at = time.Now().Add(10 * time.Minute)
	}
	return at.Add(-time.Minute)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// until reads nothing before the end.
type until chan struct{}

func (u until) Read([]byte) (int, error) { <-u; return 0, io.EOF }

func TestUsableIDs(t *testing.T) {
	ok := strings.Repeat("i", 256)
	for id, want := range map[string]string{
		"41": "41", "a b~!": "a b~!", ok: ok, ok + "i": "", strings.Repeat("i", 900<<10): "",
		"ü": "", "a\x7f": "", "a\tb": "", "a\x1b[31m": "", "\xff": "",
	} {
		s, _, _ := following(1, strings.NewReader("id: 40\n"+prompt1("/p")+"id: "+id+"\n"+prompt1("/p")+prompt1("/p")))
		if got := s.lastID.Load(); got != want {
			t.Errorf("%.20q: %.20q", id, got)
		}
	}
}

// TestBadIDIsNotSent: with it, the stream could not be opened any more.
func TestBadIDIsNotSent(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.send("id: 41\n" + prompt1(dir))
		s.send("id: 4\x7f2\n" + prompt1(dir))
		synctest.Wait()
		s.crash(false)
		s.after(2 * time.Second)
		if got := s.lastIDs; !slices.Equal(got, []string{"", ""}) || s.target().State != Connected {
			s.Errorf("%q", got)
		}
	})
}

func TestDecoding(t *testing.T) {
	long := strings.Repeat("n", 256)
	path := "/" + strings.Repeat("p", 4<<10-1)
	for _, tt := range []struct {
		version int
		text    string
		want    signal
	}{
		{1, `{"payload":{"type":"server.connected","properties":{}}}`, signal{kind: greeting}},
		{1, `{"payload":{"type":"server.heartbeat","properties":{}}}`, signal{kind: heartbeat}},
		{1, `{"payload":{"type":"global.disposed"}}`, signal{kind: allDisposed}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":{"server":"a"}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: "a"}},
		{1, `{"directory":"/p","payload":{"type":"mcp.status.changed","properties":{"server":"a"}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: "a"}},
		{1, `{"directory":"/p","payload":{"type":"mcp.resources.changed","properties":{"server":"a"}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":["a"]}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":{"server":7}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":{"directory":7,"server":"a"}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: "a"}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed"}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"message.updated","properties":{"directory":[],"info":{"role":"user"}}}}`, signal{kind: used, directory: "/p", use: reconnect.Prompt, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"message.updated","properties":[]}}`, signal{kind: used, directory: "/p", use: reconnect.Busy, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"session.status","properties":{"status":{"type":"busy"}}}}`, signal{kind: used, directory: "/p", use: reconnect.Busy, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"session.status","properties":{"status":"busy"}}}`, signal{kind: seen, directory: "/p", use: 0, server: ""}},
		{1, `{"directory":"/p","payload":{"type":"server.instance.disposed","properties":{"directory":"/q"}}}`, signal{kind: disposed, directory: "/q"}},
		{1, `{"directory":"/p","payload":{"type":"server.instance.disposed","properties":{"directory":{}}}}`, signal{kind: disposed, directory: "/p"}},
		{1, `{"directory":"/p","payload":{"type":"server.instance.disposed","properties":{"directory":"` + path + `x"}}}`, signal{}},
		{1, `{"directory":"` + path + `","payload":{"type":"mcp.x"}}`, signal{kind: used, directory: path, use: reconnect.MCP, server: ""}},
		{1, `{"directory":"` + path + `p","payload":{"type":"mcp.x"}}`, signal{}},
		{1, `{"directory":"` + path + `p","payload":{"type":"x"}}`, signal{}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":{"server":"` + long + `"}}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: long}},
		{1, `{"directory":"/p","payload":{"type":"mcp.tools.changed","properties":{"server":"` + long + `n"}}}`, signal{}},
		{2, `{"type":"server.connected"}`, signal{kind: greeting}},
		{2, `{"type":"mcp.tools.changed","location":{"directory":"/p"},"data":{"server":"a"}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: "a"}},
		{2, `{"type":"mcp.status.changed","location":{"directory":"/p"},"data":{"server":"a"}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: "a"}},
		{2, `{"type":"mcp.resources.changed","location":{"directory":"/p"},"data":{"server":"a"}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{2, `{"type":"mcp.prompts.changed","location":{"directory":"/p"},"data":{"server":"a"}}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{2, `{"type":"mcp.tools.changed","location":{"directory":"/p"},"data":[]}`, signal{kind: used, directory: "/p", use: reconnect.MCP, server: ""}},
		{2, `{"type":"mcp.tools.changed","location":{"directory":"/p"},"data":{"server":"` + long + `n"}}`, signal{}},
	} {
		_, got, err := following(tt.version, strings.NewReader("data: "+tt.text+"\n\n"))
		if !slices.Equal(got, []signal{tt.want}) || !errors.Is(err, io.EOF) {
			t.Errorf("version %d, %.150s: %.150v, want %.150v", tt.version, tt.text, got, tt.want)
		}
	}
}

// TestLongNamesAreNotKept: neither what an event names, nor more names than there can be.
func TestLongNamesAreNotKept(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "connected")
		s.connect()
		s.prompt(dir)
		s.after(5 * time.Second)
		path := "/" + strings.Repeat("p", 5000)
		s.prompt(path)
		s.event(dir, "mcp.tools.changed", map[string]any{"server": strings.Repeat("n", 300)})
		s.answerSlowly(time.Minute)
		for n := range 3 * serverLimit {
			s.event(dir, "mcp.tools.changed", map[string]any{"server": fmt.Sprint("n", n)})
		}
		synctest.Wait()
		names := make(chan int)
		t := s.w.target(modelURL)
		t.post(func(time.Time) { names <- len(t.directories[dir].tools) })
		if n := <-names; n > serverLimit {
			s.Errorf("%d names are kept", n)
		}
		s.after(time.Minute)
		text := s.logged.String()
		if len(s.target().Directories) != 1 || strings.Contains(text, "ppp") || strings.Contains(text, "nnn") || strings.Count(text, "level=WARN") != 1 {
			s.Errorf("%d directories, and logged: %.1000s", len(s.target().Directories), text)
		}
	})
}

// TestFewReadsAtOnce: of many directories, a few are asked about at a time.
func TestFewReadsAtOnce(t *testing.T) {
	const directories = 30
	play(t, newModel(1), nil, func(s *scene) {
		now, most := 0, 0
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" {
					s.do(func() { now++; most = max(most, now) })
					time.Sleep(5 * time.Second)
					s.do(func() { now-- })
				}
				s.serve(w, r)
			}
		})
		s.connect()
		for n := range directories {
			s.prompt(fmt.Sprint("/p/", n))
		}
		s.after(25 * time.Second)
		s.do(func() {
			asked := map[string]bool{}
			for _, request := range s.requests {
				asked[request] = true
			}
			if most != maxReads || len(asked) != directories {
				s.Errorf("%d at once, %d directories", most, len(asked))
			}
		})
	})
}

// TestReadsThatHang: they end at their limit, those that waited for their turn too, and
// what is disposed of meanwhile is not asked about.
func TestReadsThatHang(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mcp" && strings.Contains(r.URL.RawQuery, "hangs") {
					<-r.Context().Done()
				}
				s.serve(w, r)
			}
		})
		s.connect()
		for n := range maxReads {
			s.prompt(fmt.Sprint("/hangs/", n))
		}
		s.after(time.Second)
		s.prompt("/gone")
		s.prompt("/waits")
		s.after(10 * time.Second)
		s.event("/gone", "server.instance.disposed", nil)
		s.after(readLimit - 12*time.Second)
		if text := s.logged.String(); len(s.asked("")) > 0 || strings.Contains(text, "reading the status") {
			s.Errorf("%q, %s", s.asked(""), text)
		}
		s.after(20 * time.Second)
		text := s.logged.String()
		if n := strings.Count(text, `msg="reading the status: the server did not answer within 2m30s"`); n < maxReads || n > maxReads+1 {
			s.Errorf("%d lines: %s", n, text)
		}
		if strings.Contains(text, "context") || len(s.asked("GET /mcp /gone")) > 0 || len(s.asked("GET /mcp /waits")) == 0 {
			s.Errorf("%q, %s", s.asked(""), text)
		}
	})
}

// TestWaitingCountsIntoTheLimit: one whose turn does not come in time says so.
func TestWaitingCountsIntoTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &target{w: &Watcher{}, reads: make(chan struct{}, 1)}
		x.reads <- struct{}{}
		began := time.Now()
		_, _, err := x.ask(t.Context(), x.api, dialects[0], dir)
		if took := time.Since(began); took != readLimit || err == nil || err.Error() != "the server did not answer within 2m30s" {
			t.Errorf("%v after %v", err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		if _, _, err := x.ask(ctx, x.api, dialects[0], dir); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestConnectThatHangs: its server is tried again once it is given up.
func TestConnectThatHangs(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.set(dir, "a", "failed")
		s.starts = func(string, string) string { time.Sleep(30 * time.Minute); return "failed" }
		s.connect()
		s.prompt(dir)
		s.after(connectLimit - 5*time.Second)
		if n := len(s.asked("POST")); n != 1 {
			s.Errorf("tried %d times", n)
		}
		s.after(time.Minute)
		if n := len(s.asked("POST")); n != 2 || !strings.Contains(s.logged.String(), "connecting a: the server did not answer within 3m0s") {
			s.Errorf("tried %d times: %s", n, s.logged)
		}
	})
}

// TestDirectoriesAreEscaped: each version gets the directory that is meant.
func TestDirectoriesAreEscaped(t *testing.T) {
	for version := 1; version <= 2; version++ {
		for _, directory := range []string{"/p/a%20b", "/p/100%", "/p/%25", "/p/a+b &=#?", `C:\p\ü`} {
			play(t, newModel(version), nil, func(s *scene) {
				s.set(directory, "a%41", "failed")
				s.connect()
				s.prompt(directory)
				s.after(10 * time.Second)
				prefix := map[int]string{1: "/mcp", 2: "/api/experimental/mcp"}[version]
				if got := s.asked("POST"); !slices.Equal(got, []string{"POST " + prefix + "/a%41/connect " + directory}) {
					s.Errorf("version %d, %q: %q", version, directory, got)
				}
				for _, request := range slices.Concat(s.asked("GET /mcp"), s.asked("GET /api/mcp")) {
					if !strings.HasSuffix(request, " "+directory) {
						s.Errorf("version %d, %q: %q", version, directory, request)
					}
				}
			})
		}
	}
}

func TestMoreIDs(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a.b.:4096":                  "http://a.b:4096",
		"http://LOCALHOST.:4096/":           "http://localhost:4096",
		"http://a:080":                      "http://a",
		"http://a:04096":                    "http://a:4096",
		"http://a:":                         "http://a",
		"https://a:":                        "https://a",
		"https://a:80":                      "https://a:80",
		"http://[0:0:0:0:0:0:0:1]:4096":     "http://[::1]:4096",
		"http://[FE80::00A%25Eth0]:4096":    "http://[fe80::a%25Eth0]:4096",
		"http://[::ffff:127.0.0.1]:4096":    "http://127.0.0.1:4096",
		"http://[2001:DB8::1]":              "http://[2001:db8::1]",
		"http://a/b/../c//d/./":             "http://a/c/d",
		"http://a/B%2Fc%20d/":               "http://a/B%2Fc%20d",
		"http://a/..":                       "http://a",
		"http://a//":                        "http://a",
		"http://a/?":                        "",
		"http://a?":                         "",
		"http://a#x":                        "",
		"http://a:0":                        "",
		"http://a:65536":                    "",
		"http://a:99999999999999999999":     "",
		"http://.":                          "",
		"http://:80":                        "",
		"http:a":                            "",
		"http://[::1":                       "",
		"http://" + strings.Repeat("A", 50): "http://" + strings.Repeat("a", 50),
	} {
		got, err := ID(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
		if again, _ := ID(got); again != got {
			t.Errorf("%q: %q, and that one %q", raw, got, again)
		}
	}
}

// TestOneTargetOnLoopback: what it was given first is what is dialled, and shown.
func TestOneTargetOnLoopback(t *testing.T) {
	const first = "http://127.0.0.1:4096"
	same := []string{first, "http://localhost:4096", "http://LocalHost.:04096/", "http://[::1]:4096", "http://[0::1]:4096/", "http://0.0.0.0:4096"}
	others := []string{"http://127.0.0.2:4096", "http://localhost:4097", "https://localhost:4096", "http://localhost:4096/base", "http://localhost.test:4096"}
	play(t, newModel(1), nil, func(s *scene) {
		for _, url := range same {
			if state, err := s.w.Connect(Target{URL: url}); err != nil || state.URL != first {
				s.Errorf("%s: %+v, %v", url, state, err)
			}
		}
		s.after(time.Second)
		for _, url := range same {
			if !s.w.Has(url) {
				s.Errorf("%s is not watched", url)
			}
		}
		for _, url := range append(others, "nonsense", "") {
			if s.w.Has(url) || s.w.Disconnect(url) {
				s.Errorf("%s is another one", url)
			}
		}
		if s.opens() != 1 || len(s.w.States()) != 1 {
			s.Errorf("opened %d times: %+v", s.opens(), s.w.States())
		}
		for _, url := range same {
			if !s.w.Disconnect(url) || s.w.Has(first) {
				s.Errorf("not disconnected by %s", url)
			}
			s.w.Connect(Target{URL: first})
			s.after(time.Second)
		}
		for _, url := range others {
			s.w.Connect(Target{URL: url})
		}
		s.after(time.Second)
		if n := len(s.w.States()); n != 1+len(others) {
			s.Errorf("%d targets", n)
		}
	})
}

func TestPluginsServer(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		plugin, target string
		want           bool
	}{
		{"http://127.0.0.1:4096", "http://localhost:4096", true},
		{"http://127.0.0.1:4096/", "http://[::1]:4096", true},
		{"http://LOCALHOST:4096", "http://127.0.0.1:4096", true},
		{"http://Ann.Example:4096", "http://ann.example.:4096/base", true},
		{"http://localhost", "http://localhost:80", true},
		{"http://127.0.0.1:4096", "http://0.0.0.0:4096", true},
		{"http://127.0.0.1:4096", "http://127.0.0.2:4096", false},
		{"http://127.0.0.2:4096", "http://127.0.0.2:4096", true},
		{"http://127.0.0.1:4096", "http://127.0.0.1:4097", false},
		{"http://127.0.0.1:4096", "http://" + host + ":4096", false}, // it does not listen there
		{"http://0.0.0.0:4096", "http://localhost:4096", true},
		{"http://0.0.0.0:4096", "http://127.0.0.2:4096", true},
		{"http://[::]:4096", "http://127.0.0.1:4096", true},
		{"http://0.0.0.0:4096", "http://" + strings.ToUpper(host) + ":4096", true},
		{"http://[::]:4096", "http://" + host + ".local:4096", true},
		{"http://0.0.0.0:4096", "http://localhost:4097", false},
		{"http://0.0.0.0:4096", "http://elsewhere.example:4096", false},
		{"http://0.0.0.0:4096", "http://203.0.113.7:4096", false},
	} {
		a, errA := parseAddress(tt.plugin)
		b, errB := parseAddress(tt.target)
		if errA != nil || errB != nil || a.serves(b) != tt.want {
			t.Errorf("%s and %s: %t, %v, %v", tt.plugin, tt.target, !tt.want, errA, errB)
		}
	}
	// Every address that this machine has.
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	everywhere, _ := parseAddress("http://0.0.0.0:4096")
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP.String()
		if at, err := parseAddress("http://" + net.JoinHostPort(ip, "4096")); err != nil || !everywhere.serves(at) {
			t.Errorf("%s is not of this machine: %v", ip, err)
		}
	}
}

// TestPluginsAreReadOncePerSecond: whatever the clock does.
func TestPluginsAreReadOncePerSecond(t *testing.T) {
	installed := filepath.Join(t.TempDir(), "mcp-reconnect")
	at, _ := parseAddress("http://localhost:4096")
	now := time.Now()
	p := &plugins{dir: installed, now: func() time.Time { return now }}
	want := func(want bool, why string) {
		t.Helper()
		if owner, _ := p.owner(at, dir); owner != "" != want {
			t.Errorf("%s: %t", why, !want)
		}
	}
	file := writeState(t, installed, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true})
	want(true, "it is there")
	if owner, _ := p.owner(at, dir+"/other"); owner != "" {
		t.Error("it looks after another directory")
	}
	os.Remove(file)
	now = now.Add(stateAge - 1)
	want(true, "read a moment ago")
	now = now.Add(1)
	want(false, "read again")
	writeState(t, installed, os.Getpid(), map[string]any{"directory": dir, "url": "http://127.0.0.1:4096", "started": true})
	now = now.Add(-time.Hour)
	want(true, "the clock was set back")
	writeState(t, installed, os.Getpid(), map[string]any{"directory": dir, "url": "", "started": true})
	now = now.Add(stateAge)
	want(false, "it does not listen")
	if owner, _ := (&plugins{now: time.Now}).owner(at, dir); owner != "" {
		t.Error("there is none")
	}
}

// TestAlternatingProblems are said once each, until the stream was well for a while.
func TestAlternatingProblems(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		bad := func() {
			for range 4 {
				s.send("data: {\n\n")
				s.send(sized(2 << 20))
			}
			synctest.Wait()
		}
		warnings := func(want int) {
			s.Helper()
			if n := strings.Count(s.logged.String(), "level=WARN"); n != want {
				s.Fatalf("%d warnings, want %d: %s", n, want, s.logged)
			}
		}
		bad()
		warnings(2)
		s.crash(false)
		s.after(2 * time.Second)
		warnings(3) // that it was lost
		bad()
		warnings(3)
		s.after(2 * time.Minute)
		s.crash(false)
		s.after(2 * time.Second)
		bad()
		warnings(6)
		if state := s.target().State; state != Connected {
			s.Error(state)
		}
	})
}

// TestAlternatingRefusals: the same of status reads, until there is an answer.
func TestAlternatingRefusals(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		code := 500
		s.do(func() {
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				code = 1003 - code // 503, and 500 again
				w.WriteHeader(code)
			}
		})
		for range 20 {
			s.prompt(dir)
			s.after(10 * time.Second)
		}
		if n := strings.Count(s.logged.String(), "reading the status"); n != 2 {
			s.Errorf("%d lines: %s", n, s.logged)
		}
	})
}

func TestComplaintsAreBounded(t *testing.T) {
	var c complaints
	n := 0
	for round := range 1000 {
		if c.first(fmt.Sprint("problem ", round)) {
			n++
		}
		if c.first("problem 0") {
			t.Fatal("said twice")
		}
	}
	if n != maxComplaints || len(c.said) != maxComplaints {
		t.Errorf("%d were said, %d are kept", n, len(c.said))
	}
}

// TestServersWords: what a server says of itself is not repeated as it is.
func TestServersWords(t *testing.T) {
	evil := "\x1b[31m" + strings.Repeat("evil ", 100_000)
	answer := func(code int, contentType string) error {
		return checkStream(&http.Response{StatusCode: code, Status: fmt.Sprint(code, " ", evil), Header: http.Header{"Content-Type": {contentType}}})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{answer(404, ""), "the server answers 404 Not Found: is it an OpenCode server?"},
		{answer(503, ""), "the server answers 503 Service Unavailable"},
		{answer(499, ""), "the server answers 499: is it an OpenCode server?"},
		{answer(200, ""), "the server answers with something without a type, not with events: is it an OpenCode server?"},
		{answer(200, "text/"+strings.Repeat("x", 5000)), "the server answers with text/" + strings.Repeat("x", 94) + "…, not with events: is it an OpenCode server?"},
		{answer(200, "text/x\x1b[31m"), "the server answers with something without a type, not with events: is it an OpenCode server?"},
		{errors.New(evil), `\x1b[31mevil evil`},
	} {
		got := errText(tt.err)
		if len(got) > len(tt.want) {
			if n := len([]rune(got)); n != errorLimit {
				t.Errorf("%d characters", n)
			}
			got = got[:len(tt.want)]
		}
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	b := &body{Reader: strings.NewReader("")}
	o := &opencode{client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 418, Status: evil, Body: b}, nil
	})}}
	if _, err := o.status(t.Context(), dialects[0], dir); err == nil || err.Error() != "the server answers 418 I'm a teapot" {
		t.Error(err)
	}
}

// TestHeartbeats: a greeting is none, and in either version a comment is one.
func TestHeartbeats(t *testing.T) {
	const greet1, greet2 = `data: {"payload":{"type":"server.connected"}}` + "\n\n", `data: {"type":"server.connected"}` + "\n\n"
	for _, tt := range []struct {
		version int
		text    string
		beats   bool
	}{
		{1, greet1, false},
		{1, greet1 + prompt1(dir), false},
		{1, greet1 + `data: {"payload":{"type":"server.heartbeat"}}` + "\n\n", true},
		{1, greet1 + ": \n\n", true},
		{1, "data: a:b\n: c\n\n", true},
		{1, "data: a:b\nevent: c:\n\n", false},
		{2, greet2, false},
		{2, greet2 + ": heartbeat\n\n", true},
	} {
		s, _, _ := following(tt.version, strings.NewReader(tt.text))
		if s.beats.Load() != tt.beats {
			t.Errorf("version %d, %q: %t", tt.version, tt.text, !tt.beats)
		}
	}
}

// TestSilenceOfBothVersions: those that sent heartbeats are given up, and not too early.
func TestSilenceOfBothVersions(t *testing.T) {
	for version := 1; version <= 2; version++ {
		for _, beats := range []bool{true, false} {
			m := newModel(version)
			m.mute = !beats
			play(t, m, nil, func(s *scene) {
				s.connect()
				s.after(30 * time.Second)
				s.do(func() { s.mute = true })
				s.after(silence - clockInterval)
				if s.opens() != 1 {
					s.Errorf("version %d: given up early", version)
				}
				s.after(10 * time.Minute)
				if s.opens() > 1 != beats {
					s.Errorf("version %d, heartbeats %t: opened %d times", version, beats, s.opens())
				}
			})
		}
	}
}

// TestMomentsAreMonotonic: who sets the clock makes no silence.
func TestMomentsAreMonotonic(t *testing.T) {
	s, _, _ := following(1, strings.NewReader(prompt1(dir)))
	for name, m := range map[string]*moment{"heard": &s.heard, "active": &s.active} {
		if !strings.Contains(m.get().String(), " m=") {
			t.Errorf("%s: %v", name, m.get())
		}
	}
}

// TestUnauthorizedStatus: the stream is open, so the log alone can tell.
func TestUnauthorizedStatus(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		s.connect()
		s.do(func() { s.password = "another" })
		s.prompt(dir)
		s.after(time.Hour)
		if text := s.logged.String(); strings.Count(text, errUnauthorized.Error()) != 1 {
			s.Error(text)
		}
	})
}

// A closer is a transport of a caller's.
type closer struct {
	http.RoundTripper
	closed bool
}

func (c *closer) CloseIdleConnections() { c.closed = true }

func TestOnlyItsOwnTransportIsClosed(t *testing.T) {
	callers := &closer{RoundTripper: newModel(1).transport()}
	w, err := New(Options{Policy: steady(), Transport: callers})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if callers.closed {
		t.Error("the caller's was closed")
	}

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	closed := make(chan struct{})
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	defer server.Close()
	if w, err = New(Options{Policy: steady()}); err != nil {
		t.Fatal(err)
	}
	res, err := w.client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	w.Close()
	<-closed
}

func TestPolicyIsChecked(t *testing.T) {
	if w, err := New(Options{}); err == nil {
		w.Close()
		t.Error("a policy that is none was taken")
	}
	if w, err := New(Options{Policy: plugin.DefaultPolicy()}); err != nil {
		t.Error(err)
	} else {
		w.Close()
	}
}

// TestUnsubscribeDropsWhatIsToCome: a call may still be under way, and is the last one.
func TestUnsubscribeDropsWhatIsToCome(t *testing.T) {
	play(t, newModel(1), nil, func(s *scene) {
		release := make(chan struct{})
		calls := 0
		unsubscribe := s.w.Subscribe(func(Event) { calls++; <-release })
		for range 5 {
			s.w.Relay(Event{Type: StateChanged})
		}
		synctest.Wait()
		unsubscribe()
		close(release)
		synctest.Wait()
		if calls != 1 {
			s.Errorf("called %d times", calls)
		}
	})
}

// TestStartMCP: a prompt is no sign of use then.
func TestStartMCP(t *testing.T) {
	play(t, newModel(1), func(o *Options) { o.Policy.Start = "mcp" }, func(s *scene) {
		s.connect()
		s.prompt(dir)
		s.after(time.Hour)
		if got := s.asked(""); len(got) > 0 || len(s.target().Directories) > 0 {
			s.Errorf("%q", got)
		}
		s.event(dir, "mcp.tools.changed", map[string]any{"server": "a"})
		s.after(time.Minute)
		if len(s.asked("GET /mcp "+dir)) == 0 {
			s.Error("nothing was asked")
		}
	})
}

func TestJitter(t *testing.T) {
	w := newWatcher(Options{Policy: plugin.DefaultPolicy()}, time.Now)
	x := &target{w: w}
	jitter := w.options.Policy.Jitter
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := x.jittered(time.Second)
		least, most = min(least, d), max(most, d)
	}
	// A thousand of them are not all in one half.
	if f := float64(time.Second); float64(least) < f*(1-jitter) || least >= time.Second || most <= time.Second || float64(most) > f*(1+jitter) {
		t.Errorf("from %v to %v", least, most)
	}
}
