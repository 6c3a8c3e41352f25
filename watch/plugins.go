package watch

import (
	"slices"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// stateAge is how long what the state files say is good for: dozens of directories are
// read at once, and to read the files costs milliseconds.
const stateAge = time.Second

// plugins are those of ours that run in an OpenCode on this machine.
type plugins struct {
	dir string // theirs; "" for none
	now func() time.Time

	mu   sync.Mutex
	list []state.Instance
	read time.Time // when the list was
}

// own reports whether one of them, in the OpenCode at an address, looks after a directory.
func (p *plugins) own(at address, directory string) bool {
	return slices.ContainsFunc(p.instances(), func(i state.Instance) bool {
		listener, err := parseAddress(i.URL) // "" where there is none
		return err == nil && i.Directory == directory && listener.serves(at)
	})
}

func (p *plugins) instances() []state.Instance {
	if p.dir == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := p.now().Sub(p.read); age < 0 || age >= stateAge {
		found, _ := state.Read(p.dir) // of what cannot be read, none
		p.list, p.read = found.List, p.now()
	}
	return p.list
}
