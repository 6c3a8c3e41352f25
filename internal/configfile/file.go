package configfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mcp-reconnect/mcp-reconnect/internal/atomicfile"
)

// sizeLimit is more than any configuration has, in bytes.
const sizeLimit = 16 << 20

var (
	// ErrReadOnly is in the chain of an error about a file that cannot be replaced.
	ErrReadOnly = errors.New("read-only")
	// ErrChanged says that a file is not what it was when it was read. It was left alone.
	ErrChanged = errors.New("the file has just been changed by another program")
)

// A File is a configuration file as it was read.
type File struct {
	Text   string
	Exists bool
	name   string // what was asked for
	path   string // what is read and replaced: no symbolic link
	info   fs.FileInfo
}

// Open reads a file, which need not exist. A symbolic link is followed, also one to a file that does not exist yet.
// It returns no nil.
func Open(name string) (*File, error) {
	path, err := follow(name)
	f := &File{name: name, path: path}
	if err != nil {
		return f, err
	}
	f.Text, f.info, err = read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	f.Exists = err == nil
	return f, err
}

// Real returns the path of the file itself, behind all symbolic links.
func (f *File) Real() string { return f.path }

// follow returns where the symbolic links end that a name is, whether there is something or not.
func follow(name string) (string, error) {
	const most = 40 // as in Linux
	for range most {
		// A relative link starts where its directory really is.
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil
		case err != nil:
			return "", err
		}
		name = filepath.Join(dir, filepath.Base(name))
		if info, err := os.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // what is wrong with it, reading it says
		}
		target, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		name = target
	}
	return "", errors.New("too many symbolic links")
}

// read returns the text of a file, unless reading it could take for ever.
func read(path string) (string, fs.FileInfo, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would make us wait
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return "", nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, sizeLimit+1))
	if err == nil && len(content) > sizeLimit {
		err = errors.New("it is too large")
	}
	return string(content), info, err
}

// Writable returns an error with ErrReadOnly in its chain where Replace would fail, or would replace what
// somebody wanted to stay. It changes nothing.
func (f *File) Writable() error {
	if f.Exists && (f.info.Mode().Perm()&0o222 == 0 || !mayWrite(f.path)) {
		return fmt.Errorf("%s is %w", f.path, ErrReadOnly)
	}
	dir, info, err := nearest(filepath.Dir(f.path))
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	// On Windows that attribute of a directory says nothing.
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o222 == 0, !mayWrite(dir):
		return fmt.Errorf("the directory %s is %w", dir, ErrReadOnly)
	}
	return nil
}

// nearest returns what stands at a path, or the nearest directory above it that exists.
func nearest(path string) (string, fs.FileInfo, error) {
	for {
		info, err := os.Stat(path)
		parent := filepath.Dir(path)
		if _, dangling := os.Lstat(path); err != nil && dangling == nil {
			return path, nil, fmt.Errorf("%s is a symbolic link to nothing", path)
		}
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return path, info, err
		}
		path = parent
	}
}

// Owner returns the user id that a path belongs to, or would belong to: that of the nearest directory
// which exists. It is unknown on Windows.
func Owner(path string) (uid int, known bool) {
	_, info, err := nearest(path)
	if err != nil {
		return 0, false
	}
	return owner(info)
}

// Replace writes the text, atomically, with the mode and the owner of the file that was read; a new file
// has mode 0600, and a new directory 0700. If the file is no more what was read, it returns ErrChanged.
func (f *File) Replace(text string) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	pending, err := atomicfile.PrepareLike(f.path, []byte(text), f.info)
	if err != nil {
		return err
	}
	defer lock(filepath.Dir(f.path))()
	if err := f.unchanged(); err != nil {
		pending.Discard()
		return err
	}
	return pending.Commit()
}

// Remove removes the file itself; a symbolic link to it stays. If it is no more what was read, it returns ErrChanged.
func (f *File) Remove() error {
	defer lock(filepath.Dir(f.path))()
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Remove(f.path)
}

func (f *File) unchanged() error {
	now, err := Open(f.name)
	if err != nil {
		return err
	}
	if now.path != f.path || now.Exists != f.Exists || now.Text != f.Text || f.Exists && now.info.Mode() != f.info.Mode() {
		return ErrChanged
	}
	return nil
}
