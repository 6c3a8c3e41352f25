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

const (
	pluginDirectory   = "/data/mcp-reconnect" // where the plugin of a simulation was installed
	stateDirectory    = "/data/mcp-reconnect-state"
	instanceDirectory = stateDirectory + "/instances"
	controlFile       = stateDirectory + "/control.json"
)

// files are what a simulation's plugin sees of Node's built-in modules: a directory
// in memory that can be read, written and watched, or broken.
type files struct {
	sim       *simulation
	content   map[string]string
	dirs      map[string]bool
	inode     int // of the state directory
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

// looking is the watcher that looks at the directory now and then.
const looking = 0

func newFiles(s *simulation) *files {
	return &files{sim: s, content: map[string]string{}, dirs: map[string]bool{pluginDirectory: true, stateDirectory: true}, watchers: map[int]goja.Callable{}, links: map[string]bool{}, modes: map[string]int64{}}
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
	writes := func(name string) {
		if !strings.HasPrefix(name, stateDirectory) { // OpenCode 2 watches the plugin's directory
			f.sim.violated("rule 18: %s was written", name)
		}
	}
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
			"mkdirSync": func(name string) {
				writes(name)
				check(f.dirs[path.Dir(name)] || path.Dir(name) == path.Dir(stateDirectory))
				if f.dirs[name] {
					fail("EEXIST")
				}
				f.dirs[name] = true
				f.modes[name] = 0
			},
			"lstatSync": func(name string) object {
				directory := f.dirs[name]
				check(directory || exists(name))
				return object{
					"isFile":      func() bool { return !directory && !f.links[name] },
					"isDirectory": func() bool { return directory && !f.links[name] },
					"size":        len(f.content[name]),
					"ino":         f.inode,
				}
			},
			"chmodSync": func(name string, mode int64) { check(exists(name) || f.dirs[name]); f.modes[name] = mode },
			"writeFileSync": func(call goja.FunctionCall) goja.Value {
				name := call.Argument(0).String()
				writes(name)
				check(f.dirs[path.Dir(name)] && !exists(name) && options(call, 2).Get("flag").String() == "wx")
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
				writes(to)
				check(exists(from))
				if f.modes[from] != 0o600 || f.modes[instanceDirectory] != 0o700 {
					f.sim.violated("rule 18: %s has mode %o, in a directory with %o", to, f.modes[from], f.modes[instanceDirectory])
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
				check(!f.unwatched && call.Argument(0).String() == stateDirectory && f.dirs[stateDirectory] && !options(call, 1).Get("persistent").ToBoolean())
				f.opened++
				id := f.opened
				f.watchers[id], _ = goja.AssertFunction(call.Argument(2))
				return vm.ToValue(object{"on": func(string, goja.Value) {}, "unref": func() {}, "close": func() { delete(f.watchers, id) }})
			},
			"watchFile": func(call goja.FunctionCall) goja.Value {
				check(call.Argument(0).String() == stateDirectory && !options(call, 1).Get("persistent").ToBoolean())
				f.watchers[looking], _ = goja.AssertFunction(call.Argument(2))
				return goja.Undefined()
			},
			"unwatchFile": func(string, goja.Value) { delete(f.watchers, looking) },
		},
	}
	return vm.ToValue(modules[module])
}

// write replaces a file of the state directory, as mcp-reconnect does. As some versions
// of Bun do, it tells of the temporary file, and not of its renaming right after.
func (f *files) write(name, content string) {
	f.sim.note("%s is now %s", name, content)
	f.dirs[stateDirectory] = true
	defer func() { f.content[path.Join(stateDirectory, name)] = content }()
	if path.Join(stateDirectory, name) == controlFile {
		f.sim.asked(content)
	}
	if f.unseen {
		return
	}
	if f.changed != nil {
		f.changed(content)
	}
	f.notify()
}

// notify tells those who watch the state directory, or look at it, that it changed.
func (f *files) notify() {
	for _, id := range slices.Sorted(maps.Keys(f.watchers)) {
		if _, err := f.watchers[id](goja.Undefined()); err != nil {
			f.sim.violated("rule 8: thrown when a file changed: %v", err)
		}
	}
}

// remove removes a directory with all that is in it. Who watches it is told, and then
// watches nothing any more.
func (f *files) remove(dir string) {
	f.sim.note("%s is removed", dir)
	within := func(name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	maps.DeleteFunc(f.content, func(name, _ string) bool { return within(name) })
	maps.DeleteFunc(f.dirs, func(name string, _ bool) bool { return within(name) })
	if within(instanceDirectory) {
		f.notify()
	}
	if within(stateDirectory) {
		maps.DeleteFunc(f.watchers, func(id int, _ goja.Callable) bool { return id != looking })
	}
}

// replace puts a copy in the place of the state directory, with all that is in it.
func (f *files) replace() {
	f.sim.note("the state directory is replaced by a copy")
	f.inode++
	f.notify()
	maps.DeleteFunc(f.watchers, func(id int, _ goja.Callable) bool { return id != looking })
}

// states returns the state files.
func (f *files) states() map[string]string {
	found := map[string]string{}
	for name, content := range f.content {
		if path.Dir(name) == instanceDirectory {
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
