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

// A ForeignError is about what stands at one of our names and is not ours. It was left alone.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string { return e.Path + ": not a file of mcp-reconnect" }

// Control is what running plugins are told (rule 19).
type Control struct {
	Paused bool  `json:"paused"` // nothing is reconnected, also after a restart
	Retry  Retry `json:"retry"`
}

// A Retry asks for servers to be tried at once, with a new count of tries.
type Retry struct {
	At          int64    `json:"at"`                    // when it was asked for, in milliseconds since 1970; 0 for never
	Servers     []string `json:"servers"`               // none means all
	Directories []string `json:"directories,omitempty"` // of the instances, as they call themselves; none means all in use
	Use         []string `json:"use,omitempty"`         // directories that count as used from now on, being named by somebody
	Force       []string `json:"force,omitempty"`       // servers that are restarted if they are connected
}

// mergeWithin is how soon after another a retry has to ask for what that one asked for
// as well: the plugins see what is in the file, and may not have looked in between.
const mergeWithin = 2 * time.Second

// ReadControl returns what is told in dir, which is plugin.Location's StateDir. Nothing
// there means nothing.
func ReadControl(dir string) (Control, error) {
	c := Control{Retry: Retry{Servers: []string{}}}
	if ok, err := isDir(dir); !ok || err != nil {
		return c, err
	}
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
		return c, &ForeignError{path}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("reading what the plugins are told: %w", err)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(content, &fields) != nil || fields["paused"] == nil || json.Unmarshal(content, &c) != nil {
		return Control{}, &ForeignError{path}
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
				next.Use = sortedSet(slices.Concat(asked.Use, last.Use))
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
	return sortedSet(slices.Concat(a, b))
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

const (
	controlName = "control.json"
	lockName    = "control.lock"
)

// update changes the control file, one process at a time. The directory is created where
// it is missing.
func update(dir string, change func(*Control) bool) error {
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("telling the plugins: %w", err)
	}
	unlock, err := lock(filepath.Join(dir, lockName))
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
