// Package atomicfile replaces files so that a reader sees the old bytes or the
// new ones, never a part, and never another mode than 0600, or than that of the
// file that stood there. It does not create directories, and it follows no symbolic link.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// A Pending is a file that is written in full beside its place, not yet in it.
type Pending struct{ tmp, path string }

// Prepare writes content to a temporary name in path's directory and syncs it.
// What can fail for want of space or permission fails here.
func Prepare(path string, content []byte) (*Pending, error) {
	return prepare(path, content, private, (*os.File).Sync)
}

// PrepareLike is Prepare with the mode of the file that stood there, and with its owner.
// The group that cannot be kept loses its access. Without info it is Prepare.
func PrepareLike(path string, content []byte, info fs.FileInfo) (*Pending, error) {
	if info == nil {
		return Prepare(path, content)
	}
	return prepare(path, content, func(f *os.File) error {
		mode, err := keepOwner(f, info)
		if err != nil {
			return err
		}
		return f.Chmod(mode)
	}, (*os.File).Sync)
}

func private(f *os.File) error { return f.Chmod(0o600) }

func prepare(path string, content []byte, protect, sync func(*os.File) error) (*Pending, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, err
	}
	_, writeErr := f.Write(content)
	// The mode is set on the open file: os.CreateTemp is subject to the umask.
	if err := errors.Join(writeErr, protect(f), sync(f), f.Close()); err != nil {
		os.Remove(f.Name())
		return nil, err
	}
	return &Pending{f.Name(), path}, nil
}

// Commit moves the file into its place.
func (p *Pending) Commit() error {
	var err error
	for try := range 10 {
		if err = os.Rename(p.tmp, p.path); err == nil || runtime.GOOS != "windows" {
			break
		}
		// Windows refuses to replace a file that a virus scanner or a starting
		// OpenCode holds open, which none does for long.
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	if err != nil {
		p.Discard()
	}
	return err
}

// Discard removes the temporary file. It does nothing on a nil Pending.
func (p *Pending) Discard() {
	if p != nil {
		os.Remove(p.tmp)
	}
}

// WriteUnsynced is Write for what nobody wants to read after a power failure.
func WriteUnsynced(path string, content []byte) error {
	p, err := prepare(path, content, private, func(*os.File) error { return nil })
	if err != nil {
		return err
	}
	return p.Commit()
}

// Write is Prepare and Commit.
func Write(path string, content []byte) error {
	p, err := Prepare(path, content)
	if err != nil {
		return err
	}
	return p.Commit()
}
