package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/reconnect"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const (
	maxDirectories = 1000 // in use in one target; others are passed over
	maxReads       = 8    // of status at once; others wait
)

// A directory is one that has shown a sign of use, or was named, with its engine.
type directory struct {
	path     string
	engine   *reconnect.Engine
	ctx      context.Context // of its requests
	cancel   context.CancelFunc
	usedAt   time.Time
	owner    string                          // what looks after it instead of us
	known    string                          // what that one knew when it was looked at last
	reads    bool                            // a status read was wanted while there was no stream
	stale    bool                            // no status was read since the stream was opened
	told     map[string]string               // server -> the state that was told last
	changes  map[string]reconnect.Transition // server -> the last one that is not told yet, while stale
	tools    map[string]bool                 // servers that say that their tools changed, since the last read began
	confirms map[string]bool                 // those of before the read whose answer is being looked at
	refused  complaints                      // about its status, since one was read

	forced []string         // servers whose restart was asked for before any status was read
	denied []reconnect.Call // calls that wait until it is known which of its servers are remote

	record     *state.Record // nil where none is kept
	unrecorded bool          // something changed since it was written
	retriedAt  time.Time     // when the last retry was asked for
}

func (t *target) signal(now time.Time, generation int, got signal) {
	if generation != t.generation || t.stream == nil {
		return
	}
	if got.kind == malformed {
		t.complain("the server sends events that cannot be read; they are passed over")
		return
	}
	if got.kind == oversized {
		t.complain(fmt.Sprintf("the server sends events of more than %d MiB; what they say is passed over", eventLimit>>20))
	}
	if t.status == Idle {
		t.activeAt = now
		t.move(now, Connected, "")
	}
	d := t.directories[got.directory]
	switch got.kind {
	case allDisposed:
		for _, d := range t.directories {
			t.drop(now, d)
		}
	case disposed:
		if d != nil {
			t.drop(now, d)
		}
	case seen:
		if d == nil && isDirectory(got.directory) { // with start=load the instance counts as used
			t.use(now, nil, signal{directory: got.directory, use: reconnect.Load})
		}
	case used:
		t.use(now, d, got)
	case noticing:
		t.notices = true
		for _, d := range t.directories {
			d.engine.NoticesDeaths(now)
		}
	case called:
		if d != nil {
			t.called(now, d, got.call)
		}
	}
}

// use deals with a sign of use, the first of which makes the directory known.
func (t *target) use(now time.Time, d *directory, got signal) {
	policy := t.w.options.Policy
	if d == nil {
		if policy.Start == "mcp" && got.use != reconnect.MCP && got.use != reconnect.Asked {
			return
		}
		if len(t.directories) >= maxDirectories && !t.dropUnused(now) {
			t.complain(fmt.Sprintf("more than %d directories are in use; further ones are passed over", maxDirectories))
			return
		}
		d = &directory{
			path:    got.directory,
			engine:  reconnect.New(policy, t.pool, random),
			stale:   true,
			told:    map[string]string{},
			changes: map[string]reconnect.Transition{},
			tools:   map[string]bool{},
		}
		d.ctx, d.cancel = context.WithCancel(t.ctx)
		if t.w.keeper != nil {
			d.record = state.NewRecord(t.w.options.StateDir, t.id, d.path)
			// At once: another watch looks for it before it connects anything.
			t.w.keeper.keep(d.record, t.instance(d))
		}
		t.directories[d.path], t.engines[d.engine] = d, d
		if t.notices {
			d.engine.NoticesDeaths(now)
		}
		d.engine.Pause(now, t.paused)
	}
	if got.use != reconnect.MCP || now.Sub(d.usedAt) >= policy.IdleAfter {
		d.usedAt = now
	}
	if got.use == reconnect.MCP && got.server != "" {
		d.change(got.server)
	}
	d.engine.Used(now, got.use, got.server)
}

