// Package state is the Go side of engine.md's rules 18 and 19: it reads what running
// plugins say of themselves, writes what they are told, and lets a process that looks
// after an OpenCode from outside say the same of itself. It never talks to
// OpenCode, and never touches a file that is neither theirs nor its own.
package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

// format is the newest format of a state file that this package knows.
const format = 1

// instancesName is the directory of the state files. It is not the one of the control
// file, so that their writing wakes nobody who waits for that one.
const instancesName = "instances"

// sizeLimit is more than any file here has, in bytes.
const sizeLimit = 1 << 20

// forgottenAfter is when a file is removed that cannot be told to be of a dead process.
const forgottenAfter = 30 * 24 * time.Hour

// An Instance is one project directory in one running OpenCode.
type Instance struct {
	Pid       int    // of the OpenCode process, or of the watch
	Watch     bool   // a watch looks after it from outside, and no plugin
	Version   string // of the plugin that it has loaded, or of the watch
	Directory string
	URL       string    // of the OpenCode server, "" where it does not listen
	Started   bool      // it is in use: the plugin looks after its servers
	Paused    bool      // the plugin obeys a pause
	Known     bool      // a status was read: there are the Servers, and no others
	RetriedAt time.Time // Retry.At of the last retry that the plugin saw, zero for none
	Servers   []Server  // in the order in which OpenCode lists them; none before the first status
}

// A Server is what a plugin knows of an MCP server.
type Server struct {
	Name   string
	Status string // what OpenCode says: connected, failed, disabled, needs_auth, …
	// Phase is where the plugin is with a server that it has seen to fail: waiting,
	// trying, parked, dormant, up or aside; dead or outdated for one that is connected and
	// needs a restart (rule 20); skipped for a failed one that it was told to leave alone;
	// "" for any other.
	Phase   string
	Tries   int       // that still count, rounded up (rule 12)
	Skipped bool      // the policy leaves it alone, whatever its status
	Retried bool      // a try began since Instance.RetriedAt
	Error   string    // the last one, without secrets, at most 200 characters
	Since   time.Time // when it got its status
	TriedAt time.Time // when it was tried last, zero for never
	DueAt   time.Time // when it will be tried next, zero if that is not planned
}

// Instances are what was found, in the order of their processes, URLs and directories.
type Instances struct {
	List    []Instance
	Watches []Watch // whether or not they have directories, in the order of their processes and URLs
	// Newer and Elsewhere count the files that were left alone: of a newer version, and of
	// another machine or container that shares the directory.
	Newer, Elsewhere int
}

// fileName is the name of a state file or, with a dot, of one on its way. It is compiled
// at its first use, not at every start of a program that only merges.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\.?)([0-9]{1,10})-[0-9a-f]{16}(?:\.json|\.tmp|\.json\.[0-9]+\.tmp)$`)
})

// Read returns the instances whose state is in dir, which is plugin.Location's StateDir.
// State of processes that are no more is removed. Files that are half-written, broken or
// somebody else's are passed over.
func Read(dir string) (Instances, error) {
	found := Instances{List: []Instance{}}
	states := filepath.Join(dir, instancesName)
	for _, name := range []string{dir, states} {
		switch ok, err := isDir(name); {
		case err != nil:
			return found, fmt.Errorf("reading the state: %w", err)
		case !ok:
			return found, nil
		}
	}
	return readFiles(states, os.Remove)
}

// readFiles reads a directory of state files, and has those removed that are of nobody.
func readFiles(states string, remove func(path string) error) (Instances, error) {
	found := Instances{List: []Instance{}}
	entries, err := os.ReadDir(states)
	if err != nil {
		return found, fmt.Errorf("reading the state: %w", err)
	}
	for _, entry := range entries {
		name := fileName().FindStringSubmatch(entry.Name())
		if name == nil || !entry.Type().IsRegular() {
			continue
		}
		pid, _ := strconv.Atoi(name[2])
		path := filepath.Join(states, entry.Name())
		f, written, err := readFile(path)
		if written.IsZero() {
			continue // gone meanwhile, or unreadable
		}
		switch state := f.standing(pid, written, err != nil || name[1] == "."); {
		case state == dead, state != alive && time.Since(written) > forgottenAfter:
			remove(path)
		case state == newer:
			found.Newer++
		case state == elsewhere:
			found.Elsewhere++
		case state != alive || f.Format != format || f.Pid != pid:
		case f.Connection != nil:
			found.Watches = append(found.Watches, Watch{Pid: f.Pid, Version: f.Version, URL: f.URL, State: f.Connection.State, Error: f.Connection.Error})
		default:
			found.List = append(found.List, f.instance())
		}
	}
	slices.SortFunc(found.List, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Pid, b.Pid), cmp.Compare(a.URL, b.URL), cmp.Compare(a.Directory, b.Directory))
	})
	slices.SortFunc(found.Watches, func(a, b Watch) int { return cmp.Or(cmp.Compare(a.Pid, b.Pid), cmp.Compare(a.URL, b.URL)) })
	for n := range found.Watches {
		w := &found.Watches[n]
		for _, i := range found.List {
			if i.Watch && i.Pid == w.Pid && i.URL == w.URL {
				w.Directories++
			}
		}
	}
	return found, nil
}

