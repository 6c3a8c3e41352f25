//go:build !unix

package command

import (
	"errors"
	"os"
	"syscall"
)

// stdoutClosed reports whether this process was started without a standard output.
func stdoutClosed() bool {
	_, err := os.Stdout.Stat()
	return err != nil
}

// isClosedPipe knows what Windows calls it: ERROR_BROKEN_PIPE and ERROR_NO_DATA.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.Errno(109)) || errors.Is(err, syscall.Errno(232))
}
