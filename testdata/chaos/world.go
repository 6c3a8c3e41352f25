//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
)

const (
	directories    = 4
	connectTimeout = 5 * time.Second   // what OpenCode grants the start of a server here
	grace          = 3 * time.Second   // in which a start that was under way may show itself
	patience       = 100 * time.Second // with a prompt; a call of a hung server takes 60 s
)

// everyDirectory has these servers.
var everyDirectory = []kindOfServer{
	{name: "a"}, {name: "b"}, {name: "c"},
	{name: "off", off: true},
	{name: "web", remote: testbed.Answers404},
	{name: "strict", remote: testbed.Answers400},
	{name: "old", remote: testbed.SSE},
}

// A server is one of a directory.
type server struct {
	kindOfServer
	subject
	dir      *directory
	listener *testbed.Remote // of a remote one

	// Guarded by the world's mu.
	off      bool
	offSince time.Time
	seen     int       // starts, or sessions of a remote one
	lives    []life    // processes that run
	two      time.Time // since when more than one does
	told     bool      // that it was for too long
}

// A life is a process that was seen alive.
type life struct {
	pid   int
	began string // see package process
	since time.Time
}

func (l life) String() string { return strconv.Itoa(l.pid) }

// A directory has an instance of OpenCode, but after its disposal and until it is used.
type directory struct {
	subject
	path    string
	mcp     testbed.Servers
	servers []*server
	asking  sync.Mutex   // a person asks one thing after the other
	steady  sync.RWMutex // a person does not switch servers while the instance is disposed of

	disposals int // guarded by the world's mu
}

// A world is one OpenCode and all that is played with in it.
type world struct {
	*history
	ctx      context.Context
	opencode *opencode.Server
	dirs     []*directory
	mu       sync.Mutex
	logged   int            // bytes of OpenCode's log that were read
	acting   sync.WaitGroup // people
}

// start starts OpenCode, and uses every directory once.
func (w *world) start(bed *testbed.Bed, configure testbed.Configure) {
	for n := range directories {
		name := fmt.Sprint("d", n)
		d := &directory{subject: subject{dir: name}, path: testbed.Mkdir(bed.Root, name), mcp: bed.Servers(filepath.Join(bed.Root, name+"-mcp"))}
		w.dirs = append(w.dirs, d)
		config := map[string]any{}
		for _, kind := range everyDirectory {
			s := &server{kindOfServer: kind, subject: subject{name, kind.name}, dir: d, off: kind.off}
			if kind.remote != "" {
				s.listener = d.mcp.Remote(kind.name, kind.remote)
				testbed.Check(s.listener.Serve(w.ctx))
				config[kind.name] = s.listener.Config()
			} else {
				stdio := d.mcp.Stdio(kind.name, 0)
				stdio["timeout"] = connectTimeout.Milliseconds()
				stdio["enabled"] = !kind.off
				config[kind.name] = stdio
			}
			d.servers = append(d.servers, s)
		}
		testbed.WriteJSON(filepath.Join(d.path, "opencode.json"), map[string]any{"mcp": config})
	}
	w.opencode = bed.Start(w.ctx, bed.Root, testbed.Mkdir(bed.Root, "start"), map[string]any{}, configure)
	for _, d := range w.dirs {
		testbed.Must(w.opencode.Prompt(w.ctx, d.path, "hello"))
	}
}

// end stops everything.
func (w *world) end() {
	if w.opencode != nil {
		testbed.Stop(w.opencode)
	}
	for s := range w.servers() {
		if s.listener != nil {
			s.listener.Kill()
		}
	}
}