// isDir reports whether there is a directory with that name. Something else, such as a
// symbolic link, is an error: it is not ours to follow.
func isDir(name string) (bool, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !info.IsDir():
		err = &ForeignError{name}
	}
	return err == nil, err
}

// makeDir creates a directory of ours, and those above it, where it is missing.
func makeDir(name string) error {
	there, err := isDir(name)
	if there || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		return nil // somebody was faster
	} else if err != nil {
		return err
	}
	return os.Chmod(name, 0o700) // whatever the umask
}

// standing is what is to be thought of a state file.
type standing int

const (
	unknown   standing = iota // of a process that has the pid now, but is perhaps not the one
	alive                     // of a running process
	dead                      // of one that is no more
	newer                     // of a version that this one cannot read
	elsewhere                 // of another machine, or another space of pids
)

func (f file) standing(pid int, written time.Time, broken bool) standing {
	host, _ := os.Hostname()
	p, running := process.Find(pid)
	switch {
	case broken && running:
		return unknown
	case broken: // it is one on its way, or nobody's who could mend it
		if time.Since(written) < time.Minute { // perhaps another machine's
			return unknown
		}
		return dead
	case f.Format > format:
		return newer
	case f.Space != process.Space():
		return elsewhere
	case running && p.Wrote(f.Began, written):
		return alive // whatever this machine is called now: laptops change their names with the network
	case f.Host != host:
		return elsewhere
	case !running:
		return dead
	case p.Began != "" && f.Began != "":
		return dead
	}
	return unknown
}

// A file is a state file as template/state.js and a Record write it. Times are in
// milliseconds.
type file struct {
	Format    int      `json:"format"`
	Version   string   `json:"version"`
	Pid       int      `json:"pid"`
	Host      string   `json:"host"`
	Space     string   `json:"space"`
	Began     string   `json:"began"`
	Directory string   `json:"directory"`
	URL       string   `json:"url"`
	Watch     bool     `json:"watch"`
	Started   bool     `json:"started"`
	Paused    bool     `json:"paused"`
	Known     bool     `json:"known"`
	RetriedAt float64  `json:"retriedAt"`
	Servers   []server `json:"servers"`

	Connection *connection `json:"connection,omitempty"` // a watch's, of no directory
}

type connection struct {
	State string `json:"state"`
	Error string `json:"error"`
}

type server struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Phase   string  `json:"phase"`
	Tries   int     `json:"tries"`
	Skipped bool    `json:"skipped"`
	Retried bool    `json:"retried"`
	Error   string  `json:"error"`
	Since   float64 `json:"since"`
	TriedAt float64 `json:"triedAt"`
	DueAt   float64 `json:"dueAt"`
}

func (f file) instance() Instance {
	i := Instance{
		Pid: f.Pid, Watch: f.Watch, Version: f.Version, Directory: f.Directory, URL: f.URL,
		Started: f.Started, Paused: f.Paused, Known: f.Known, RetriedAt: timeOf(f.RetriedAt), Servers: []Server{},
	}
	for _, s := range f.Servers {
		i.Servers = append(i.Servers, Server{
			Name: s.Name, Status: s.Status, Phase: s.Phase, Tries: s.Tries, Skipped: s.Skipped, Retried: s.Retried, Error: s.Error,
			Since: timeOf(s.Since), TriedAt: timeOf(s.TriedAt), DueAt: timeOf(s.DueAt),
		})
	}
	return i
}

// readFile reads a state file, and says when it was written, or the zero time if
// it is there no more.
func readFile(path string) (f file, written time.Time, err error) {
	r, err := os.Open(path)
	if err != nil {
		return f, written, err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return f, written, err
	}
	content, err := io.ReadAll(io.LimitReader(r, sizeLimit))
	if err != nil {
		return f, info.ModTime(), err
	}
	var newer struct{ Format int } // whose other fields may be of other types
	if json.Unmarshal(content, &newer) == nil && newer.Format > format {
		return file{Format: newer.Format}, info.ModTime(), nil
	}
	return f, info.ModTime(), json.Unmarshal(content, &f)
}

// timeOf is the time of a JavaScript Date's value, or the zero time for none.
func timeOf(ms float64) time.Time {
	const most = 8.64e15 // of a Date
	if !(ms > 0 && ms <= most) {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}
