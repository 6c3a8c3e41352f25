package testenv

import (
	"strings"
	"sync"
)

// A Text is what was written to it, for a writer and a reader at the same time.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
