package command

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/hostversion"
)

// hintPatience is how long OpenCode may take to say its version, where only a hint
// depends on it.
const hintPatience = time.Second

// hintVersion2 asks a program for its version while other things are done, and returns
// what ends with a hint if it is OpenCode 2, which may not see what we set. No program,
// no answer and nobody who reads hints are all no hint.
func (s System) hintVersion2(program string) (end func()) {
	if program == "" || !s.StderrTerminal {
		return func() {}
	}
	answer := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), hintPatience)
		defer cancel()
		var version string
		if path, err := findCommand(program, s.getenv("PATH")); err == nil {
			version, _ = hostversion.Ask(ctx, path, s.Environ)
		}
		answer <- version
	}()
	return func() {
		if version := <-answer; hostversion.Is2(version) {
			s.hint("support of OpenCode %s is experimental; a background service that runs already does not see the variable: "+
				"use opencode --standalone or opencode serve, or restart the service", version)
		}
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
