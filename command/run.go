package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// splitChild cuts the command that run shall start off the arguments: what
// stands behind the first "--" is the child's alone, another "--" included,
// which Go's flag package would not leave to it.
func splitChild(args []string) (own, child []string) {
	if len(args) > 1 && args[1] == "run" {
		if n := slices.Index(args, "--"); n >= 0 {
			return args[:n], args[n+1:]
		}
	}
	return args, nil
}

func runCommand(s System, child []string) *cli.Command {
	flags := newTargetFlags()
	flags.openCode.initial = "the command, if it is opencode"
	return &cli.Command{
		Name:      "run",
		Usage:     "install the plugin and start a command with the environment",
		UsageText: "mcp-reconnect run [flags] -- COMMAND [ARG…]",
		Flags:     flags.all(),
		Action: func(*cli.Context) error {
			if len(child) == 0 {
				return usagef("run needs a command behind --, as in: mcp-reconnect run -- opencode")
			}
			t, err := flags.target(s)
			if err != nil {
				return err
			}
			return runChild(t, child, s)
		},
	}
}

// An exitError is an error with an exit status of its own: that of run's child, or
// of check.
type exitError struct {
	status int
	err    error // nil where all has been said, by the child or by check's report
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

func runChild(t target, child []string, s System) error {
	path, err := findCommand(child[0], s.getenv("PATH"))
	if err != nil {
		return err
	}
	merged, err := t.merge()
	if err != nil {
		return err
	}
	if err := checkSize(merged, merged); err != nil {
		return err
	}
	if _, err := t.install(s); err != nil {
		return err
	}
	t.hintPlugins(merged, s)
	t.hintOthers(merged, s)
	if !t.unset {
		s.hintVersion2(asksForVersion(t.openCode, child))
	}
	return start(path, child, withContent(s.Environ, merged), s)
}

// withContent returns the environment with the variable set once, or, for "",
// not at all: of two settings some programs see the first, others the last.
func withContent(environ []string, content string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return sameVariable(name, contentVariable)
	})
	if content != "" {
		env = append(env, contentVariable+"="+content)
	}
	return env
}

// shown is a command's name for a message, unless it could be something secret.
func shown(name string) string {
	if checkNotContent(setting{value: name}) != nil || len(name) > 200 {
		return "the command"
	}
	return fmt.Sprintf("%q", name)
}

// findCommand looks a command up as shells do, with their exit statuses: 127 for
// one that is not there, 126 for one that is there and cannot be run.
func findCommand(name, path string) (string, error) {
	found, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // a PATH with "." in it is its owner's choice
		return found, nil
	}
	if !strings.ContainsRune(name, filepath.Separator) {
		for _, dir := range filepath.SplitList(path) {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil && errors.Is(err, fs.ErrPermission) {
				return "", &exitError{126, fmt.Errorf("cannot run %s: permission denied", shown(name))}
			}
		}
		return "", &exitError{127, fmt.Errorf("cannot run %s: it is not in PATH", shown(name))}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", &exitError{127, fmt.Errorf("cannot run %s: no such file", shown(name))}
	}
	return "", &exitError{126, fmt.Errorf("cannot run %s: %w", shown(name), cause(err))}
}

// cause is the error below exec's own, which repeats the name.
func cause(err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return lookup.Err
	}
	return err
}
