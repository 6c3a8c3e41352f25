package watch

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const (
	// steerInterval is how often the control file is looked at: well within the second of
	// rule 19.
	steerInterval = 500 * time.Millisecond
	// recordDelay is how long changes are gathered before they are written.
	recordDelay = 100 * time.Millisecond
)

// steer obeys the control file, as plugins do (rule 19), until
// the Watcher is closed. What was asked for before is none of its business, but for a pause.
func (w *Watcher) steer(paused bool, retried int64) {
	ticker := time.NewTicker(steerInterval)
	defer ticker.Stop()
	started := w.wall().UnixMilli()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-ticker.C:
		}
		if w.keeper.lost() {
			for _, t := range w.all() {
				t.post(t.recordAnew)
			}
		}
		control, err := state.ReadControl(w.options.StateDir)
		if err != nil {
			continue // as the plugins do
		}
		if control.Paused != paused {
			paused = control.Paused
			w.Pause(paused)
		}
		if at := control.Retry.At; at > retried {
			retried = at
			if at < started { // it is read late, where a disk was broken: it forces nothing any more
				control.Retry.Force = nil
			}
			go w.retry(control.Retry) // a directory's disk that hangs keeps nobody from hearing of a pause
		}
	}
}

// obey begins to obey the control file, for which there has to be a place.
func (w *Watcher) obey() {
	_ = os.MkdirAll(w.options.StateDir, 0o700) // if it fails, nobody can be told anything
	control, err := state.ReadControl(w.options.StateDir)
	if err == nil {
		w.paused = control.Paused
	}
	w.running.Go(func() { w.steer(control.Paused, control.Retry.At) })
}

// A keeper writes state files (rule 18), so that no target waits for a disk.
type keeper struct {
	mu     sync.Mutex
	due    map[string]keeping // path -> what is to be done there
	kept   map[string]bool    // the paths of the files that there should be
	wake   chan struct{}      // holds one
	closed bool
	ended  chan struct{}
}

// keeping is how a record is written, or that it is to be removed, if that is nil.
type keeping struct {
	record *state.Record
	save   func() error
}

func newKeeper() *keeper {
	return &keeper{due: map[string]keeping{}, kept: map[string]bool{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// keep has the record say what is known of the instance.
func (k *keeper) keep(r *state.Record, i state.Instance) {
	k.plan(r, func() error { return r.Save(i) })
}

// keepWatch has the record say what is known of the connection.
func (k *keeper) keepWatch(r *state.Record, w state.Watch) {
	k.plan(r, func() error { return r.SaveWatch(w) })
}

// remove has the record be removed.
func (k *keeper) remove(r *state.Record) { k.plan(r, nil) }

func (k *keeper) plan(r *state.Record, save func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due[r.Path()] = keeping{r, save}
	k.signal()
}

// lost reports whether somebody removed the files. With their directory all are gone, so
// that it is enough to look for any of them.
func (k *keeper) lost() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path := range k.kept {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			clear(k.kept)
			return true
		}
		return false
	}
	return false
}

// keeps notes whether a file of ours is there now.
func (k *keeper) keeps(path string, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.kept, path); there {
		k.kept[path] = true
	}
}

// close waits until all that was asked for is done.
func (k *keeper) close() {
	k.mu.Lock()
	k.closed = true
	k.signal()
	k.mu.Unlock()
	<-k.ended
}

func (k *keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be done, and whether that is the last of it.
func (k *keeper) take() (due map[string]keeping, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due, k.due = k.due, map[string]keeping{}
	return due, k.closed
}

// run does what is asked for. That a disk is broken or full is said once, and changes
// nothing else.
func (k *keeper) run(log *slog.Logger) {
	defer close(k.ended)
	broken := false
	for range k.wake {
		due, last := k.take()
		worked := true
		for path, work := range due {
			var err error
			if work.save == nil {
				err = work.record.Remove()
			} else {
				err = work.save()
			}
			k.keeps(path, work.save != nil && err == nil)
			if err != nil && worked && !broken {
				log.Warn("the state for mcp-reconnect status cannot be written: " + err.Error())
			}
			worked = worked && err == nil
		}
		if len(due) > 0 {
			broken = !worked
		}
		if last {
			return
		}
	}
}

// record has the state files say what is known now.
func (t *target) record() {
	t.recordAt = time.Time{}
	if t.unrecorded {
		t.unrecorded = false
		t.w.keeper.keepWatch(t.connection, state.Watch{Version: plugin.Version, State: t.status, Error: t.error})
	}
	for _, d := range t.directories {
		if d.record == nil || !d.unrecorded {
			continue
		}
		d.unrecorded = false
		if d.owner != "" {
			t.w.keeper.remove(d.record)
			continue
		}
		t.w.keeper.keep(d.record, t.instance(d))
	}
}

// recordAnew has every state file written, since they are gone.
func (t *target) recordAnew(now time.Time) {
	t.moved(now)
	for _, d := range t.directories {
		t.changed(now, d)
	}
}

// instance is what the directory's state file is to say.
func (t *target) instance(d *directory) state.Instance {
	i := state.Instance{Version: plugin.Version, Started: true, Paused: t.paused, Known: !d.stale, RetriedAt: d.retriedAt}
	if !d.stale {
		i.Servers = d.engine.Servers()
	}
	return i
}

// changed has the directory's state file written soon.
func (t *target) changed(now time.Time, d *directory) {
	if d.unrecorded = d.record != nil; d.unrecorded {
		t.recordSoon(now)
	}
}

// moved has the connection's state file written soon.
func (t *target) moved(now time.Time) {
	if t.unrecorded = t.connection != nil; t.unrecorded {
		t.recordSoon(now)
	}
}

func (t *target) recordSoon(now time.Time) {
	if t.recordAt.IsZero() {
		t.recordAt = now.Add(recordDelay)
	}
}
