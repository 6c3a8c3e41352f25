// Package hostversion asks OpenCode for its version, and compares versions. It never
// repeats what a program prints.
package hostversion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/mcp-reconnect/mcp-reconnect/internal/subprocess"
)

// Comparable returns a version as semver wants it, or "" for one that cannot be
// compared, as those of development builds: 0.0.0-next-15123.
func Comparable(version string) string {
	v := "v" + version
	if !semver.IsValid(v) || semver.Compare(semver.Canonical(v), "v0.0.0") <= 0 {
		return ""
	}
	return v
}

// Is2 reports whether a version is known to be one of OpenCode 2, or a preview of it.
func Is2(version string) bool {
	v := Comparable(version)
	return v != "" && semver.Compare(v, "v2.0.0-0") >= 0
}

// Ask asks a program for its version, as OpenCode prints it: "1.18.33", or
// "opencode v2.0.26". OpenCode itself takes about a second; the context says when to
// give up.
func Ask(ctx context.Context, program string, environ []string) (string, error) {
	cmd := exec.CommandContext(ctx, program, "--version")
	var out bytes.Buffer
	cmd.Env, cmd.Stdout = environ, &limited{&out, 64 << 10}
	cmd.WaitDelay = 100 * time.Millisecond // for what it started, and left holding its output
	subprocess.Group(cmd)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", errors.New("OpenCode does not say its version in time")
	case errors.As(err, &exit):
		return "", fmt.Errorf("OpenCode does not say its version: %w", exit)
	case errors.Is(err, exec.ErrWaitDelay):
	case err != nil:
		return "", fmt.Errorf("OpenCode cannot be run: %w", subprocess.Cause(err))
	}
	version := Find(out.String())
	if version == "" {
		return "", errors.New("what the program prints for --version is no version of OpenCode")
	}
	return version, nil
}

// Find returns the version in what OpenCode prints for --version, or "".
func Find(output string) string {
	output = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(output, "") // colours
	for line := range strings.Lines(output) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "opencode ")
		line = strings.TrimPrefix(line, "v")
		if semver.IsValid("v"+line) && semver.Canonical("v"+line) == "v"+strings.SplitN(line, "+", 2)[0] {
			return line
		}
	}
	return ""
}

// limited drops what goes beyond a limit.
type limited struct {
	b     *bytes.Buffer
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), l.limit-l.b.Len())])
	return len(p), nil
}
