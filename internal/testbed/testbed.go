//go:build unix

// Package testbed is what the programs in testdata share that play failures of MCP
// servers to the real OpenCode: where the programs are, how MCP servers are started
// and steered, and what becomes of an error. It measures and judges nothing.
package testbed

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/npm"
	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A failure is an error that ends the program's run, from wherever Check finds it:
// so a scenario reads as what happens in it. What was started and written is
// gone all the same.
type failure struct{ error }

// Check ends the run for an error. Only the goroutine that Run called may call it.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns the value, if there is no error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Run runs a program that an interrupt ends, and returns what Check found.
func Run(program func(context.Context)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	program(ctx)
	return nil
}

// Pause waits; an interrupt ends the run.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		Check(context.Cause(ctx)) // says which signal
	}
}

// Mkdir creates a directory.
func Mkdir(path ...string) string {
	dir := filepath.Join(path...)
	Check(os.Mkdir(dir, 0o700))
	return dir
}

// WriteJSON writes a file.
func WriteJSON(path string, content any) {
	Check(os.WriteFile(path, Must(json.Marshal(content)), 0o600))
}

// Configure puts a plugin into a configuration. What it installs for that goes into
// dataDir.
type Configure func(config, dataDir string) (string, error)

// Alone is OpenCode without any plugin.
func Alone(config, _ string) (string, error) { return config, nil }

// MCPReconnect is mcp-reconnect as it stands in this tree.
func MCPReconnect(config, dataDir string) (string, error) {
	installed, err := plugin.Install(dataDir, plugin.DefaultPolicy())
	if err != nil {
		return "", err
	}
	return configmerge.Merge(config, configmerge.Entry{URL: installed.Entry, Means: installed.Means})
}

// A Bed has what every OpenCode of a program needs. Root is for all that is written.
type Bed struct {
	Root  string
	Model *opencode.Model

	binary, configDir, node, scripts string
}

// New finds the programs, and fetches OpenCode. The working directory is the
// repository's root. Close removes Root.
func New(version string) *Bed {
	b := &Bed{scripts: Must(filepath.Abs("testdata/servers"))}
	Must(os.Stat(b.scripts))
	b.node = Must(exec.LookPath("node"))
	b.binary = Must(npm.OpenCode(version))
	b.configDir = filepath.Join(Must(npm.Cache()), "config@"+version) // OpenCode fills it at its first start
	b.Root = Must(filepath.EvalSymlinks(Must(os.MkdirTemp("", "testbed-"))))
	b.Model = opencode.NewModel()
	return b
}

func (b *Bed) Close() {
	b.Model.Close()
	os.RemoveAll(b.Root)
}

// Start starts an OpenCode in dir, with the model and a plugin; what it writes goes
// into root. The configuration's other parts are in config.
func (b *Bed) Start(ctx context.Context, root, dir string, config map[string]any, configure Configure) *opencode.Server {
	home, tmp := Mkdir(root, "home"), Mkdir(root, "tmp")
	config["provider"] = b.Model.Provider()
	content := Must(configure(string(Must(json.Marshal(config))), filepath.Join(home, "data")))
	return Must(opencode.Start(ctx, opencode.Options{
		Command:   []string{b.binary},
		Home:      home,
		ConfigDir: b.configDir,
		Dir:       dir,
		Environ: []string{
			"OPENCODE_CONFIG_CONTENT=" + content,
			"TMPDIR=" + tmp, // a killed OpenCode leaves 30 MB of libraries there
		},
	}))
}

// Stop ends an OpenCode and waits for its end.
func Stop(server *opencode.Server) {
	server.Stop()
	<-server.Ended()
}
