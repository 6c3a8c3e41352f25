//go:build !linux && !darwin && !windows

package process

import (
	"errors"
	"syscall"
	"time"
)

// started knows no more than whether there is such a process.
func started(pid int) (start time.Time, alive bool) {
	return time.Time{}, !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
