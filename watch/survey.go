package watch

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// A Match is something that a retry is passed on to.
type Match struct {
	URL       string `json:"url"`       // of the OpenCode server; "" for one that does not listen
	Directory string `json:"directory"` // "" for the connection to the server, which is opened
	// Servers are those of the named ones that are there; without names, those that
	// failed, but for what the policy leaves alone. None as long as no status was read.
	Servers []string `json:"servers"`

	target  *target // that looks after it; nil if it is another process's
	visited bool    // the target did not know it before
	byOther bool    // a plugin or another watch does the work
}

// take takes the servers that a retry is about, and reports whether it is about this match.
func (m *Match) take(servers []state.Server, named []string) bool {
	m.Servers = []string{}
	for _, s := range servers {
		if slices.Contains(named, s.Name) || len(named) == 0 && s.Status == "failed" && !s.Skipped {
			m.Servers = append(m.Servers, s.Name)
		}
	}
	return len(named) == 0 || len(m.Servers) > 0
}

// A NoMatchError says that a retry found nothing to try, and what there is instead.
type NoMatchError struct{ Text string }

func (e *NoMatchError) Error() string { return e.Text }

// An AmbiguousError says that a directory is in use in none of several OpenCodes, of
// which each would start its servers if it was asked.
type AmbiguousError struct {
	Directory string
	URLs      []string // of the OpenCodes
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s is in use in none of the OpenCodes, and any of them may have it: name one of %s", brief(e.Directory), listed(e.URLs))
}

// A survey is what is known at a moment, here and by other processes with the same
// StateDir.
type survey struct {
	targets []seenTarget
	others  []state.Instance
	watches []state.Watch // other ones
	chosen  bool          // the targets were named
	known   []string      // directories of all these, in their order
}

type seenTarget struct {
	t *target
	TargetState
}

func (s seenTarget) open() bool { return s.State == Connected || s.State == Idle }

// survey looks at the targets with these URLs, at all if there are none.
func (w *Watcher) survey(urls []string) (*survey, error) {
	s := &survey{chosen: len(urls) > 0}
	defer s.learn()
	all := w.all()
	chosen := map[*target]bool{}
	for _, url := range urls {
		t := w.target(url)
		if t == nil {
			var ids []string
			for _, t := range all {
				ids = append(ids, t.id)
			}
			return nil, &NoMatchError{fmt.Sprintf("%s is not watched; watched are: %s", brief(url), listed(ids))}
		}
		chosen[t] = true
	}
	for _, t := range all {
		if s.chosen && !chosen[t] {
			continue
		}
		if state, ok := t.state(); ok {
			s.targets = append(s.targets, seenTarget{t, state})
		}
	}
	if w.options.StateDir == "" {
		return s, nil
	}
	found, _ := state.Read(w.options.StateDir) // of what cannot be read, none
	for _, i := range found.List {
		if i.Watch && i.Pid == os.Getpid() {
			continue
		}
		listener, err := parseAddress(i.URL)
		if !s.chosen || err == nil && slices.ContainsFunc(s.targets, func(seen seenTarget) bool { return listener.serves(seen.t.at) }) {
			s.others = append(s.others, i)
		}
	}
	for _, other := range found.Watches {
		if other.Pid != os.Getpid() {
			s.watches = append(s.watches, other)
		}
	}
	return s, nil
}

// learn notes the directories that are known, of every process.
func (s *survey) learn() {
	for _, seen := range s.targets {
		for _, d := range seen.Directories {
			s.known = append(s.known, d.Directory)
		}
	}
	for _, i := range s.others {
		s.known = append(s.known, i.Directory)
	}
	slices.Sort(s.known)
	s.known = slices.Compact(s.known)
}

func (s *survey) knows(directory string) bool {
	_, known := slices.BinarySearch(s.known, directory)
	return known
}

