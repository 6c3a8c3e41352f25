package watch

import (
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// retry is asked for by a person, or by another program for one.
func (t *target) retry(now time.Time, asked state.Retry) {
	t.attempts, t.fickle = 0, false
	if t.closeStream == nil {
		t.open(now)
	}
	for _, d := range t.directories {
		if len(asked.Directories) == 0 || slices.Contains(asked.Directories, d.path) {
			d.usedAt = now
			d.engine.Retry(now, asked.Servers, asked.Force)
		}
		d.retriedAt = time.UnixMilli(asked.At) // as plugins say that they heard, whether it concerns them or not
		t.changed(now, d)
	}
}

func (t *target) pause(now time.Time, paused bool) {
	t.paused = paused
	for _, d := range t.directories {
		d.engine.Pause(now, paused || d.owner != "")
		t.changed(now, d)
	}
}
