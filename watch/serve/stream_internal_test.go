package serve

import (
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// TestKept: memory does not grow with the number of events, nor holds more than is of use.
func TestKept(t *testing.T) {
	s := newStream()
	for range 20 * kept {
		s.take(watch.Event{Type: watch.ToolsChanged})
		if len(s.recent) > kept || cap(s.recent) > 2*kept {
			t.Fatalf("%d events are kept, with room for %d", len(s.recent), cap(s.recent))
		}
	}
	if len(s.recent) != kept || s.recent[kept-1].number != 20*kept {
		t.Errorf("%d events are kept, the last of which is %d", len(s.recent), s.recent[len(s.recent)-1].number)
	}
}