// called passes on what became of a call. Only where it matters, it is read before which
// of the servers are remote (rule 20): a configuration holds secrets.
func (t *target) called(now time.Time, d *directory, call reconnect.Call) {
	if !d.engine.NeedsConfigured(call) {
		d.engine.Called(now, call)
		return
	}
	if len(d.denied) < serverLimit {
		d.denied = append(d.denied, call)
	}
	if len(d.denied) > 1 {
		return // it is being read
	}
	api, dialect := t.api, t.dialect
	t.calls.Go(func() {
		remotes, err := api.remotes(d.ctx, dialect, d.path)
		t.post(func(now time.Time) {
			if t.directories[d.path] != d {
				return
			}
			if err != nil { // then none is known to be, and a later call asks again
				t.log.Info("reading which servers are remote: "+errText(err), "directory", d.path)
			} else {
				d.engine.Configured(now, remotes)
			}
			for _, call := range d.denied {
				d.engine.Called(now, call)
			}
			d.denied = nil
		})
	})
}

// change notes that a server's tools changed. More than a status may list are of none.
func (d *directory) change(server string) {
	if len(d.tools) < serverLimit {
		d.tools[server] = true
	}
}

// dropUnused forgets the directory that is out of use for the longest time, if there is one.
func (t *target) dropUnused(now time.Time) bool {
	var unused *directory
	for _, d := range t.directories {
		if now.Sub(d.usedAt) >= t.w.options.Policy.IdleAfter && (unused == nil || d.usedAt.Before(unused.usedAt)) {
			unused = d
		}
	}
	if unused == nil {
		return false
	}
	t.drop(now, unused)
	return true
}

// drop forgets a directory whose instance is no more.
func (t *target) drop(now time.Time, d *directory) {
	d.engine.Close(now)
	d.cancel()
	delete(t.directories, d.path)
	delete(t.engines, d.engine)
	if d.record != nil {
		t.w.keeper.remove(d.record)
	}
	if t.ctx.Err() != nil {
		return
	}
	for _, name := range sortedNames(d.told) {
		t.tell(Event{Type: StateChanged, Server: name, Directory: d.path, From: d.told[name]}, now)
	}
}

