//go:build unix

package configfile

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

func owner(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// mayWrite asks the system: a file system may be mounted read-only, and there are access lists.
func mayWrite(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}
