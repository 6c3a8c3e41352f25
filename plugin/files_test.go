package plugin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dop251/goja"
)

// dataDirectory is where the plugin of a simulation was installed.
const dataDirectory = "/data/mcp-reconnect"

// files are what a simulation's plugin sees of Node's built-in modules: a directory
// in memory that can be read, written and watched, or broken.
type files struct {
	sim       *simulation
	content   map[string]string
	watchers  map[int]goja.Callable
	opened    int  // watchers ever
	broken    bool // nothing can be written, read or watched
	unseen    bool // no change is told
	elsewhere bool // the plugin's file is a copy in another directory
	full      bool // a file can be created, and not written
	unwatched bool // the system cannot watch
	writes    int  // state files that were written
	links     map[string]bool
	modes     map[string]int64
	deaf      bool              // an engine could not watch: a change waits for its next read
	changed   func(text string) // for an engine whose host is told of a change of the control file
}

func newFiles(s *simulation) *files {
	return &files{sim: s, content: map[string]string{}, watchers: map[int]goja.Callable{}, links: map[string]bool{}, modes: map[string]int64{}}
}

// require is Node's, for the modules that the plugin imports.
func (f *files) require(module string) goja.Value {
	vm := f.sim.vm
	fail := func(code string) { panic(vm.ToValue(object{"code": code, "message": code})) }
	check := func(ok bool) {
		if f.broken || !ok {
			fail("ENOENT")
		}
	}
	exists := func(name string) bool { _, ok := f.content[name]; return ok }
	options := func(call goja.FunctionCall, n int) *goja.Object { return call.Argument(n).ToObject(vm) }
	modules := map[string]object{
		"node:os":   {"hostname": func() string { return "here" }},
		"node:path": {"join": path.Join, "dirname": path.Dir, "basename": path.Base},
		"node:url": {"fileURLToPath": func(url string) string {
			if f.elsewhere {
				return "/home/ann/plugins/plugin.js"
			}
			return strings.TrimPrefix(url, "file://")
		}},
		"node:crypto": {"createHash": func(string) object {
			var text string
			digest := object{"digest": func(string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }}
			return object{"update": func(t string) object { text = t; return digest }}
		}},
		"node:fs": {
			"mkdirSync": func() { check(true) },
			"lstatSync": func(name string) object {
				directory := name == dataDirectory+"/state"
				check(directory || exists(name))
				return object{
					"isFile":      func() bool { return !directory && !f.links[name] },
					"isDirectory": func() bool { return directory && !f.links[name] },
					"size":        len(f.content[name]),
				}
			},
			"chmodSync": func(name string, mode int64) { check(exists(name)); f.modes[name] = mode },
			"writeFileSync": func(call goja.FunctionCall) goja.Value {
				name := call.Argument(0).String()
				check(!exists(name) && options(call, 2).Get("flag").String() == "wx")
				const umask = 0o777 // the worst
				f.modes[name] = options(call, 2).Get("mode").ToInteger() &^ umask
				if f.full {
					f.content[name] = ""
					fail("ENOSPC")
				}
				f.content[name] = call.Argument(1).String()
				return goja.Undefined()
			},
			"renameSync": func(from, to string) {
				check(exists(from))
				if f.modes[from] != 0o600 {
					f.sim.violated("rule 18: %s has mode %o", to, f.modes[from])
				}
				f.content[to] = f.content[from]
				delete(f.content, from)
				f.writes++
			},
			"rmSync": func(call goja.FunctionCall) goja.Value {
				check(options(call, 1).Get("force").ToBoolean())
				delete(f.content, call.Argument(0).String())
				return goja.Undefined()
			},
			"readFileSync": func(name, encoding string) string { check(exists(name)); return f.content[name] },
			"readdirSync": func(dir string) []string {
				check(true)
				var names []string
				for name := range f.content {
					if path.Dir(name) == dir {
						names = append(names, path.Base(name))
					}
				}
				return names
			},
			"watch": func(call goja.FunctionCall) goja.Value {
				f.deaf = f.deaf || f.broken || f.unwatched
				check(!f.unwatched && call.Argument(0).String() == dataDirectory && !options(call, 1).Get("persistent").ToBoolean())
				f.opened++
				id := f.opened
				f.watchers[id], _ = goja.AssertFunction(call.Argument(2))
				return vm.ToValue(object{"on": func(string, goja.Value) {}, "unref": func() {}, "close": func() { delete(f.watchers, id) }})
			},
			"watchFile": func(call goja.FunctionCall) goja.Value {
				check(call.Argument(0).String() == dataDirectory+"/control.json" && !options(call, 1).Get("persistent").ToBoolean())
				f.watchers[0], _ = goja.AssertFunction(call.Argument(2))
				return goja.Undefined()
			},
			"unwatchFile": func(string, goja.Value) { delete(f.watchers, 0) },
		},
	}
	return vm.ToValue(modules[module])
}

// write replaces a file of the data directory, as mcp-reconnect does. As some versions
// of Bun do, it tells of the temporary file, and not of its renaming right after.
func (f *files) write(name, content string) {
	f.sim.note("%s is now %s", name, content)
	defer func() { f.content[path.Join(dataDirectory, name)] = content }()
	if f.unseen {
		return
	}
	if f.changed != nil {
		f.changed(content)
	}
	for _, id := range slices.Sorted(maps.Keys(f.watchers)) {
		if _, err := f.watchers[id](goja.Undefined()); err != nil {
			f.sim.violated("rule 8: thrown when a file changed: %v", err)
		}
	}
}

// states returns the state files.
func (f *files) states() map[string]string {
	found := map[string]string{}
	for name, content := range f.content {
		if path.Dir(name) == dataDirectory+"/state" {
			found[path.Base(name)] = content
		}
	}
	return found
}

// A savedState is what the tests look at in a state file.
type savedState struct {
	Format    int
	Version   string
	Pid       int
	Host      string
	Directory string
	URL       *string
	Started   bool
	Paused    bool
	RetriedAt int64
	Servers   []savedServer
}

type savedServer struct {
	Name, Status, Phase, Error string
	Tries                      int
	Skipped, Retried           bool
	Since, TriedAt, DueAt      *int64
}

// saved returns what an engine says of its instance; nil where it says nothing.
func (i *instance) saved() *savedState { return i.sim.engine.saved(i) }

func (e script) saved(i *instance) *savedState {
	i.sim.t.Helper()
	var found *savedState
	for name, content := range i.sim.files.states() {
		var state savedState
		if err := json.Unmarshal([]byte(content), &state); err != nil {
			i.sim.violated("rule 18: %s is not JSON: %v", name, err)
		}
		if state.Directory == i.dir && state.Pid == 4242 {
			found = &state
		}
	}
	return found
}

// server returns what the plugin says of a server, which is nothing if it has not seen it.
func (s *savedState) server(name string) savedServer {
	if s != nil {
		for _, server := range s.Servers {
			if server.Name == name {
				return server
			}
		}
	}
	return savedServer{}
}

// ago returns how long ago a time of a state file was, negative for one to come.
func (s *simulation) ago(at *int64) time.Duration {
	return s.now.Add(s.wall).Sub(time.UnixMilli(*at))
}
