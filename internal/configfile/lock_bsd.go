//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package configfile

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps other processes of this program out of a directory, for a second at most: one that holds the lock
// for longer has been stopped. Where a file system has no such locks there is none. The directory itself is locked, so
// that no file is left behind.
func lock(dir string) (unlock func()) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for range 100 {
		if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK && err != unix.EINTR {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() { d.Close() }
}
