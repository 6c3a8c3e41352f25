package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

// serving returns a Watcher without targets, and its server on loopback.
func serving(t *testing.T, o serve.Options) (*watch.Watcher, *httptest.Server) {
	t.Helper()
	w, err := watch.New(watch.Options{Policy: plugin.DefaultPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := serve.New(w, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Close()
		server.Close()
		w.Close()
	})
	return w, server
}

// A reader is a client of /events.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	id    string
}

func read(t *testing.T, server *httptest.Server, lastEventID string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatal(got)
	}
	return &reader{t: t, lines: bufio.NewScanner(res.Body)}
}

// next returns the next event, and whether there was one.
func (r *reader) next() (e watch.Event, ok bool) {
	r.t.Helper()
	for kind := ""; r.lines.Scan(); {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "id":
			r.id = value
		case "event":
			kind = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil || e.Type != kind {
				r.t.Fatalf("event %s: %v: %s", kind, err, value)
			}
			return e, true
		}
	}
	return e, false
}

func (r *reader) wants(servers ...string) {
	r.t.Helper()
	for _, want := range servers {
		if e, ok := r.next(); !ok || e.Server != want {
			r.t.Fatalf("%+v, %t; want %s", e, ok, want)
		}
	}
}

func tell(w *watch.Watcher, from, to int) {
	for n := from; n <= to; n++ {
		w.Relay(watch.Event{Type: watch.ToolsChanged, Server: fmt.Sprint("s", n), Time: time.Now()})
	}
}

func TestEventsAndReplay(t *testing.T) {
	w, server := serving(t, serve.Options{})
	first := read(t, server, "")
	tell(w, 1, 3)
	first.wants("s1", "s2")
	id := first.id
	first.wants("s3")
	again := read(t, server, id)
	again.wants("s3")
	if again.id == id || again.id == "" {
		t.Errorf("ids %q and %q", id, again.id)
	}
	read(t, server, "another-1").wants("s1", "s2", "s3") // of another process
	read(t, server, "nonsense").wants("s1")
	fresh := read(t, server, "")
	tell(w, 4, 2500)
	fresh.wants("s4", "s5")
	for again.wants("s4"); ; {
		if e, ok := again.next(); !ok || e.Server == "s2500" {
			break
		}
	}
	// The last thousand.
	if e, _ := read(t, server, id).next(); e.Server != "s1501" {
		t.Errorf("replayed from %s on", e.Server)
	}
}

