package state

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/atomicfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

// A Record is the state file of an instance that this process looks after from outside,
// as a plugin's is that of one in its own process (rule 18); or that of its connection to
// an OpenCode server, whatever it has to look after there.
type Record struct {
	path string
	self file // what it has of this process
}

// NewRecord returns the Record of a directory in the OpenCode server at a URL, in
// plugin.Location's StateDir; that of the connection if the directory is "". Nothing is
// written yet.
func NewRecord(dir, url, directory string) *Record {
	self := file{Format: format, Pid: os.Getpid(), Space: process.Space(), Watch: true, URL: url, Directory: directory}
	self.Host, _ = os.Hostname()
	if p, alive := process.Find(self.Pid); alive {
		self.Began = p.Began
	}
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s", self.Host, self.Space, url, directory))
	return &Record{filepath.Join(dir, instancesName, fmt.Sprintf("%d-%x.json", self.Pid, hash[:8])), self}
}

// Path is that of the file, which is the same for the same directory and URL.
func (r *Record) Path() string { return r.path }

// Save writes what is known of the instance; the Record has the rest.
func (r *Record) Save(i Instance) error {
	f := r.self
	f.Version, f.Started, f.Paused, f.Known, f.RetriedAt = i.Version, i.Started, i.Paused, i.Known, msOf(i.RetriedAt)
	f.Servers = []server{}
	for _, s := range i.Servers {
		f.Servers = append(f.Servers, server{s.Name, s.Status, s.Phase, s.Tries, s.Skipped, s.Retried, s.Error, msOf(s.Since), msOf(s.TriedAt), msOf(s.DueAt)})
	}
	return r.write(f)
}

// SaveWatch writes what is known of the connection: its Version, State and Error.
func (r *Record) SaveWatch(w Watch) error {
	f := r.self
	f.Version, f.Servers, f.Connection = w.Version, []server{}, &connection{w.State, w.Error}
	return r.write(f)
}

// write writes the file. The directories are created where they are missing.
func (r *Record) write(f file) error {
	if err := makeInstances(filepath.Dir(filepath.Dir(r.path))); err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.WriteUnsynced(r.path, append(text, '\n'))
}

// Try reports why no state can be written in dir, which is plugin.Location's StateDir.
func Try(dir string) error {
	if err := makeInstances(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(dir, instancesName), ".*.tmp")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func makeInstances(dir string) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	return makeDir(filepath.Join(dir, instancesName))
}

// Remove removes the file, if there is one.
func (r *Record) Remove() error {
	if err := os.Remove(r.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// msOf is a time as a JavaScript Date's value, 0 for the zero time.
func msOf(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli())
}
