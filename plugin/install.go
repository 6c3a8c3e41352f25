package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/internal/atomicfile"
	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// ErrForeign is in the chain of an error about a file at one of our names that
// does not carry our marker. It was left alone.
var ErrForeign = errors.New("not a file of mcp-reconnect")

// An Installation is a Location whose files are in place.
type Installation struct {
	Location
	// Updated says that other bytes stood there before: an OpenCode that loaded
	// those keeps them until it is restarted (modules are cached by path).
	Updated bool
}

// Install renders the plugin for a policy and writes it below the data
// directory, which is created where it is missing, and with it the directory for state:
// a running plugin whose one was removed waits for it. Directory and files get the
// modes 0700 and 0600 whatever the umask and whatever stood there before. A file
// whose bytes would not change keeps its mtime. On an error the plugin that
// stood there is untouched.
func Install(dataDir string, p Policy) (Installation, error) {
	l, err := Locate(dataDir)
	if err != nil {
		return Installation{}, err
	}
	files, err := l.files(p)
	if err != nil {
		return Installation{}, err
	}
	updated, err := write(l.Dir, files)
	if err != nil {
		return Installation{}, fmt.Errorf("writing the plugin: %w", err)
	}
	// Without it, all but the state works.
	if os.Mkdir(l.StateDir, 0o700) == nil {
		_ = protect(l.StateDir, 0o700)
	}
	return Installation{l, updated}, nil
}

// files are what stands in the plugin's directory for a policy.
func (l Location) files(p Policy) ([]*file, error) {
	scripts, err := render(p, template.OpenCode1, template.OpenCode2)
	if err != nil {
		return nil, err
	}
	return []*file{
		{path: filepath.Join(l.Dir, pluginName), marker: template.Marker, content: scripts[0]},
		{path: filepath.Join(l.Dir, serverName), marker: template.Marker, content: scripts[1]},
		{path: filepath.Join(l.Dir, packageName), marker: packageMarker, content: template.Rendering{packageJSON}},
	}, nil
}

// write puts the files into dir. Each step is done for every file before the
// next one for any: what can fail, fails before the first file is replaced.
func write(dir string, files []*file) (updated bool, err error) {
	link, err := isSymlink(dir)
	if err != nil {
		return false, err
	}
	if link {
		return false, replaceLink(dir, files)
	}
	for _, f := range files {
		if err := f.inspect(); err != nil {
			return false, err
		}
		updated = updated || f.standing == outdated
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	if err := protect(dir, 0o700); err != nil { // MkdirAll is subject to the umask, and leaves an old directory as it is
		return false, err
	}
	for _, f := range files {
		if f.standing != current {
			if f.pending, err = atomicfile.Prepare(f.path, f.content.Bytes()); err != nil {
				break
			}
		}
	}
	for _, f := range files {
		switch {
		case err != nil:
			f.pending.Discard()
		case f.pending != nil:
			err = f.pending.Commit()
		default:
			err = protect(f.path, 0o600)
		}
	}
	return updated, err
}

func isSymlink(name string) (bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode()&fs.ModeSymlink != 0, err
}

// replaceLink puts a directory with the files in the place of a symbolic link. What
// the link points to is not ours to look at; the link goes only when the directory
// is complete.
func replaceLink(link string, files []*file) error {
	dir, err := os.MkdirTemp(filepath.Dir(link), "."+dirName+".*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := protect(dir, 0o700); err != nil {
		return err
	}
	for _, f := range files {
		if err := atomicfile.Write(filepath.Join(dir, filepath.Base(f.path)), f.content.Bytes()); err != nil {
			return err
		}
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(dir, link); err != nil {
		_, err = write(link, files) // another process was faster
		return err
	}
	return nil
}

// protect gives a name its mode. Where it has it already, nothing is done: an
// installation on a read-only disk that is as it should be is none to fail over.
func protect(name string, mode fs.FileMode) error {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(name, mode)
}

// A file is one of ours on its way to disk.
type file struct {
	path     string
	marker   string // how its first line starts
	content  template.Rendering
	standing standing
	pending  *atomicfile.Pending
}

// standing is what stands at a file's path before we write.
type standing int

const (
	nothing  standing = iota // or a symbolic link, which renaming replaces
	outdated                 // other bytes of ours
	current                  // the bytes we would write
)

// inspect finds out what stands at the path; somebody else's file is an error.
func (f *file) inspect() error {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", f.path, ErrForeign)
	}
	r, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	f.standing, err = f.standingIn(r)
	return err
}

// standingIn reads what stands at the path, as far as it is what we would write.
func (f *file) standingIn(r io.Reader) (standing, error) {
	var parts []io.Reader
	for _, part := range f.content {
		parts = append(parts, strings.NewReader(part))
	}
	ours := io.MultiReader(parts...)
	old, want := make([]byte, 4<<10), make([]byte, 4<<10)
	for start := true; ; start = false {
		n, err := io.ReadFull(r, old)
		if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
			return nothing, err
		}
		m, _ := io.ReadFull(ours, want)
		switch {
		case start && !bytes.HasPrefix(old[:n], []byte(f.marker)):
			return nothing, fmt.Errorf("%s: %w", f.path, ErrForeign)
		case !bytes.Equal(old[:n], want[:m]):
			return outdated, nil
		case err != nil:
			return current, nil
		}
	}
}
