package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// parseVersion returns a version as semver wants it, or "" for one that cannot be
// compared, as those of development builds: 0.0.0-next-15123.
func parseVersion(version string) string {
	v := "v" + version
	if !semver.IsValid(v) || semver.Compare(semver.Canonical(v), "v0.0.0") <= 0 {
		return ""
	}
	return v
}

// before and after compare OpenCode's version, which must be known.
func (c *checker) before(version string) bool { return semver.Compare(c.version, "v"+version) < 0 }
func (c *checker) after(version string) bool  { return semver.Compare(c.version, "v"+version) > 0 }

// patience is how long OpenCode may take to say its version.
const patience = 10 * time.Second

// Version asks a program for its version, as OpenCode prints it: "1.18.33", or
// "opencode v2.0.26". The program gets a few seconds. What it prints is not
// repeated in an error.
func Version(ctx context.Context, program string, environ []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	var out bytes.Buffer
	cmd.Env, cmd.Stdout = environ, &limited{&out, 64 << 10}
	cmd.WaitDelay = time.Second // for what it started, and left holding its output
	group(cmd)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("OpenCode does not say its version within %v", patience)
	case errors.As(err, &exit):
		return "", fmt.Errorf("OpenCode does not say its version: %w", exit)
	case errors.Is(err, exec.ErrWaitDelay):
	case err != nil:
		return "", fmt.Errorf("OpenCode cannot be run: %w", cause(err))
	}
	version := versionIn(out.String())
	if version == "" {
		return "", errors.New("what the program prints for --version is no version of OpenCode")
	}
	return version, nil
}

// versionIn finds the version in what OpenCode prints for --version.
func versionIn(output string) string {
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

// cause is the error below those that repeat a name.
func cause(err error) error {
	var path *os.PathError
	var lookup *exec.Error
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &lookup):
		return lookup.Err
	}
	return err
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

// lookup finds a variable in an environment.
func lookup(environ []string, name string) (string, bool) {
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value, true
		}
	}
	return "", false
}
