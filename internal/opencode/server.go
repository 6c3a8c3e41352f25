//go:build unix

// Package opencode runs the real OpenCode for tests and measurements: isolated
// from the user's own, on loopback only, with a model that answers from this
// process. It never reaches a provider.
package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how to start a server.
type Options struct {
	Command   []string // the OpenCode binary, or a command line that ends in it
	Home      string   // an empty directory for this server alone
	ConfigDir string   // XDG_CONFIG_HOME; may be shared, so that OpenCode installs its own package into it only once
	Dir       string   // working directory
	Environ   []string // more variables, such as OPENCODE_CONFIG_CONTENT
	Password  string   // what the server asks of its clients, if not empty
	Port      int      // to listen on; 0 for one that is free
}

// Environ is the environment that isolates an OpenCode from the user's.
func Environ(home, configDir string) []string {
	env := []string{
		"HOME=" + home,
		"XDG_CONFIG_HOME=" + configDir,
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
	}
	for _, dir := range []string{"DATA", "CACHE", "STATE"} {
		env = append(env, "XDG_"+dir+"_HOME="+filepath.Join(home, strings.ToLower(dir)))
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "OPENCODE_"), strings.HasPrefix(name, "MCP_RECONNECT_"), strings.HasPrefix(name, "XDG_"), name == "HOME":
		default:
			env = append(env, entry)
		}
	}
	return env
}

// A Server is a running `opencode serve`.
type Server struct {
	URL      string
	Port     int
	Pid      int
	cmd      *exec.Cmd
	log      *log
	password string
	ended    chan struct{} // closed when the process has ended, for the reason in err
	err      error
}

// log collects the server's output and tells when a text appears in it.
type log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *log) read() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.changed
}

// Start starts a server and waits until it listens.
func Start(ctx context.Context, o Options) (*Server, error) {
	port := o.Port
	if port == 0 {
		var err error
		if port, err = FreePort(); err != nil {
			return nil, err
		}
	}
	args := append(append([]string{}, o.Command...), "serve", "--hostname", "127.0.0.1", "--port", fmt.Sprint(port), "--print-logs")
	s := &Server{
		URL:      fmt.Sprintf("http://127.0.0.1:%d", port),
		Port:     port,
		cmd:      exec.Command(args[0], args[1:]...),
		log:      &log{changed: make(chan struct{})},
		password: o.Password,
		ended:    make(chan struct{}),
	}
	s.cmd.Dir = o.Dir
	s.cmd.Env = append(Environ(o.Home, o.ConfigDir), o.Environ...)
	if o.Password != "" {
		s.cmd.Env = append(s.cmd.Env, "OPENCODE_SERVER_PASSWORD="+o.Password)
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its MCP servers end with it
	s.cmd.WaitDelay = 5 * time.Second
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.Pid = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	for {
		text, changed := s.log.read()
		if strings.Contains(text, "listening on http") {
			return s, nil
		}
		select {
		case <-changed:
		case <-s.ended:
			return nil, fmt.Errorf("opencode ended before it listened: %v\n%s", s.err, text)
		case <-ctx.Done():
			s.Stop()
			return nil, fmt.Errorf("opencode does not listen: %w\n%s", ctx.Err(), text)
		}
	}
}

// FreePort returns a port on loopback that nothing listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Stop ends the server and everything it started.
func (s *Server) Stop() {
	syscall.Kill(-s.Pid, syscall.SIGKILL)
}

// Ended is closed when the server's process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Log returns what the server printed so far.
func (s *Server) Log() string {
	text, _ := s.log.read()
	return text
}

// Call makes a request for a directory and decodes the answer into result,
// unless that is nil.
func (s *Server) Call(ctx context.Context, method, path, dir string, body, result any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	// OpenCode 1 decodes the directory of a query twice.
	dir = strings.ReplaceAll(dir, "%", "%25")
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path+"?directory="+url.QueryEscape(dir), content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.password != "" {
		req.SetBasicAuth("opencode", s.password)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.500s", method, path, res.Status, text)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(text, result)
}

// Status is what OpenCode says of one MCP server.
type Status struct{ Status, Error string }

// MCP reads the status of every MCP server of a directory. The first read starts them.
func (s *Server) MCP(ctx context.Context, dir string) (map[string]Status, error) {
	var status map[string]Status
	err := s.Call(ctx, "GET", "/mcp", dir, nil, &status)
	return status, err
}

// A Call is a tool call of the model, as OpenCode keeps it. A tool that OpenCode does not
// have is called "invalid".
type Call struct {
	Tool  string
	State struct{ Status, Output, Error string }
}

// Prompt sends a prompt in a new session, waits for the answer, and returns the calls
// that were made for it.
func (s *Server) Prompt(ctx context.Context, dir, text string) ([]Call, error) {
	var session struct{ ID string }
	if err := s.Call(ctx, "POST", "/session", dir, struct{}{}, &session); err != nil {
		return nil, err
	}
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	path := "/session/" + session.ID + "/message"
	if err := s.Call(ctx, "POST", path, dir, map[string]any{
		"model": map[string]string{"providerID": ProviderID, "modelID": ModelID},
		"parts": []part{{"text", text}},
	}, nil); err != nil {
		return nil, err
	}
	var messages []struct {
		Parts []struct {
			Type string
			Call
		}
	}
	if err := s.Call(ctx, "GET", path, dir, nil, &messages); err != nil {
		return nil, err
	}
	var calls []Call
	for _, message := range messages {
		for _, part := range message.Parts {
			if part.Type == "tool" {
				calls = append(calls, part.Call)
			}
		}
	}
	return calls, nil
}