// spelled returns directories as those call them who have them.
func (s *survey) spelled(directories []string) (spelled []string) {
	there := sync.OnceValue(func() (infos []os.FileInfo) {
		for _, directory := range s.known {
			info, _ := os.Stat(directory)
			infos = append(infos, info)
		}
		return infos
	})
	for _, directory := range directories {
		if !isDirectory(directory) {
			spelled = append(spelled, directory)
			continue
		}
		if strings.HasPrefix(directory, "/") {
			directory = path.Clean(directory)
		}
		info, err := os.Stat(directory)
		if err != nil || s.knows(directory) {
			spelled = append(spelled, directory)
			continue
		}
		n := len(spelled)
		for i, other := range there() {
			if other != nil && os.SameFile(info, other) {
				spelled = append(spelled, s.known[i])
			}
		}
		if len(spelled) == n {
			spelled = append(spelled, s.resolved(directory))
		}
	}
	slices.Sort(spelled)
	return slices.Compact(spelled)
}

// resolved returns a directory without symbolic links, as an OpenCode on this machine
// calls it (1.2.27 to 1.18.33; 1.1.65 does not). Its events know no other path.
func (s *survey) resolved(directory string) string {
	local := slices.ContainsFunc(s.targets, func(seen seenTarget) bool { return seen.t.at.ofThisMachine() })
	if real, err := filepath.EvalSymlinks(directory); err == nil && local {
		return real
	}
	return directory
}

// matches are what a retry is passed on to, and what has to be visited for that. Without a
// match an error says why.
func (s *survey) matches(asked state.Retry) (all []Match, v visits, err error) {
	lacks, v := &lacking{}, visits{}
	meant := func(directory string) bool {
		return len(asked.Directories) == 0 || slices.Contains(asked.Directories, directory)
	}
	add := func(m Match, servers []state.Server, known bool) {
		switch {
		case !known:
			m.Servers = []string{}
		case !m.take(servers, asked.Servers):
			lacks.servers(m.Directory, servers)
			return
		}
		all = append(all, m)
	}
	for _, seen := range s.targets {
		for _, d := range seen.Directories {
			if meant(d.Directory) {
				add(Match{URL: seen.URL, Directory: d.Directory, target: seen.t, byOther: d.ByOther}, d.servers(), d.known)
			}
		}
		if !seen.open() && len(asked.Directories) == 0 {
			add(Match{URL: seen.URL, target: seen.t}, nil, false)
		}
	}
	for _, i := range s.others {
		used := i.Started || slices.Contains(asked.Use, i.Directory)
		if meant(i.Directory) && used && !s.has(i) {
			add(Match{URL: i.URL, Directory: i.Directory, byOther: true}, i.Servers, i.Known)
		}
	}
	for _, directory := range asked.Use {
		if s.knows(directory) {
			continue
		}
		targets, problem := s.places(directory)
		err = cmp.Or(err, problem)
		v.add(directory, targets)
		for _, t := range targets {
			add(Match{URL: t.id, Directory: directory, target: t, visited: true}, nil, false)
		}
	}
	if len(all) > 0 {
		return all, v, nil
	}
	if err == nil {
		lacks.known = s.known
		lacks.targets = len(s.targets)
		err = lacks.err(asked)
	}
	return nil, v, err
}

// has reports whether a target of ours has the directory of an instance of its OpenCode.
func (s *survey) has(i state.Instance) bool {
	listener, err := parseAddress(i.URL)
	return err == nil && slices.ContainsFunc(s.targets, func(seen seenTarget) bool {
		return listener.serves(seen.t.at) && slices.ContainsFunc(seen.Directories, func(d DirectoryState) bool { return d.Directory == i.Directory })
	})
}

