package watch

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

const (
	// stateAge is how long what the state files say is good for: dozens of directories are
	// read at once, and to read the files costs milliseconds. It is shorter than the least
	// time from the first sign of use to a connect, since another watch looks at that time.
	stateAge = 50 * time.Millisecond
	// ownerInterval is how often it is looked at what those know who do the work instead of us.
	ownerInterval = time.Second
)

// plugins are those of ours that run in an OpenCode on this machine, and other watches.
type plugins struct {
	dir string // theirs; "" for none
	now func() time.Time

	mu   sync.Mutex
	list []state.Instance
	read time.Time // when the list was
}

// owner says what looks after a directory of the OpenCode at an address instead of us: a
// plugin in it, or another watch of this machine, of two of which the one with the lower
// pid does. "" is for nobody. What it knows of the servers is told in some words.
func (p *plugins) owner(at address, directory string) (who, knows string) {
	for _, i := range p.instances() {
		listener, err := parseAddress(i.URL) // "" where there is none
		if !i.Watch && oneLoopback(listener.host) == "localhost" {
			listener.host = "0.0.0.0" // what a plugin of an OpenCode that listens there says is 127.0.0.1
		}
		switch {
		case err != nil || i.Directory != directory || !listener.serves(at):
			continue
		case !i.Watch:
			who = "a plugin of mcp-reconnect in this OpenCode"
		case i.Pid < os.Getpid() && listener.path == at.path:
			who = "another watch of mcp-reconnect"
		default:
			continue
		}
		for _, server := range i.Servers {
			knows += fmt.Sprintf("%q %s\n", server.Name, server.Status)
		}
		return who, knows
	}
	return "", ""
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