func sortedNames[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func (t *target) perform(d *directory, action reconnect.Action) {
	switch action := action.(type) {
	case reconnect.ReadStatus:
		if t.stream == nil {
			d.reads = true
			return
		}
		t.read(d)
	case reconnect.Connect:
		api, dialect := t.api, t.dialect
		t.calls.Go(func() {
			err := api.connect(d.ctx, dialect, d.path, action.Server)
			t.post(func(now time.Time) {
				if t.directories[d.path] != d {
					return
				}
				if err != nil {
					t.log.Info("connecting "+action.Server+": "+errText(err), "directory", d.path)
				}
				d.engine.Settled(now, action.Server)
			})
		})
	case reconnect.Log:
		level := slog.LevelInfo
		if action.Level == "warn" {
			level = slog.LevelWarn
		}
		t.log.Log(t.ctx, level, action.Text, "directory", d.path)
	case reconnect.Transition:
		d.changes[action.Server] = action
		if !d.stale {
			t.report(d, time.Now())
		}
	}
}

// read reads a directory's status, and just before who else looks after it.
func (t *target) read(d *directory) {
	api, dialect, generation, tools := t.api, t.dialect, t.generation, d.tools
	d.tools = map[string]bool{}
	// What is asked when a stream is lost may be answered as it was before.
	ctx, cancel := context.WithCancel(d.ctx)
	stop := context.AfterFunc(t.reading, cancel)
	t.calls.Go(func() {
		defer cancel()
		defer stop()
		answer, owner, err := t.ask(ctx, api, dialect, d.path)
		ended := ctx.Err() != nil
		t.post(func(now time.Time) {
			switch {
			case t.directories[d.path] != d:
			case err == nil && t.stream != nil && generation == t.generation:
				t.answered(now, d, answer, tools, owner)
			default:
				if err != nil && !ended {
					t.refuse(d, errText(err))
				}
				for name := range tools {
					d.change(name)
				}
				d.engine.Read(now, nil)
			}
		})
	})
}

// lookAtOwners has a status read where another one that does the work knows something
// new: OpenCode has no event for a server that is back.
func (t *target) lookAtOwners() {
	t.ownersAt = time.Time{}
	var paths []string
	for _, d := range t.directories {
		if d.owner != "" {
			paths = append(paths, d.path)
		}
	}
	if len(paths) == 0 {
		return
	}
	t.calls.Go(func() {
		known := map[string]string{}
		for _, path := range paths {
			_, known[path] = t.w.plugins.owner(t.at, path)
		}
		t.post(func(now time.Time) {
			t.ownersAt = now.Add(ownerInterval)
			for _, path := range paths {
				if d := t.directories[path]; d != nil && d.known != known[path] {
					d.known = known[path]
					d.engine.Used(now, reconnect.MCP, "")
				}
			}
		})
	})
}

// ask asks for a status, when it is its turn.
func (t *target) ask(ctx context.Context, api opencode, dialect *dialect, directory string) (answer map[string]reconnect.Status, owner string, err error) {
	ctx, cancel := within(ctx, readLimit)
	defer cancel()
	select {
	case t.reads <- struct{}{}:
		defer func() { <-t.reads }()
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	owner, _ = t.w.plugins.owner(t.at, directory)
	answer, err = api.status(ctx, dialect, directory)
	return answer, owner, reason(ctx, err)
}

// answered deals with a status. The tools are those that changed before it was asked for.
func (t *target) answered(now time.Time, d *directory, answer map[string]reconnect.Status, tools map[string]bool, owner string) {
	d.refused = complaints{}
	if owner != d.owner {
		d.owner = owner
		d.engine.Pause(now, owner != "" || t.paused)
		if owner != "" {
			t.log.Info(owner+" does the work", "directory", d.path)
		}
	}
	if d.owner != "" && t.ownersAt.IsZero() {
		t.ownersAt = now.Add(ownerInterval)
	}
	d.stale, d.confirms = false, tools
	d.engine.Read(now, answer)
	if forced := d.forced; len(forced) > 0 {
		d.forced = nil
		d.engine.Retry(now, forced, forced)
	}
	t.drain(now)
	t.report(d, now)
	for _, name := range sortedNames(d.confirms) {
		if answer[name].State == "connected" {
			t.tell(Event{Type: ToolsChanged, Server: name, Directory: d.path}, now)
		}
	}
	d.confirms = nil
}

// refuse says why a status cannot be read, once until one is read.
func (t *target) refuse(d *directory, problem string) {
	if d.ctx.Err() == nil && d.refused.first(problem) {
		t.log.Warn("reading the status: "+problem, "directory", d.path)
	}
}

// report tells of the transitions that were not told yet, several of one server as one.
func (t *target) report(d *directory, now time.Time) {
	for _, name := range sortedNames(d.changes) {
		change := d.changes[name]
		from := d.told[name]
		if change.To == from {
			continue
		}
		if d.told[name] = change.To; change.To == "" {
			delete(d.told, name)
		}
		t.tell(Event{Type: StateChanged, Server: name, Directory: d.path, From: from, To: change.To, Attempt: change.Attempt, Error: change.Error}, now)
		if change.To == "connected" && from != "" {
			delete(d.confirms, name)
			t.tell(Event{Type: ToolsChanged, Server: name, Directory: d.path}, now)
		}
	}
	clear(d.changes)
}

// snapshot is what is known.
func (t *target) snapshot() TargetState {
	s := TargetState{
		URL: t.id, State: t.status, Error: t.error, Attempt: t.attempts, Since: t.since, NextTry: t.retryAt,
		Directories: []DirectoryState{},
	}
	if t.dialect != nil {
		s.OpenCode = t.dialect.version
	}
	for _, path := range sortedNames(t.directories) {
		d := t.directories[path]
		shown := DirectoryState{Directory: path, ByOther: d.owner != "", Servers: []ServerState{}, known: !d.stale}
		for _, server := range d.engine.Servers() {
			if d.stale {
				break
			}
			shown.Servers = append(shown.Servers, ServerState{
				Name: server.Name, State: d.told[server.Name], Status: server.Status, Tries: server.Tries,
				Error: server.Error, Since: server.Since, NextTry: server.DueAt,
			})
		}
		s.Directories = append(s.Directories, shown)
	}
	return s
}
