package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

const live = `<span id="live">live</span>`

// TestPage looks at the page in a browser: the states that are there, events that come
// later, and the button. A server has a name that is markup.
func TestPage(t *testing.T) {
	target := opencode(t, `{"github":{"status":"connected"},"<b>x</b>":{"status":"needs_auth"}}`, nil)
	w, server := serving(t, serve.Options{})
	if _, err := w.Connect(watch.Target{URL: target.URL}); err != nil {
		t.Fatal(err)
	}
	b := browse(t, server.URL+"/")
	b.shows(live)
	b.shows(`<td>/home/ann/project</td><td>github</td><td class="connected">connected</td>`)
	b.shows(`<td>&lt;b&gt;x&lt;/b&gt;</td><td class="needs_auth">needs_auth</td>`)
	w.Relay(watch.Event{Type: watch.ToolsChanged, Server: "later", Directory: "/d", URL: "http://other", Time: time.Now()})
	b.shows(`http://other  /d  later  tools changed</li>`)
	target.CloseClientConnections()
	target.Listener.Close()
	b.shows(`<td class="waiting">waiting</td>`)
	b.click("retry")
	eventually(t, "a click on the button asks for a retry", func() bool {
		return b.evaluate(`String(performance.getEntriesByName(location.origin + "/retry").length)`) == "1"
	})
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
	eventually(t, "a click on the button asks for a retry", func() bool {
		return b.evaluate(`String(performance.getEntriesByName(location.origin + "/retry").length)`) == "1"
	})
}