// servers are those of all directories.
func (w *world) servers() func(yield func(*server) bool) {
	return func(yield func(*server) bool) {
		for _, d := range w.dirs {
			for _, s := range d.servers {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// act does a step. What a person does goes on in the background.
func (w *world) act(p step) {
	d := w.dirs[p.dir]
	s := d.servers[p.server]
	w.count(string(p.kind))
	switch p.kind {
	case kill:
		w.note(s.subject, "%v", p)
		w.kill(s)
	case killAll:
		w.note(d.subject, "%v", p)
		w.kill(d.servers...)
	case killWorld:
		w.note(subject{}, "%v", p)
		w.kill(slices.Collect(w.servers())...)
	case breakIt:
		w.note(s.subject, "%v", p)
		d.mcp.Mark(s.name, p.how)
		w.kill(s)
	case mend:
		w.note(s.subject, "%v", p)
		d.mcp.Unmark(s.name, p.how)
	case stop:
		w.note(s.subject, "%v", p)
		s.listener.Kill()
	case serve:
		w.note(s.subject, "%v", p)
		testbed.Check(s.listener.Start())
	case switchOff:
		w.acting.Go(func() { w.switchOff(s) })
	case switchOn:
		w.acting.Go(func() { w.switchOn(s) })
	case dispose:
		w.acting.Go(func() { w.dispose(d) })
	case prompt:
		w.acting.Go(func() {
			if !d.asking.TryLock() {
				w.count("prompt left out, since another was under way")
				return
			}
			defer d.asking.Unlock()
			w.callsTool(s)
		})
	}
}

// kill kills what runs of the stdio servers among these.
func (w *world) kill(servers ...*server) {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range servers {
		for _, l := range s.lives {
			syscall.Kill(l.pid, syscall.SIGKILL)
		}
	}
}

// mendAll makes every server able to run.
func (w *world) mendAll() {
	for s := range w.servers() {
		if s.listener != nil {
			testbed.Check(s.listener.Serve(w.ctx))
			continue
		}
		for _, how := range breakages {
			s.dir.mcp.Unmark(s.name, how)
		}
	}
}

// post makes a request about a server as a person does at a click.
func (w *world) post(s *server, action string) error {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	return w.opencode.Call(ctx, "POST", "/mcp/"+s.name+"/"+action, s.dir.path, struct{}{}, nil)
}

func (w *world) switchOn(s *server) {
	s.dir.steady.RLock()
	defer s.dir.steady.RUnlock()
	w.note(s.subject, "switch on")
	w.mu.Lock()
	s.off = false
	w.mu.Unlock()
	if err := w.post(s, "connect"); err != nil {
		w.violate(s.subject, "cannot be switched on: %v", err)
	}
}

// switchOff switches a server off, and does so again if it is seen to be on all the
// same: OpenCode ends a connect that is under way as if nothing had happened.
func (w *world) switchOff(s *server) {
	w.note(s.subject, "switch off")
	for try := 0; ; try++ {
		done := func() bool {
			s.dir.steady.RLock()
			defer s.dir.steady.RUnlock()
			if try > 0 {
				if w.read(func() bool { return !s.off }) {
					return true // on again, or disposed of
				}
				status, err := w.opencode.MCP(w.ctx, s.dir.path)
				if err != nil || status[s.name].Status == "disabled" {
					return true
				}
				if try == 4 {
					w.violate(s.subject, "is %s, however often it is switched off", status[s.name].Status)
					return true
				}
				w.count("switched off again")
				w.note(s.subject, "switch off again: it is %s", status[s.name].Status)
			}
			if err := w.post(s, "disconnect"); err != nil {
				w.violate(s.subject, "cannot be switched off: %v", err)
			}
			w.mu.Lock()
			s.off, s.offSince = true, time.Now()
			w.mu.Unlock()
			return false
		}()
		if done {
			return
		}
		w.pause(grace)
	}
}

// read reads something that mu guards.
func (w *world) read(what func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return what()
}

// dispose has OpenCode drop the directory's instance. The next one begins with what
// the configuration says.
func (w *world) dispose(d *directory) {
	d.steady.Lock()
	defer d.steady.Unlock()
	w.note(d.subject, "dispose")
	w.look()
	w.mu.Lock()
	d.disposals++
	var running []life
	for _, s := range d.servers {
		running = append(running, s.lives...)
		s.off, s.offSince = s.kindOfServer.off, time.Now()
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := w.opencode.Call(ctx, "POST", "/instance/dispose", d.path, struct{}{}, nil); err != nil {
		w.violate(d.subject, "cannot be disposed of: %v", err)
	}
	w.pause(grace)
	w.forget(d, running)
}

// forget kills what outlived the disposal of its instance. OpenCode forgets a server
// that it was starting at that moment, with a plugin or without one; anything else
// must be gone.
func (w *world) forget(d *directory, running []life) {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range d.servers {
		for _, l := range s.lives {
			if !slices.Contains(running, l) {
				continue
			}
			if time.Since(l.since) > ofStart+grace {
				w.violate(s.subject, "process %d outlives its instance", l.pid)
			} else {
				w.count("process that OpenCode forgot, as it was disposed of during the start")
				w.note(s.subject, "process %d is forgotten; killed", l.pid)
			}
			syscall.Kill(l.pid, syscall.SIGKILL)
		}
	}
}

// pause waits in the background.
func (w *world) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// callsTool sends a prompt that calls the server's tool, and reports whether that
// worked.
func (w *world) callsTool(s *server) bool {
	disposals := 0
	w.read(func() bool { disposals = s.dir.disposals; return true })
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	tool := s.name + "_echo"
	w.note(s.subject, "prompt: call %s", tool)
	calls, err := w.opencode.Prompt(ctx, s.dir.path, "call "+tool)
	if err == nil && len(calls) != 1 {
		err = fmt.Errorf("%d calls: %v", len(calls), calls)
	}
	switch {
	case err != nil && w.read(func() bool { return s.dir.disposals > disposals }):
		w.count("prompt ended by a disposal")
		w.note(s.subject, "prompt ended by a disposal: %v", err)
	case err != nil:
		w.violate(s.subject, "prompt failed: %v", err)
	case calls[0].Tool != tool:
		w.count("call of a tool that is not there")
		w.note(s.subject, "its tool is not there")
	case calls[0].State.Status != "completed":
		w.count("call that failed")
		w.note(s.subject, "call failed: %s", calls[0].State.Error)
	case !strings.Contains(calls[0].State.Output, s.name+" says hello"):
		w.violate(s.subject, "call returned %q", calls[0].State.Output)
	default:
		w.count("call that worked")
		w.note(s.subject, "call worked")
		return true
	}
	return false
}