// places are the targets that are to look at a directory that nobody has in use: to ask an
// OpenCode about one that it does not have open starts servers there. No OpenCode has a
// question that only tells what it has open: its lists of sessions and projects are those
// of its disk, which others have as well.
func (s *survey) places(directory string) ([]*target, error) {
	if !isDirectory(directory) || len(directory) > pathLimit {
		return nil, &NoMatchError{brief(directory) + " is no absolute path of a directory"}
	}
	info, err := os.Stat(directory)
	exists := err == nil && info.IsDir()
	var open, down []*target
	var urls []string
	missing := false
	for _, seen := range s.targets {
		switch {
		case !exists && seen.t.at.ofThisMachine():
			missing = true // it would be an instance all the same
		case seen.open():
			open, urls = append(open, seen.t), append(urls, seen.URL)
		default:
			down = append(down, seen.t)
		}
	}
	if s.chosen && len(open)+len(down) > 0 {
		return append(open, down...), nil
	}
	waits := len(down)
	for _, other := range s.watches {
		at, err := parseAddress(other.URL)
		ours := slices.ContainsFunc(s.targets, func(seen seenTarget) bool { return seen.t.at.place() == at.place() })
		switch {
		case err != nil || ours || !exists && at.ofThisMachine():
		case other.State == Connected || other.State == Idle:
			urls = append(urls, other.URL)
		default:
			waits++
		}
	}
	switch {
	case len(urls) > 1:
		shown := slices.DeleteFunc(slices.Clone(open), func(t *target) bool { return !t.showed(directory) })
		if len(shown) == 0 {
			return nil, &AmbiguousError{Directory: directory, URLs: urls}
		}
		return shown, nil
	case len(open) == 1:
		return open, nil
	case len(urls) == 0 && waits == 1 && len(down) == 1:
		return down, nil
	case missing && len(down) == 0:
		return nil, &NoMatchError{brief(directory) + " is not in use, and no directory on this machine"}
	}
	return nil, &NoMatchError{brief(directory) + " is not in use, and no OpenCode is connected that could have it"}
}

// showed asks the loop whether an event told of the directory since the stream was opened.
func (t *target) showed(directory string) bool {
	answer := make(chan bool, 1)
	return t.post(func(time.Time) { answer <- t.stream != nil && t.stream.places.has(directory) }) && <-answer
}

// -- What to say where there is nothing

const mostNamed = 5

// lacking is what was found that is not what was asked for.
type lacking struct {
	other   []string // what directories have instead of a server
	gone    string   // why a directory is not looked at
	known   []string // directories
	targets int
}

func (l *lacking) servers(directory string, servers []state.Server) {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	l.other = append(l.other, fmt.Sprintf("%s has %s", brief(directory), cmp.Or(listed(names), "none")))
}

func (l *lacking) unseen(m Match, s TargetState) {
	l.gone = fmt.Sprintf("%s is not in use, and %s is %s", brief(m.Directory), m.URL, strings.ReplaceAll(cmp.Or(s.State, Closed), "_", " "))
	if s.Error != "" {
		l.gone += ": " + s.Error
	}
}

func (l *lacking) err(asked state.Retry) error {
	var names []string
	for _, name := range asked.Servers {
		names = append(names, fmt.Sprintf("%q", brief(name)))
	}
	switch {
	case len(l.other) > 0:
		rest := ""
		if n := len(l.other) - mostNamed; n > 0 {
			l.other, rest = l.other[:mostNamed], fmt.Sprintf("; and %d more directories", n)
		}
		return &NoMatchError{fmt.Sprintf("there is no server %s; %s%s", listed(names), strings.Join(l.other, "; "), rest)}
	case l.gone != "":
		return &NoMatchError{l.gone}
	case len(asked.Directories) > 0 && len(l.known) > 0:
		return &NoMatchError{fmt.Sprintf("%s is not in use; known are: %s", listed(asked.Directories), listed(l.known))}
	case l.targets > 0:
		return &NoMatchError{"there is nothing to try: no directory is in use; one that is named is looked at"}
	}
	return &NoMatchError{"there is nothing to try: no OpenCode is watched"}
}

// listed lists some of the texts.
func listed(texts []string) string {
	var some []string
	for n, text := range texts {
		if n == 2*mostNamed {
			some = append(some, fmt.Sprintf("%d more", len(texts)-n))
			break
		}
		some = append(some, brief(text))
	}
	return strings.Join(some, ", ")
}

// brief is a text of somebody else's that can be shown.
func brief(text string) string { return shown(text, errorLimit) }
