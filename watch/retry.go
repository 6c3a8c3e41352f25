package watch

import (
	"errors"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// Retry forgets back-off and tries now: the targets that are not connected, and in the
// others the failed servers that are asked for, and the connected ones whose restart is
// forced. A directory in asked.Use is looked at though nobody used it yet (rule 2): by
// the one OpenCode that is connected, or those that showed that they have it open. URLs
// of targets say that only these are meant, and are enough to say where such a directory
// is. With a StateDir every plugin and watch that has its state there does the same, as
// for `mcp-reconnect retry`.
//
// It returns what it is passed on to, for which it takes a few seconds where a directory
// is looked at for the first time. A *NoMatchError says that there was nothing to try, and
// an *AmbiguousError that an OpenCode is to be named.
func (w *Watcher) Retry(asked state.Retry, urls ...string) ([]Match, error) {
	s, err := w.survey(urls)
	if err != nil {
		return nil, err
	}
	asked.Directories, asked.Use = s.spelled(asked.Directories), s.spelled(asked.Use)
	matches, visits, err := s.matches(asked)
	if len(matches) == 0 {
		for _, seen := range s.targets {
			seen.t.post(func(now time.Time) { seen.t.reopen(now) })
		}
		return nil, err
	}
	passed := w.options.StateDir != "" && (len(urls) == 0 || slices.ContainsFunc(matches, func(m Match) bool { return m.byOther }))
	if passed {
		all := asked
		if len(urls) > 0 { // a plugin may hear it, and no watch may look elsewhere
			all.Use = nil
			for _, m := range matches {
				if m.byOther {
					all.Use = append(all.Use, m.Directory)
				}
			}
			all.Directories = slices.Clone(all.Use)
		}
		_, err := state.RequestRetry(w.options.StateDir, all)
		passed = err == nil
	}
	if !passed || len(urls) > 0 { // else steer sees to it
		asked.At = time.Now().UnixMilli()
		s.pass(asked, visits)
	}
	return w.await(asked, matches, visits)
}

// retry does what the control file asks for.
func (w *Watcher) retry(asked state.Retry) {
	s, err := w.survey(nil)
	if err != nil {
		return
	}
	asked.Directories, asked.Use = s.spelled(asked.Directories), s.spelled(asked.Use)
	visits := visits{}
	for _, directory := range asked.Use {
		if s.knows(directory) {
			continue
		}
		targets, problem := s.places(directory)
		var unclear *AmbiguousError
		if errors.As(problem, &unclear) { // another problem is for nobody here to look at
			w.options.Log.Warn(problem.Error() + `, as "urls" of POST /retry`)
		}
		visits.add(directory, targets)
	}
	s.pass(asked, visits)
}

// visits are the directories that targets are to look at.
type visits map[*target][]string

func (v visits) add(directory string, targets []*target) {
	for _, t := range targets {
		v[t] = append(v[t], directory)
	}
}

func (s *survey) pass(asked state.Retry, v visits) {
	for _, seen := range s.targets {
		seen.t.post(func(now time.Time) { seen.t.retry(now, asked, v[seen.t]) })
	}
}

// firstLook is how long an answer waits for the status of a directory that nobody used
// yet: those who wait are people.
const firstLook = 5 * time.Second

type visited struct {
	t         *target
	directory string
}

// await waits until it is known which servers there are where nobody looked before.
func (w *Watcher) await(asked state.Retry, matches []Match, v visits) ([]Match, error) {
	if len(v) == 0 {
		return matches, nil
	}
	for deadline := time.Now().Add(firstLook); ; time.Sleep(recordDelay / 2) {
		pending, lacks := false, &lacking{}
		states, first := map[*target]TargetState{}, map[visited]DirectoryState{}
		for t := range v {
			state, _ := t.state()
			states[t] = state
			for _, d := range state.Directories {
				first[visited{t, d.Directory}] = d
			}
		}
		var now []Match
		for _, m := range matches {
			d, there := first[visited{m.target, m.Directory}]
			switch {
			case !m.visited:
				now = append(now, m)
			case !there:
				lacks.unseen(m, states[m.target])
				pending = pending || m.target.ctx.Err() == nil
			case !d.known:
				pending = true
				now = append(now, m)
			case m.take(d.servers(), asked.Servers):
				now = append(now, m)
			default:
				lacks.servers(m.Directory, d.servers())
			}
		}
		switch {
		case pending && w.ctx.Err() == nil && time.Now().Before(deadline):
		case len(now) == 0:
			return nil, lacks.err(asked)
		default:
			return now, nil
		}
	}
}

// -- What a target does

// A wanted is a retry whose directories are looked at as soon as the stream is open.
type wanted struct {
	asked       state.Retry
	directories []string
}

// retry is asked for by a person, or by another program for one. The directories to visit
// count as used.
func (t *target) retry(now time.Time, asked state.Retry, visit []string) {
	t.reopen(now)
	switch {
	case t.stream != nil:
		for _, directory := range visit {
			t.visit(now, directory)
		}
	case len(visit) > 0 && len(t.wanted) < maxDirectories:
		only := asked
		only.Directories = visit
		t.wanted = append(t.wanted, wanted{only, visit})
	}
	for _, d := range t.directories {
		if len(asked.Directories) == 0 || slices.Contains(asked.Directories, d.path) {
			if slices.Contains(asked.Use, d.path) {
				d.engine.Used(now, reconnect.Asked, "")
			}
			d.usedAt = now
			if len(asked.Force) > 0 && len(d.engine.Servers()) == 0 {
				d.forced = asked.Force // which is for those that are seen to be connected
			}
			d.engine.Retry(now, asked.Servers, asked.Force)
		}
		d.retriedAt = time.UnixMilli(asked.At) // as plugins say that they heard, whether it concerns them or not
		t.changed(now, d)
	}
}

// reopen opens the stream if it waits to be.
func (t *target) reopen(now time.Time) {
	t.attempts, t.fickle = 0, false
	if t.closeStream == nil {
		t.open(now)
	}
}

// visit makes a directory one that is in use, because somebody named it.
func (t *target) visit(now time.Time, directory string) {
	t.stream.active.set(now)
	if t.activeAt = now; t.status == Idle {
		t.move(now, Connected, "")
	}
	t.use(now, t.directories[directory], signal{directory: directory, use: reconnect.Asked})
}

// visitWanted does what was asked for while there was no stream.
func (t *target) visitWanted(now time.Time) {
	all := t.wanted
	t.wanted = nil
	for _, wanted := range all {
		t.retry(now, wanted.asked, wanted.directories)
	}
}

func (t *target) pause(now time.Time, paused bool) {
	t.paused = paused
	for _, d := range t.directories {
		d.engine.Pause(now, paused || d.owner != "")
		t.changed(now, d)
	}
}
