//go:build !unix

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

// start runs the child, passes interrupts on to it and returns its exit status.
func start(path string, args, env []string, s System) error {
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return &exitError{126, fmt.Errorf("cannot run %s: %w", shown(args[0]), cause(err))}
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case sig := <-signals:
				// A console gives an interrupt to the child as well, where this
				// fails; what matters is that it does not end us before the child.
				cmd.Process.Signal(sig)
			case <-done:
				return
			}
		}
	}()
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &exit):
		return &exitError{status: exit.ExitCode()}
	case err != nil:
		return &exitError{126, fmt.Errorf("cannot run %s: %w", shown(args[0]), err)}
	}
	return nil
}
