package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// A browser is a headless Chromium with one page, steered over its DevTools protocol:
// --dump-dom would be done before the page has its first event.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	last    int
	session string
}

// browse opens a page.
func browse(t *testing.T, url string) *browser {
	t.Helper()
	program := testenv.Program(t, "chromium", "chromium-browser", "google-chrome")
	fromUs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.ExtraFiles = []*os.File{fromUs, fromIt} // as its 3 and 4
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	fromIt.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		b.in.Write([]byte(`{"id":0,"method":"Browser.close"}` + "\x00"))
		cmd.Wait()
		in.Close()
		out.Close()
		if t.Failed() {
			t.Logf("what the browser printed:\n%s", stderr.String())
		}
	})
	limit := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() }) // a read below ends then
	t.Cleanup(func() { limit.Stop() })
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": url}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	return b
}

// call calls a method of the DevTools protocol.
func (b *browser) call(method string, params map[string]any, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

// try returns what the browser has against a call.
func (b *browser) try(method string, params map[string]any, result any) error {
	b.t.Helper()
	b.last++
	request := map[string]any{"id": b.last, "method": method, "params": params}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		text, err := b.out.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("the browser: %v", err)
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			b.t.Fatal(err)
		}
		if answer.ID != b.last {
			continue // an event
		}
		if answer.Error != nil {
			return fmt.Errorf("%s: %s", method, answer.Error)
		}
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.t.Fatal(err)
		}
		return nil
	}
}

// evaluate runs an expression in the page, which gives a string; "" while the page is
// left for another one.
func (b *browser) evaluate(expression string) string {
	b.t.Helper()
	var answer struct{ Result struct{ Value any } }
	if err := b.try("Runtime.evaluate", map[string]any{"expression": expression}, &answer); err != nil {
		b.t.Log(err)
		return ""
	}
	text, _ := answer.Result.Value.(string)
	return text
}
