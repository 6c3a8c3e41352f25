package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/mcp-reconnect/mcp-reconnect/internal/atomicfile"
)

// ErrForeign is in the chain of an error about what stands at one of our names and is
// not ours. It was left alone.
var ErrForeign = errors.New("not a file of mcp-reconnect")

// ErrNotInstalled says that there is no plugin to tell anything.
var ErrNotInstalled = errors.New("the plugin is not installed")

// Control is what running plugins are told (rule 19).
type Control struct {
	Paused bool  `json:"paused"` // nothing is reconnected, also after a restart
	Retry  Retry `json:"retry"`
}

// A Retry asks for servers to be tried at once, with a new count of tries.
type Retry struct {
	At          int64    `json:"at"`                    // when it was asked for, in milliseconds since 1970; 0 for never
	Servers     []string `json:"servers"`               // none means all
	Directories []string `json:"directories,omitempty"` // of the instances, as they call themselves; none means all
	Force       []string `json:"force,omitempty"`       // servers that are restarted if they are connected
}

// mergeWithin is how soon after another a retry has to ask for what that one asked for
// as well: the plugins see what is in the file, and may not have looked in between.
const mergeWithin = 2 * time.Second

// ReadControl returns what the plugins in dir are told. Nothing there means nothing.
func ReadControl(dir string) (Control, error) {
	c := Control{Retry: Retry{Servers: []string{}}}
	path := filepath.Join(dir, controlName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("reading what the plugins are told: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return c, nil // the plugin does not follow it either, and writing replaces it
	case !info.Mode().IsRegular() || info.Size() > sizeLimit: // which may have no end
		return c, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("reading what the plugins are told: %w", err)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(content, &fields) != nil || fields["paused"] == nil || json.Unmarshal(content, &c) != nil {
		return Control{}, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	return c, nil
}

// SetPaused pauses or resumes the plugins in dir, and reports whether that changed anything.
func SetPaused(dir string, paused bool) (changed bool, err error) {
	err = update(dir, func(c *Control) bool {
		changed = c.Paused != paused
		c.Paused = paused
		return changed
	})
	return changed, err
}

// RequestRetry asks the plugins in dir for a retry, whatever its At, and returns the At
// that it got. It waits for up to two seconds where this or the last one forces a
// restart: to ask for both would force it once more.
func RequestRetry(dir string, asked Retry) (at time.Time, err error) {
	for ; ; time.Sleep(mergeWithin / 20) {
		err = update(dir, func(c *Control) bool {
			now := time.Now()
			last, next := c.Retry, asked
			if now.Sub(time.UnixMilli(last.At)).Abs() < mergeWithin { // it may be ahead by some milliseconds
				if len(last.Force) > 0 || len(asked.Force) > 0 {
					return false
				}
				next.Servers, next.Directories = union(asked.Servers, last.Servers), union(asked.Directories, last.Directories)
			}
			// It grows even where the clock was set back, or plugins would not see it.
			next.At = max(now.UnixMilli(), last.At+1)
			next.Servers = append([]string{}, next.Servers...)
			c.Retry, at = next, time.UnixMilli(next.At)
			return true
		})
		if err != nil || !at.IsZero() {
			return at, err
		}
	}
}

// union unites two lists of which an empty one means everything.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	both := slices.Concat(a, b)
	slices.Sort(both)
	return slices.Compact(both)
}

const controlName = "control.json"

// update changes the control file, one process at a time.
func update(dir string, change func(*Control) bool) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", dir, ErrNotInstalled)
		}
		return fmt.Errorf("telling the plugins: %w", err)
	}
	unlock, err := lock(filepath.Join(dir, "control.lock"))
	if err != nil {
		return fmt.Errorf("telling the plugins: %w", err)
	}
	defer unlock()
	c, err := ReadControl(dir)
	if err != nil {
		return err
	}
	if !change(&c) {
		return nil
	}
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, controlName), append(content, '\n')); err != nil {
		return fmt.Errorf("telling the plugins: %w", err)
	}
	return nil
}

// lock takes a lock file, which has the mode of all our files. It stays: to remove
// one is to let two processes hold it.
func lock(path string) (unlock func(), err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	return lockedfile.MutexAt(path).Lock()
}
