package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
	"github.com/mcp-reconnect/mcp-reconnect/watch/serve"
)

const token = "S3cret.of_16~chars+/=" // with all that needs encoding in an address

// handles returns a Watcher without targets, and the handler of its requests.
func handles(t *testing.T, o serve.Options) (*watch.Watcher, *serve.Server) {
	t.Helper()
	policy := plugin.DefaultPolicy()
	policy.InitialDelay, policy.MaxDelay, policy.PollInterval = time.Hour, time.Hour, time.Hour // nothing is tried unless asked for
	w, err := watch.New(watch.Options{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := serve.New(w, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, handler
}

// serving is the same on loopback.
func serving(t *testing.T, o serve.Options) (*watch.Watcher, *httptest.Server) {
	t.Helper()
	w, handler := handles(t, o)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Close()
		server.Close()
	})
	return w, server
}

type header map[string]string

// do makes a request, and follows no redirect.
func do(t *testing.T, server *httptest.Server, method, path, body string, h header) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range h {
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := *server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestHosts(t *testing.T) {
	_, open := serving(t, serve.Options{Hosts: []string{"Box.example"}, Origins: []string{"https://proxy.example:8443"}})
	_, guarded := serving(t, serve.Options{Token: token})
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, status := range map[string]int{
		"localhost:1": 200, "LocalHost": 200, "localhost.:7333": 200, "127.0.0.1": 200, "[::1]:7333": 200, "10.1.2.3:7333": 200,
		strings.ToUpper(machine) + ".:7333": 200, "box.example": 200, "BOX.example.:80": 200,
		"proxy.example": 200, "proxy.example:8443": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "box.example.evil": 403, "xlocalhost": 403,
	} {
		if res := do(t, open, "GET", "/states", "", header{"Host": host}); res.StatusCode != status {
			t.Errorf("%s: %s", host, res.Status)
		}
		if res := do(t, guarded, "GET", "/states", "", header{"Host": host, "Authorization": "Bearer " + token}); res.StatusCode != 200 {
			t.Errorf("%s with the token: %s", host, res.Status)
		}
		if res := do(t, guarded, "GET", "/states", "", header{"Host": host}); res.StatusCode != 401 {
			t.Errorf("%s without the token: %s", host, res.Status)
		}
	}
}

func TestOrigins(t *testing.T) {
	const friend, app, stranger = "http://localhost:3000", "vscode-webview://0a1b", "https://evil.example"
	w, server := serving(t, serve.Options{Origins: []string{"HTTP://LocalHost:3000", app, "https://box.example:443"}})
	watches(t, w, opencode(t, `{"a":{"status":"failed"}}`, make(chan string, 100)))
	_, guarded := serving(t, serve.Options{Token: token, Origins: []string{friend}})
	for name, tt := range map[string]struct {
		method, path string
		header       header
		status       int
		reads        bool // a page of that origin may read the answer
	}{
		"a shell":                   {"GET", "/states", nil, 200, false},
		"a shell's retry":           {"POST", "/retry", nil, 202, false},
		"a person":                  {"GET", "/", header{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200, false},
		"its own page":              {"GET", "/states", header{"Sec-Fetch-Site": "same-origin"}, 200, false},
		"its retry":                 {"POST", "/retry", header{"Sec-Fetch-Site": "same-origin", "Origin": server.URL}, 202, false},
		"through a proxy":           {"POST", "/retry", header{"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}, 202, false},
		"in an old browser":         {"POST", "/retry", header{"Origin": server.URL}, 202, false},
		"through a proxy with TLS":  {"POST", "/retry", header{"Origin": strings.Replace(server.URL, "http", "https", 1)}, 202, false},
		"a friend":                  {"GET", "/states", header{"Origin": friend, "Sec-Fetch-Site": "same-site"}, 200, true},
		"a friend's retry":          {"POST", "/retry", header{"Origin": friend, "Sec-Fetch-Site": "cross-site"}, 202, true},
		"an old friend's":           {"POST", "/retry", header{"Origin": friend}, 202, true},
		"an application's":          {"POST", "/retry", header{"Origin": app, "Sec-Fetch-Site": "cross-site"}, 202, true},
		"the default port":          {"GET", "/states", header{"Origin": "https://box.example"}, 200, true},
		"a stranger":                {"GET", "/events", header{"Origin": stranger, "Sec-Fetch-Site": "cross-site"}, 403, false},
		"an old stranger":           {"GET", "/events", header{"Origin": stranger}, 403, false},
		"a stranger's retry":        {"POST", "/retry", header{"Origin": stranger, "Sec-Fetch-Site": "cross-site"}, 403, false},
		"a stranger's question":     {"OPTIONS", "/retry", header{"Origin": stranger}, 403, false},
		"a sandboxed page":          {"GET", "/states", header{"Origin": "null"}, 403, false},
		"a form elsewhere":          {"POST", "/retry", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403, false},
		"a form for the page":       {"POST", "/", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403, false},
		"another port":              {"POST", "/retry", header{"Origin": "http://localhost:3001", "Sec-Fetch-Site": "same-site"}, 403, false},
		"another port, no origin":   {"GET", "/states", header{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403, false},
		"a script element":          {"GET", "/page.js", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, false},
		"a link to the page":        {"GET", "/?x", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200, false},
		"a link to the states":      {"GET", "/states", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403, false},
		"a fetch of the page":       {"GET", "/", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, false},
		"nothing there":             {"GET", "/nothing", nil, 404, false},
		"another method":            {"DELETE", "/states", nil, 405, false},
		"a question of no origin's": {"OPTIONS", "/retry", nil, 405, false},
	} {
		res := do(t, server, tt.method, tt.path, "", tt.header)
		if res.StatusCode != tt.status {
			t.Errorf("%s: %s", name, res.Status)
		}
		want := ""
		if tt.reads {
			want = tt.header["Origin"]
		}
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want || res.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: lets %q read", name, got)
		}
	}
	for _, s := range []*httptest.Server{server, guarded} { // the question has no token
		res := do(t, s, "OPTIONS", "/retry", "", header{"Origin": friend, "Sec-Fetch-Site": "same-site", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"})
		if got := res.Header; res.StatusCode != 204 || got.Get("Access-Control-Allow-Origin") != friend || got.Get("Vary") != "Origin" ||
			got.Get("Access-Control-Allow-Headers") != "authorization, content-type, last-event-id" {
			t.Errorf("a friend's question: %s %v", res.Status, got)
		}
	}
	// A friend is told what it lacks, and a stranger nothing.
	if res := do(t, guarded, "GET", "/states", "", header{"Origin": friend}); res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") != friend {
		t.Errorf("a friend without the token: %s %v", res.Status, res.Header)
	}
	if res := do(t, guarded, "GET", "/states", "", header{"Origin": stranger, "Authorization": "Bearer " + token}); res.StatusCode != 403 {
		t.Errorf("a stranger with the token: %s", res.Status)
	}
}

func TestToken(t *testing.T) {
	_, server := serving(t, serve.Options{Token: token})
	const encoded = "S3cret.of_16~chars%2B%2F%3D"
	for name, tt := range map[string]struct {
		path   string
		header header
		status int
	}{
		"none":               {"/states", nil, 401},
		"another":            {"/states", header{"Authorization": "Bearer " + token + "x"}, 401},
		"its beginning":      {"/states", header{"Authorization": "Bearer S3cret"}, 401},
		"an empty one":       {"/states", header{"Authorization": "Bearer "}, 401},
		"nothing":            {"/states?token=", header{"Authorization": ""}, 401},
		"another scheme":     {"/states", header{"Authorization": "Basic " + token}, 401},
		"no scheme":          {"/states", header{"Authorization": token}, 401},
		"as a header":        {"/states", header{"Authorization": "Bearer " + token}, 200},
		"in any case":        {"/states", header{"Authorization": "bEARER " + token}, 200},
		"in the address":     {"/states?token=" + encoded, nil, 200},
		"not encoded":        {"/states?token=" + token, nil, 401},
		"another in it":      {"/?token=x", nil, 401},
		"the page":           {"/", nil, 401},
		"the page's script":  {"/page.js", nil, 401},
		"the old cookie":     {"/states", header{"Cookie": "mcp-reconnect-token=" + token}, 401},
		"events, in address": {"/retry?token=" + encoded, nil, 405},
	} {
		res := do(t, server, "GET", tt.path, "", tt.header)
		if res.StatusCode != tt.status || (res.Header.Get("WWW-Authenticate") == "Bearer") != (tt.status == 401) {
			t.Errorf("%s: %s %v", name, res.Status, res.Header)
		}
		if res.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: sets a cookie", name)
		}
	}

	// A browser gets a cookie for it, and an address without it.
	enter := func(s *httptest.Server, query string, h header) *http.Cookie {
		t.Helper()
		res := do(t, s, "GET", "/?token="+query, "", h)
		if to, err := res.Location(); err != nil || to.String() != s.URL+"/" || res.StatusCode != 303 || len(res.Cookies()) != 1 {
			t.Fatalf("%s, %v, %v", res.Status, to, res.Cookies())
		}
		return res.Cookies()[0]
	}
	cookie := enter(server, encoded, nil)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure || cookie.Path != "/" || strings.Contains(cookie.String(), "S3cret") {
		t.Errorf("%s", cookie)
	}
	if !enter(server, encoded, header{"X-Forwarded-Proto": "https"}).Secure {
		t.Error("the cookie of a page with TLS is sent without TLS")
	}
	_, other := serving(t, serve.Options{Token: "another-token-of-this-host"})
	others := enter(other, "another-token-of-this-host", nil)
	if others.Name == cookie.Name || others.Value == cookie.Value {
		t.Errorf("two servers of a host have the cookies %s and %s", cookie, others)
	}
	both := cookie.Name + "=" + cookie.Value + "; " + others.Name + "=" + others.Value
	swapped := cookie.Name + "=" + others.Value + "; " + others.Name + "=" + cookie.Value
	for _, s := range []*httptest.Server{server, other} {
		if res := do(t, s, "GET", "/", "", header{"Cookie": both}); res.StatusCode != 200 {
			t.Errorf("with the cookie: %s", res.Status)
		}
		if res := do(t, s, "GET", "/", "", header{"Cookie": swapped}); res.StatusCode != 401 {
			t.Errorf("with the cookie of another: %s", res.Status)
		}
	}
	// What the cookie holds is no token.
	if res := do(t, server, "GET", "/states?token="+cookie.Value, "", nil); res.StatusCode != 401 {
		t.Errorf("the cookie's value as a token: %s", res.Status)
	}
}

func TestBadOptions(t *testing.T) {
	w, _ := handles(t, serve.Options{})
	for _, token := range []string{"short", "fifteen-letters", "with a space in it", "with-an-umlaut-ü", "with-a-line-break\n", `with-"quotes"-in-it`, strings.Repeat("x", 99) + ";"} {
		_, err := serve.New(w, serve.Options{Token: token})
		if err == nil || err.Error() != "a token has at least 16 characters, which are letters, digits and . _ ~ + / = -" {
			t.Errorf("%q: %v", token, err)
		}
	}
	for _, origin := range []string{"", "*", "null", "localhost:3000", "http://", "http://x/", "http://x/y", "http://x?y", "http://u@x", "http://x:y", "http://x:", "http://*.x", "http://x y", "http://x\n", "http://x,http://y"} {
		_, err := serve.New(w, serve.Options{Origins: []string{"http://localhost:3000", origin}})
		if err == nil || err.Error() != fmt.Sprintf("%q is no origin such as http://localhost:3000", origin) {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	_, server := serving(t, serve.Options{Token: token})
	entered := header{"Authorization": "Bearer " + token}
	for _, tt := range []struct {
		path   string
		header header
		kind   string
	}{
		{"/", entered, "text/html; charset=utf-8"},
		{"/page.js", entered, "text/javascript; charset=utf-8"},
		{"/page.css", entered, "text/css; charset=utf-8"},
		{"/states", entered, "application/json"},
		{"/events", entered, "text/event-stream"},
		{"/states", nil, "text/plain; charset=utf-8"},                                      // 401
		{"/states", header{"Origin": "https://evil.example"}, "text/plain; charset=utf-8"}, // 403
	} {
		h := do(t, server, "GET", tt.path, "", tt.header).Header
		if h.Get("Content-Type") != tt.kind || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", tt.path, h)
		}
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), rule) {
				t.Errorf("%s: no %s in %s", tt.path, rule, h.Get("Content-Security-Policy"))
			}
		}
	}
}

// watches waits until the only directory of an OpenCode is known.
func watches(t *testing.T, w *watch.Watcher, target *httptest.Server) {
	t.Helper()
	if _, err := w.Connect(watch.Target{URL: target.URL}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its servers are known", func() bool {
		d := w.States()[0].Directories
		return len(d) == 1 && len(d[0].Servers) > 0
	})
}

func TestRetryRequests(t *testing.T) {
	w, server := serving(t, serve.Options{})
	watches(t, w, opencode(t, `{"a":{"status":"failed"}}`, make(chan string, 100)))
	for body, want := range map[string]int{
		"": 202, " \n": 202, `{}`: 202, `{"servers":["a"],"directories":["/home/ann/project"]}` + "\n": 202, `{"urls":[]}`: 202, `{"urls":"http://x"}`: 400,
		"x": 400, `[]`: 400, `{`: 400, `{"servers":"a"}`: 400, `{"directories":"/x"}`: 400, `{"servers":["` + strings.Repeat("x", 1<<17) + `"]}`: 400,
		`{"server":["a"]}`: 400, `{"servers":["a"],"all":true}`: 400, `{"servers":["a"],"force":true}`: 202, `{"force":true}`: 400, `{"servers":[],"force":true}`: 400, `{"servers":["a"],"force":["a"]}`: 400, `{} {}`: 400, `{}x`: 400, `{}]`: 400, `{}` + strings.Repeat(" ", 1<<17): 400,
	} {
		res := do(t, server, "POST", "/retry", body, nil)
		if res.StatusCode != want {
			t.Errorf("%.30s: %s", body, res.Status)
		}
		if got := text(t, res); want == 400 && !strings.Contains(got, "servers, directories, urls, force and nothing else") && !strings.Contains(got, "force restarts connected servers") {
			t.Errorf("%.30s: %s", body, got)
		}
	}
}

// states are the answer to GET /states.
type states struct {
	Paused  *bool
	Targets []watch.TargetState
}

func statesOf(t *testing.T, server *httptest.Server) states {
	t.Helper()
	var s states
	if err := json.Unmarshal([]byte(text(t, do(t, server, "GET", "/states", "", nil))), &s); err != nil {
		t.Fatal(err)
	}
	if s.Paused == nil || s.Targets == nil {
		t.Fatalf("%+v", s)
	}
	return s
}

// TestRetryRetries has a server that is tried again in an hour, or when asked for.
func TestRetryRetries(t *testing.T) {
	connects := make(chan string, 10)
	target := opencode(t, `{"github":{"status":"failed","error":"no"},"other":{"status":"connected"}}`, connects)
	w, server := serving(t, serve.Options{})
	if _, err := w.Connect(watch.Target{URL: target.URL}); err != nil {
		t.Fatal(err)
	}
	waits := func(tries int) {
		t.Helper()
		eventually(t, "it waits for an hour", func() bool {
			s := statesOf(t, server).Targets[0]
			if len(s.Directories) == 0 {
				return false
			}
			for _, server := range s.Directories[0].Servers {
				if server.Name == "github" && server.State == "waiting" && server.Tries == tries && time.Until(server.NextTry) > 10*time.Minute {
					return true
				}
			}
			return false
		})
	}
	<-connects // at first
	waits(1)
	for body, want := range map[string]int{`{"servers":["other"]}`: 202, `{"directories":["/elsewhere"]}`: 404, `{"server":["github"]}`: 400} {
		if res := do(t, server, "POST", "/retry", body, nil); res.StatusCode != want {
			t.Errorf("%s: %s", body, res.Status)
		}
	}
	waits(1)
	if res := do(t, server, "POST", "/retry", `{"servers":["other"],"force":true}`, nil); res.StatusCode != 202 {
		t.Error(res.Status)
	}
	if path := <-connects; path != "/mcp/other/connect" { // though it is connected
		t.Error(path)
	}
	for _, body := range []string{"", `{"servers":["github"]}`, `{"servers":["github"],"directories":["/home/ann/project"]}`} {
		if len(connects) != 0 {
			t.Fatalf("tried before %s", body)
		}
		if res := do(t, server, "POST", "/retry", body, nil); res.StatusCode != 202 {
			t.Errorf("%s: %s", body, res.Status)
		}
		if path := <-connects; path != "/mcp/github/connect" {
			t.Errorf("%s: %s", body, path)
		}
		waits(1) // as a new outage
	}
}

func TestPaused(t *testing.T) {
	w, server := serving(t, serve.Options{})
	if *statesOf(t, server).Paused {
		t.Error("paused from the start")
	}
	w.Pause(true)
	if !*statesOf(t, server).Paused {
		t.Error("a pause is not told")
	}
	if res := do(t, server, "POST", "/retry", "", nil); res.StatusCode != http.StatusConflict || !strings.Contains(text(t, res), "mcp-reconnect resume") {
		t.Errorf("a retry during a pause: %s", res.Status)
	}
	if res := do(t, server, "POST", "/retry", "x", nil); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad one: %s", res.Status)
	}
	w.Pause(false)
	watches(t, w, opencode(t, `{"a":{"status":"failed"}}`, make(chan string, 100)))
	if res := do(t, server, "POST", "/retry", "", nil); res.StatusCode != http.StatusAccepted {
		t.Errorf("a retry after it: %s", res.Status)
	}
}

// TestRetryAnswers says what it matched, or what there is instead.
func TestRetryAnswers(t *testing.T) {
	w, server := serving(t, serve.Options{})
	wants := func(body string, status int, want string) {
		t.Helper()
		res := do(t, server, "POST", "/retry", body, nil)
		if got := text(t, res); res.StatusCode != status || got != want+"\n" {
			t.Errorf("%s: %s\n%swant\n%s", body, res.Status, got, want)
		}
		kind := "text/plain; charset=utf-8"
		if status == 202 {
			kind = "application/json"
		}
		if got := res.Header.Get("Content-Type"); got != kind {
			t.Errorf("%s: %s", body, got)
		}
	}
	wants("", 404, "there is nothing to try: no OpenCode is watched")
	const project = "/home/ann/project"
	one := opencode(t, `{"a":{"status":"failed"},"b":{"status":"connected"}}`, make(chan string, 100))
	watches(t, w, one)
	here := `{"url":"` + one.URL + `","directory":"` + project + `","servers":`
	wants("", 202, `{"matched":[`+here+`["a"]}]}`)
	wants(`{"servers":["b","x"]}`, 202, `{"matched":[`+here+`["b"]}]}`)
	wants(`{"servers":["b"],"urls":["`+one.URL+`"]}`, 202, `{"matched":[`+here+`["b"]}]}`)
	wants(`{"servers":["<x>"]}`, 404, `there is no server "<x>"; `+project+` has a, b`)
	wants(`{"directories":["/none/of/this/name"]}`, 404, "/none/of/this/name is not in use, and no directory on this machine")
	wants(`{"directories":["project"]}`, 404, "project is no absolute path of a directory")
	wants(`{"urls":["http://elsewhere:4096"]}`, 404, "http://elsewhere:4096 is not watched; watched are: "+one.URL)
	directory := t.TempDir()
	wants(`{"directories":["`+directory+`"]}`, 202, `{"matched":[{"url":"`+one.URL+`","directory":"`+directory+`","servers":["a"]}]}`)

	two := opencode(t, `{}`, make(chan string, 100))
	if _, err := w.Connect(watch.Target{URL: two.URL}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are connected", func() bool {
		states := w.States()
		return states[0].State == watch.Connected && states[1].State == watch.Connected
	})
	third := t.TempDir()
	urls := []string{one.URL, two.URL}
	slices.Sort(urls)
	wants(`{"directories":["`+third+`"]}`, 409, third+" is in use in none of the OpenCodes, and any of them may have it: name one of "+
		urls[0]+", "+urls[1]+`, as in {"urls":["`+urls[0]+`"]}`)
	wants(`{"directories":["`+third+`"],"urls":["`+two.URL+`"]}`, 202, `{"matched":[{"url":"`+two.URL+`","directory":"`+third+`","servers":[]}]}`)
}

