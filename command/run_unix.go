//go:build unix

package command

import (
	"errors"
	"fmt"
	"syscall"
)

// start replaces this process: the child has its pid, its signals reach it and
// its exit status is seen without our doing anything.
func start(path string, args, env []string, _ System) error {
	err := syscall.Exec(path, args, env)
	if errors.Is(err, syscall.ENOEXEC) { // a script without a first line that names its interpreter
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", path}, args[1:]...), env)
	}
	if errors.Is(err, syscall.ENOENT) {
		return &childError{127, fmt.Errorf("cannot run %q: its interpreter does not exist", args[0])}
	}
	return &childError{126, fmt.Errorf("cannot run %q: %w", args[0], err)}
}