// TestSlowReaders are dropped, and nobody waits for them.
func TestSlowReaders(t *testing.T) {
	w, server := serving(t, serve.Options{})
	slow, healthy := read(t, server, ""), read(t, server, "")
	long := strings.Repeat("x", 2000)
	const events = 9000 // more than any buffer between here and there holds
	var had atomic.Int64
	go func() {
		for n := range events {
			w.Relay(watch.Event{Type: watch.StateChanged, Server: fmt.Sprint(n), Error: long})
			for int64(n)-had.Load() > 500 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	for n := range events {
		healthy.wants(fmt.Sprint(n))
		had.Add(1)
	}
	n := 0
	for _, ok := slow.next(); ok; _, ok = slow.next() {
		n++
	}
	if n >= events {
		t.Error("the slow one got everything")
	}
	// It comes back, and has what is kept.
	if _, ok := read(t, server, slow.id).next(); !ok {
		t.Error("it cannot come back")
	}
}

func do(t *testing.T, method, url, body string, header map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestWhoMayAsk(t *testing.T) {
	const friend = "http://localhost:3000"
	_, open := serving(t, serve.Options{Origins: []string{friend}, Hosts: []string{"box.example"}})
	_, guarded := serving(t, serve.Options{Token: "t0ken"})
	for name, tt := range map[string]struct {
		server *httptest.Server
		method string
		path   string
		header map[string]string
		status int
	}{
		"itself":                   {open, "GET", "/states", nil, 200},
		"the page":                 {open, "GET", "/", nil, 200},
		"elsewhere":                {open, "GET", "/nothing", nil, 404},
		"another method":           {open, "DELETE", "/states", nil, 405},
		"localhost":                {open, "GET", "/states", map[string]string{"Host": "localhost:1"}, 200},
		"its name":                 {open, "GET", "/states", map[string]string{"Host": "Box.example"}, 200},
		"a name made to lead here": {open, "GET", "/states", map[string]string{"Host": "evil.example"}, 403},
		"no name":                  {open, "GET", "/states", map[string]string{"Host": ""}, 200}, // net/http fills it in
		"a page elsewhere":         {open, "GET", "/events", map[string]string{"Origin": "https://evil.example"}, 403},
		"a sandboxed page":         {open, "GET", "/states", map[string]string{"Origin": "null"}, 403},
		"its own page":             {open, "GET", "/states", map[string]string{"Origin": open.URL}, 200},
		"a friend's page":          {open, "GET", "/states", map[string]string{"Origin": friend}, 200},
		"a friend's question":      {open, "OPTIONS", "/retry", map[string]string{"Origin": friend}, 204},
		"a form elsewhere":         {open, "POST", "/retry", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a friend's retry":         {open, "POST", "/retry", map[string]string{"Origin": friend, "Sec-Fetch-Site": "cross-site"}, 202},
		"a stranger's retry":       {open, "POST", "/retry", map[string]string{"Origin": "http://localhost:3001"}, 403},
		"a retry from a shell":     {open, "POST", "/retry", nil, 202},
		"without the token":        {guarded, "GET", "/states", nil, 401},
		"a wrong token":            {guarded, "GET", "/states?token=x", map[string]string{"Authorization": "Bearer t0keN"}, 401},
		"the token":                {guarded, "GET", "/states", map[string]string{"Authorization": "Bearer t0ken"}, 200},
		"the token in the address": {guarded, "GET", "/?token=t0ken", nil, 200},
		"the token as a cookie":    {guarded, "GET", "/states", map[string]string{"Cookie": "mcp-reconnect-token=t0ken"}, 200},
	} {
		res := do(t, tt.method, tt.server.URL+tt.path, "", tt.header)
		if res.StatusCode != tt.status {
			t.Errorf("%s: %s", name, res.Status)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); (allowed != "") != (tt.header["Origin"] == friend) {
			t.Errorf("%s: allows the origin %q", name, allowed)
		}
		if name == "the token in the address" && !strings.Contains(res.Header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
			t.Errorf("the page gets no cookie: %q", res.Header.Get("Set-Cookie"))
		}
	}
}

func TestRetryRequests(t *testing.T) {
	_, server := serving(t, serve.Options{})
	for body, want := range map[string]int{
		"": 202, `{}`: 202, `{"servers":["a"],"directories":["/x"]}`: 202,
		"x": 400, `[]`: 400, `{"servers":"a"}`: 400, `{"directories":"/x"}`: 400, `{"servers":["` + strings.Repeat("x", 1<<17) + `"]}`: 400,
	} {
		if res := do(t, "POST", server.URL+"/retry", body, nil); res.StatusCode != want {
			t.Errorf("%.30s: %s", body, res.Status)
		}
	}
}

// opencode answers as an OpenCode 1 with one directory in use, whose server has a name that is markup.
func opencode(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			io.WriteString(w, `{"github":{"status":"connected"},"<b>x</b>":{"status":"needs_auth"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\",\"properties\":{\"info\":{\"role\":\"user\"}}}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server
}

// TestPage looks at the page in a browser: the states that are there, an event that
// comes later, and the button.
func TestPage(t *testing.T) {
	target := opencode(t)
	w, server := serving(t, serve.Options{})
	if _, err := w.Connect(watch.Target{URL: target.URL}); err != nil {
		t.Fatal(err)
	}
	b := browse(t, server.URL+"/")
	shows := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			page := b.evaluate("document.documentElement?.outerHTML")
			if strings.Contains(page, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the page does not show %s:\n%s", want, page)
			}
		}
	}
	shows(`<span id="live">live</span>`)
	shows(`<td>/home/ann/project</td><td>github</td><td class="connected">connected</td>`)
	shows(`<td>&lt;b&gt;x&lt;/b&gt;</td><td class="needs_auth">needs_auth</td>`)
	w.Relay(watch.Event{Type: watch.ToolsChanged, Server: "later", Directory: "/d", URL: "http://other", Time: time.Now()})
	shows(`http://other  /d  later  tools changed</li>`)
	target.CloseClientConnections()
	target.Listener.Close()
	shows(`<td class="waiting">waiting</td>`)
	b.evaluate(`document.getElementById("retry").click()`)
	for deadline := time.Now().Add(30 * time.Second); b.evaluate(`String(performance.getEntriesByName(location.origin + "/retry").length)`) != "1"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a click on the button asks for no retry")
		}
	}
}
