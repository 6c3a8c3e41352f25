//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of another, and returns the mode that it may have.
func keepOwner(f *os.File, info fs.FileInfo) (fs.FileMode, error) {
	mode := info.Mode().Perm()
	now, err := f.Stat()
	if err != nil {
		return 0, err
	}
	want, ok1 := info.Sys().(*syscall.Stat_t)
	have, ok2 := now.Sys().(*syscall.Stat_t)
	switch {
	case !ok1 || !ok2:
		return mode &^ 0o077, nil
	case want.Uid == have.Uid && want.Gid == have.Gid, f.Chown(int(want.Uid), int(want.Gid)) == nil:
		return mode, nil
	case want.Uid != have.Uid:
		return 0, errors.New("it belongs to another user, whose it would be no more")
	}
	return mode &^ 0o070, nil // what its group may read is not for the new one
}
