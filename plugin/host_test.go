package plugin_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// TestCallsGoToTheListener (rule 4): where there is one, and never to the address
// that OpenCode gives where there is none.
func TestCallsGoToTheListener(t *testing.T) {
	for _, tt := range []struct{ serverURL, want string }{
		{"http://localhost:4096/", ""},
		{"http://localhost:4096", ""},
		{"http://127.0.0.1:4096/", "http://127.0.0.1:4096"},
		{"http://127.0.0.1:4101/", "http://127.0.0.1:4101"},
		{"http://localhost:4101/", "http://localhost:4101"},
		{"http://0.0.0.0:4101/", "http://127.0.0.1:4101"},
		{"http://[::]:4101/", "http://[::1]:4101"},
		{"https://example.org/", "https://example.org"},
		{"", ""}, // up to 1.1.10
		{"nonsense", ""},
	} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.serverURL = tt.serverURL
		i.reload()
		i.servers["a"].up = false
		i.prompt()
		s.pass(10 * second)
		got := ""
		if base := i.options.Get("baseUrl"); base != nil && !goja.IsUndefined(base) {
			got = base.String()
			if !i.options.Get("fetch").SameAs(s.run("globalThis.fetch")) {
				t.Errorf("%s: without its fetch", tt.serverURL)
			}
		}
		if got != tt.want {
			t.Errorf("serverUrl %q: called at %q, want %q", tt.serverURL, got, tt.want)
		}
	}
}

func TestCredentials(t *testing.T) { // rule 4; A40
	for environment, want := range map[string]string{
		`{}`: "",
		`{OPENCODE_SERVER_PASSWORD: "pass:word"}`:                               "Basic base64 of opencode:pass:word",
		`{OPENCODE_SERVER_PASSWORD: "p", OPENCODE_SERVER_USERNAME: "somebody"}`: "Basic base64 of somebody:p",
		`{OPENCODE_SERVER_PASSWORD: "", OPENCODE_SERVER_USERNAME: "somebody"}`:  "",
	} {
		s := simulate(t, nil)
		s.run("process.env = " + environment)
		i := s.load("/p", "a")
		i.servers["a"].up = false
		i.prompt()
		s.pass(10 * second)
		got := ""
		if headers := i.options.Get("headers"); headers != nil && !goja.IsUndefined(headers) {
			got = headers.ToObject(s.vm).Get("Authorization").String()
		}
		if got != want {
			t.Errorf("%s: Authorization %q, want %q", environment, got, want)
		}
	}
}

func TestWhatIsLoggedAndToasted(t *testing.T) { // rule 17
	for _, tt := range []struct {
		log, notify  string
		logs, toasts []string // how the lines begin
	}{
		{"info", "none", []string{"info: mcp-reconnect: version", "info: mcp-reconnect: a is back", "warn: mcp-reconnect: b is still failed"}, nil},
		{"warn", "none", []string{"warn: mcp-reconnect: b is still failed"}, nil},
		{"none", "toast", nil, []string{"success: mcp-reconnect: a is back", "warning: mcp-reconnect: b is still failed"}},
	} {
		s := simulate(t, func(p *Policy) { p.Log, p.Notify = tt.log, tt.notify })
		i := s.load("/p", "a", "b")
		i.servers["b"].up = false
		i.prompt()
		s.pass(second)
		i.crash("a")
		s.pass(5 * minute)
		begin := func(lines, with []string) []string {
			var got []string
			for n, line := range lines {
				if n < len(with) && strings.HasPrefix(line, with[n]) {
					line = with[n]
				}
				got = append(got, line)
			}
			return got
		}
		if diff := cmp.Diff(tt.logs, begin(i.log, tt.logs)); diff != "" {
			t.Errorf("log=%s: lines (-want +got):\n%s", tt.log, diff)
		}
		if diff := cmp.Diff(tt.toasts, begin(i.toasts, tt.toasts)); diff != "" {
			t.Errorf("notify=%s: toasts (-want +got):\n%s", tt.notify, diff)
		}
	}
}

// TestNothingIsSaidAfterDisposal: an answer may come late, and a toast follows a log line.
func TestNothingIsSaidAfterDisposal(t *testing.T) { // rule 7
	for _, after := range []time.Duration{0, ms / 2, ms, 50 * ms, 150 * ms, 205 * ms} {
		s := simulate(t, func(p *Policy) { p.Notify = "toast" })
		i := s.load("/p", "a")
		i.prompt()
		s.pass(second)
		i.answer = func() answer {
			return answer{body: object{"error": "Unauthorized", "response": object{"status": 401}}, takes: 10 * ms}
		}
		i.crash("a")
		s.pass(after)
		i.hook("dispose")
		i.disposed = true
		s.pass(minute)
	}
}

// TestPendingRetryDoesNotKeepAProcessAlive runs the plugin in Node (rule 7; A15).
func TestPendingRetryDoesNotKeepAProcessAlive(t *testing.T) {
	node := testenv.Program(t, "node")
	js, err := Render(DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plugin.mjs", string(js))
	write("main.mjs", `
		import plugin from "./plugin.mjs"
		let reads = 0
		const client = {
			mcp: { status: async () => (reads++, { data: { a: { status: "failed" } } }), connect: async () => ({ data: true }) },
			app: { log: async () => ({ data: true }) },
		}
		const hooks = await plugin({ client, directory: "/p", serverUrl: "http://localhost:4096" })
		const prompt = hooks["chat.message"]() // which waits for the server, and keeps the process
		await new Promise((resolve) => setTimeout(resolve, 50))
		console.log(reads)
		await prompt
	`)
	// With a timer that is not unref'd it would live for hours.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, filepath.Join(dir, "main.mjs")).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Errorf("%v, and %q", err, out)
	}
}
