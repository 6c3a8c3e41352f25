package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

// shows waits until the page shows a piece of HTML.
func (b *browser) shows(want string) {
	b.t.Helper()
	var page string
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the page:\n%s", page)
		}
	}()
	eventually(b.t, "the page shows "+want, func() bool {
		page = b.evaluate("document.documentElement?.outerHTML")
		return strings.Contains(page, want)
	})
}

func (b *browser) click(id string) {
	b.evaluate(fmt.Sprintf("document.getElementById(%q).click()", id))
}

const live = `<span id="live" role="status">live</span>`

// TestPage looks at the page in a browser: the states that are there, events that come
// later, and the button. A server has a name that is markup.
func TestPage(t *testing.T) {
	target := opencode(t, `{"github":{"status":"connected"},"<b>x</b>":{"status":"needs_auth"},"late":{"status":"failed"}}`, make(chan string, 100))
	w, server := serving(t, serve.Options{})
	if _, err := w.Connect(watch.Target{URL: target.URL}); err != nil {
		t.Fatal(err)
	}
	b := browse(t, server.URL+"/")
	b.shows(live)
	b.shows(`<td>/home/ann/project</td><td>github</td><td class="connected">connected</td>`)
	b.shows(`<td>&lt;b&gt;x&lt;/b&gt;</td><td class="needs_auth">needs_auth</td>`)
	b.shows(`<strong id="paused" hidden="">`)
	w.Relay(watch.Event{Type: watch.ToolsChanged, Server: "later", Directory: "/d", URL: "http://other", Time: time.Now()})
	b.shows(`http://other  /d  later  tools changed</li>`)
	w.Relay(watch.Event{Type: watch.StateChanged, Server: "far", URL: "http://other", From: "connected", To: "failed", Error: "gone", Origin: "JUDY", Time: time.Now()})
	b.shows(`http://other  far  connected → failed  gone  told by another watch, JUDY</li>`)
	w.Relay(watch.Event{Type: watch.Missed, Error: "7 events are lost", Time: time.Now()})
	b.shows(`missed  7 events are lost</li>`)
	b.click("retry")
	b.shows(`<span id="asked" role="status">trying late in /home/ann/project</span>`)
	target.CloseClientConnections()
	target.Listener.Close()
	b.shows(`<td class="waiting">waiting</td>`)
	b.click("retry")
	b.shows(`connecting to ` + target.URL)
	w.Pause(true)
	b.shows(`<strong id="paused">reconnecting is paused</strong>`)
	b.click("retry")
	b.shows(`<span id="asked" role="status">error 409 reconnecting is paused; mcp-reconnect resume ends that</span>`)
	w.Pause(false)
	b.shows(`<strong id="paused" hidden="">`)
}

// TestPageComesBack has a proxy that answers for a server that is away, which no browser
// asks for a stream again.
func TestPageComesBack(t *testing.T) {
	w, handler := handles(t, serve.Options{})
	var away atomic.Int32 // what the proxy answers
	var streams atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			streams.Add(1)
		}
		if status := away.Load(); status != 0 {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(int(status))
			io.WriteString(w, "<h1>this is the proxy</h1>")
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		handler.Close()
		server.Close()
	})
	b := browse(t, server.URL+"/")
	b.shows(live)
	away.Store(http.StatusBadGateway)
	server.CloseClientConnections()
	b.shows("not connected to mcp-reconnect; trying again")
	b.shows(`<p id="problem" role="alert">the states below may be old: error 502 Bad Gateway</p>`)
	seen := streams.Load()
	eventually(t, "it asks again and again", func() bool { return streams.Load() >= seen+2 })
	b.shows("not connected to mcp-reconnect; trying again in ")
	b.click("retry")
	b.shows(`<span id="asked" role="status">error 502 Bad Gateway</span>`)
	away.Store(0)
	b.shows(live)
	b.shows(`<p id="problem" role="alert"></p>`)
	w.Relay(watch.Event{Type: watch.ToolsChanged, Server: "after", Time: time.Now()})
	b.shows("after  tools changed")
}

// TestPageWithToken: a link elsewhere with the token leads to the page, whose address is
// without it; so it does to a second watch on the same host, and the first one goes on.
func TestPageWithToken(t *testing.T) {
	var links []string
	for _, token := range []string{token, "another-token-of-this-host"} {
		_, server := serving(t, serve.Options{Token: token})
		links = append(links, server.URL+"/?token="+url.QueryEscape(token))
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a id="0" href=%q>one</a> <a id="1" href=%q>two</a>`, links[0], links[1])
	}))
	defer elsewhere.Close()
	_, port, _ := strings.Cut(elsewhere.URL, "127.0.0.1")
	b := browse(t, "http://localhost"+port)
	for n, link := range links {
		b.shows(`two</a>`)
		b.click(fmt.Sprint(n))
		b.shows(live)
		start, _, _ := strings.Cut(link, "?")
		if address := b.evaluate("location.href"); address != start {
			t.Errorf("the page is at %s", address)
		}
		b.evaluate("history.back()")
	}
	b.shows(`two</a>`)
	start, _, _ := strings.Cut(links[0], "?")
	b.evaluate(fmt.Sprintf("location.href = %q", start))
	b.shows(live)
	b.click("retry")
	b.shows(`<span id="asked" role="status">error 404 there is nothing to try: no OpenCode is watched`)
}
