package command

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/hostversion"
)

// hintPatience is how long OpenCode may take to say its version, where only a hint
// depends on it. Tests change it.
var hintPatience = time.Second

// hintVersion2 asks a program for its version, and gives a hint if it is OpenCode 2, which
// may not see what we set. No program, no answer and nobody who reads hints are all no
// hint. A signal ends the program that is asked, and then this one, as it would have
// without the question.
func (s System) hintVersion2(program string) {
	if program == "" || !s.StderrTerminal {
		return
	}
	path, err := findCommand(program, s.getenv("PATH"))
	if err != nil {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithTimeout(context.Background(), hintPatience)
	defer cancel()
	answer := make(chan string, 1)
	go func() {
		version, _ := hostversion.Ask(ctx, path, s.Environ)
		answer <- version
	}()
	var version string
	var interrupted os.Signal
	select {
	case version = <-answer:
	case interrupted = <-signals:
		cancel()
		<-answer
	}
	signal.Stop(signals)
	if interrupted != nil {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Signal(interrupted) // now as if it had not been caught
			time.Sleep(hintPatience) // it need not come at once
		}
	}
	if hostversion.Is2(version) {
		s.hint("support of OpenCode %s is experimental; a background service that runs already does not see the variable: "+
			"use opencode --standalone or opencode serve, or restart the service", version)
	}
}

// asksForVersion returns which program run shall ask: the one that was named, else the
// command itself if it is OpenCode, and a version 2 of it would use its background service.
func asksForVersion(named string, child []string) string {
	if named != "" {
		return named
	}
	name := strings.ToLower(filepath.Base(child[0]))
	if extension := filepath.Ext(name); slices.Contains([]string{".exe", ".cmd", ".bat"}, extension) {
		name = strings.TrimSuffix(name, extension)
	}
	if name != "opencode" || len(child) > 1 && child[1] == "serve" || slices.Contains(child, "--standalone") {
		return ""
	}
	return child[0]
}
