//go:build unix

package testbed

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
)

// A Listener is a program that listens on a port of its own on loopback, and comes
// and goes.
type Listener struct {
	Port    string // that nothing listened on; $PORT of the program
	Command []string
	Environ []string  // more variables
	Output  io.Writer // for what it prints; may be nil

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// NewListener reserves a port. The rest is for the caller to fill in.
func NewListener() (*Listener, error) {
	port, err := opencode.FreePort()
	return &Listener{Port: strconv.Itoa(port), Output: os.Stderr}, err
}

// URL is that of a path.
func (l *Listener) URL(path string) string { return "http://127.0.0.1:" + l.Port + path }

// Start starts the program, if it does not run.
func (l *Listener) Start() error {
	if l.cmd != nil {
		return nil
	}
	cmd := exec.Command(l.Command[0], l.Command[1:]...)
	cmd.Env = append(append(os.Environ(), "PORT="+l.Port), l.Environ...)
	cmd.Stdout, cmd.Stderr = l.Output, l.Output
	if err := cmd.Start(); err != nil {
		return err
	}
	l.cmd, l.ended = cmd, make(chan struct{})
	go func() {
		defer close(l.ended)
		cmd.Wait()
	}()
	return nil
}

// Serve starts the program, if it does not run, and waits until it listens.
func (l *Listener) Serve(ctx context.Context) error {
	if err := l.Start(); err != nil {
		return err
	}
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+l.Port)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-l.ended:
			return fmt.Errorf("%v ended before it listened", l.Command)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Kill ends the program, if it runs.
func (l *Listener) Kill() {
	if l.cmd != nil {
		l.cmd.Process.Kill()
		<-l.ended
		l.cmd = nil
	}
}
