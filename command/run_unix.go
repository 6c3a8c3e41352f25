//go:build unix

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// start replaces this process: the child has its pid, its signals reach it and
// its exit status is seen without our doing anything.
func start(path string, args, env []string, _ System) error {
	err := syscall.Exec(path, args, env)
	if errors.Is(err, syscall.ENOEXEC) && isText(path) { // a script whose first line names no interpreter
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, args[1:]...), env)
	}
	if errors.Is(err, syscall.ENOENT) {
		return &exitError{127, fmt.Errorf("cannot run %s: its interpreter does not exist", shown(args[0]))}
	}
	return &exitError{126, fmt.Errorf("cannot run %s: %w", shown(args[0]), err)}
}

// isText reports whether a file begins as a script could, not as a program for
// another machine does: shells ask the same.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 128)
	n, err := io.ReadFull(f, start)
	return (err == nil || err == io.ErrUnexpectedEOF) && bytes.IndexByte(start[:n], 0) < 0
}