// TestPasswordIsNotLent: where OpenCode has a password, who has neither that nor a token
// has nothing started.
func TestPasswordIsNotLent(t *testing.T) {
	directory := t.TempDir()
	body := `{"directories":["` + directory + `"]}`
	for _, tt := range []struct {
		token, password string
		status          int
	}{{"", "", 202}, {"", "secret", 404}, {token, "secret", 202}} {
		w, server := serving(t, serve.Options{Token: tt.token})
		target := opencode(t, `{"a":{"status":"failed"}}`, make(chan string, 100))
		watches(t, w, target)
		if _, err := w.Connect(watch.Target{URL: target.URL, Password: tt.password}); err != nil {
			t.Fatal(err)
		}
		res := do(t, server, "POST", "/retry", body, header{"Authorization": "Bearer " + tt.token})
		if got := text(t, res); res.StatusCode != tt.status || strings.Contains(got, "--token-file") != (tt.status == 404) {
			t.Errorf("%+v: %s, %s", tt, res.Status, got)
		}
		if visited := len(w.States()[0].Directories) > 1; visited != (tt.status == 202) {
			t.Errorf("%+v: %+v", tt, w.States())
		}
	}
}

// opencode answers as an OpenCode 1 with one directory in use, which has these servers.
func opencode(t *testing.T, status string, connects chan<- string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/mcp":
			io.WriteString(w, status)
		case r.Method == http.MethodPost:
			io.WriteString(w, "true")
			connects <- r.URL.Path
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"directory\":\"/home/ann/project\",\"payload\":{\"type\":\"message.updated\",\"properties\":{\"info\":{\"role\":\"user\"}}}}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}
