//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// installs has the plugin put into a configuration of the person's own, and OpenCode started by somebody who knows
// nothing of it.
func (a *app) installs(t testing.TB, version string) {
	t.Helper()
	a.options.Command = []string{"sh", "-c", `umask 000; mcp-reconnect install && exec "$0" "$@"`, testenv.OpenCode(t, version)}
	a.options.ConfigDir = ownConfigDir(t, version, filepath.Join(a.options.Home, ".config"))
	a.writeGlobal(t, "opencode.jsonc", "// the person's own\n"+a.content(t))
	a.withoutVariable()
}

func (a *app) withoutVariable() {
	a.environ = slices.DeleteFunc(a.environ, func(entry string) bool { return strings.HasPrefix(entry, "OPENCODE_CONFIG_CONTENT=") })
	a.options.Environ = a.environ
}

// ownConfigDir makes an XDG_CONFIG_HOME that nobody else uses, with the packages that OpenCode would install there.
func ownConfigDir(t testing.TB, version, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "opencode"), 0o700); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(configDir(t, version), "opencode")
	entries, _ := os.ReadDir(shared) // none before the first test of a version
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(shared, entry.Name()), filepath.Join(dir, "opencode", entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeGlobal writes a global configuration file.
func (a *app) writeGlobal(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.options.ConfigDir, "opencode", name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mcpReconnect runs the program as the person does, and returns what it said.
func (a *app) mcpReconnect(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("mcp-reconnect", args...)
	cmd.Env = append(opencode.Environ(a.options.Home, a.options.ConfigDir), a.environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("mcp-reconnect %q: %v: %s", args, err, out)
	}
	return string(out)
}

// plugins is OpenCode's own list for a directory.
func (w *world) plugins() []string {
	w.t.Helper()
	var config struct{ Plugin []string }
	if err := w.server.Call(w.ctx, "GET", "/config", w.dir, nil, &config); err != nil {
		w.t.Fatal(err)
	}
	return config.Plugin
}

// TestInstalled: without any variable OpenCode loads the plugin, which reconnects; after uninstall it does not.
func TestInstalled(t *testing.T) {
	a := launch(t, setup{policy: []string{"MCP_RECONNECT_POLL_INTERVAL=24h"}, installs: true})
	w := a.project(t).stdios("a")
	w.prompt("hello")
	if list := w.plugins(); len(list) != 1 {
		t.Errorf("OpenCode's list has %q", list)
	}
	w.recovers("a")
	if n := w.logged("is active in", w.dir); n != 1 {
		t.Errorf("%d copies act", n)
	}
	a.mcpReconnect(t, "check", "--poll-interval", "24h")
	if said := a.mcpReconnect(t, "uninstall"); !strings.Contains(said, "; 1 running OpenCode has it until it is restarted") {
		t.Errorf("uninstall said %q", said)
	}
	w.recovers("a") // what runs has it

	a.stop()
	a.options.Command = a.options.Command[len(a.options.Command)-1:]
	var err error
	if a.server, err = opencode.Start(a.ctx, a.options); err != nil {
		t.Fatal(err)
	}
	w = a.project(t).stdios("a")
	w.prompt("hello")
	if list := w.plugins(); len(list) != 0 {
		t.Errorf("after uninstall OpenCode's list has %q", list)
	}
	w.kill("a")
	w.eventually("the death is noticed", func() bool { return w.state("a") == "failed" })
	time.Sleep(3 * time.Second)
	w.prompt("hello again")
	w.wants("a", "failed")
}

// TestInstalledForADesktop: an application starts OpenCode, and its panel reads the status. Nobody prompts; what failed
// is seen and comes back all the same, once somebody names the directory.
func TestInstalledForADesktop(t *testing.T) {
	a := launch(t, setup{installs: true, policy: patient.policy})
	w, other := a.project(t), a.project(t).stdios("a")
	w.mark("late", "down")
	w.configure(mcp{"late": w.stdio("late"), "well": w.stdio("well")})
	other.post("/session")
	w.post("/session")
	w.wants("late", "failed") // which reads the status
	w.eventually("status tells of the directories", func() bool { return w.line("-") != nil && other.line("-") != nil })
	if got := w.line("-")[3]; got != "unused" {
		t.Errorf("the directory is %s", got)
	}
	if out, status := w.reconnect(t, "retry"); status != 1 || out != "" {
		t.Errorf("retry elsewhere: exit status %d: %s", status, out)
	}
	if out, status := w.reconnect(t, "retry", "--directory", w.dir); status != 1 || !strings.Contains(out, w.dir+"\tlate\tstill failed\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	if got := w.phase("late") + " " + w.phase("well"); got != "waiting connected" {
		t.Errorf("status says %s", got)
	}
	w.unmark("late", "down")
	if out, status := w.reconnect(t, "retry", "--directory", w.dir); status != 0 || !strings.Contains(out, w.dir+"\tlate\tconnected\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.wants("late", "connected")
	if n := other.starts("a"); n != 0 {
		t.Errorf("%d processes were started in a directory that nobody named", n)
	}

	// In its directory it need not be named.
	other.mark("a", "down")
	other.wants("a", "failed")
	other.unmark("a", "down")
	t.Chdir(other.dir)
	if out, status := w.reconnect(t, "retry"); status != 0 || !strings.Contains(out, other.dir+"\ta\tconnected\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	other.wants("a", "connected")
}

// TestInstalledAndInTheVariable: one URL in two places is loaded once.
func TestInstalledAndInTheVariable(t *testing.T) {
	a := launch(t, setup{installs: true})
	a.stop()
	a.options.Command[2] = strings.Replace(a.options.Command[2], "&& exec", `&& eval "$(mcp-reconnect env --shell sh)" && exec`, 1)
	var err error
	if a.server, err = opencode.Start(a.ctx, a.options); err != nil {
		t.Fatal(err)
	}
	w := a.project(t).stdios("a")
	w.prompt("hello")
	w.recovers("a")
	if list := w.plugins(); len(list) != 1 {
		t.Errorf("OpenCode's list has %q", list)
	}
	if n := w.logged("is active in", w.dir); n != 1 {
		t.Errorf("%d copies act", n)
	}
}

// TestInstallAtOnce: of many that install into one file at the same time, each finds its entry there.
func TestInstallAtOnce(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "opencode", "opencode.json")
	const before = `{"plugin": ["x"]}`
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(before), 0o600)); err != nil {
		t.Fatal(err)
	}
	const many = 12
	atOnce := func(command string) string {
		var wait sync.WaitGroup
		for n := range many {
			wait.Go(func() {
				cmd := exec.Command("mcp-reconnect", command, "--data-dir", filepath.Join(home, "data", strconv.Itoa(n)))
				cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", command, err, out)
				}
			})
		}
		wait.Wait()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := atOnce("install"); strings.Count(text, "/mcp-reconnect\"") != many {
		t.Errorf("not %d entries: %s", many, text)
	}
	if text := atOnce("uninstall"); text != before {
		t.Errorf("left: %s", text)
	}
}

// shapes are configuration files as people have them (field report G1).
var shapes = map[string]string{
	"one line":       `{"$schema":"https://opencode.ai/config.json","model":"m/x","plugin":["file:///nowhere/x.js"]}`,
	"without a list": "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"model\": \"m/x\" // the good one\n}",
	"comments and commas": `{
  "$schema": "https://opencode.ai/config.json",
  // my plugins
  "plugin": [
    "file:///nowhere/x.js", // pinned
    // "file:///nowhere/off.js",
  ],
  "model": "m/x",
  /* "mcp": { "off": {} }, */
}
`,
	"carriage returns":                     "{\r\n\t\"$schema\": \"https://opencode.ai/config.json\",\r\n\t\"plugin\": [\r\n\t\t\"file:///nowhere/x.js\"\r\n\t],\r\n\t\"model\": \"m/x\"\r\n}\r\n",
	"a byte order mark, and an empty list": "\ufeff{\"$schema\": \"https://opencode.ai/config.json\", \"plugin\": [ ], \"model\": \"m/x\"}",
	"tokens and nested agents": `{
    "$schema": "https://opencode.ai/config.json",
    "agent": { "r\u00e9viseur": { "prompt": "{env:NOT_SET}", "tools": { "write": false }, "temperature": 1e-1 } },
    "model": "m/x",
    "plugin": ["file:///nowhere/x.js",
               "file:///nowhere/y.js"]
}
`,
	"two lists": `{"plugin": ["file:///nowhere/hidden.js"], "$schema": "https://opencode.ai/config.json", "model": "m/x", "plugin": []}`,
}

// TestInstalledIntoFilesOfPeople has the real OpenCode read them: its configuration is the same but for our entry, and
// each byte is as it was after uninstall.
func TestInstalledIntoFilesOfPeople(t *testing.T) {
	version := testenv.OpenCodeVersion()
	a := &app{root: t.TempDir()}
	a.options.Home = a.mkdir(t, "home")
	a.dataDir = filepath.Join(a.options.Home, "da ta")
	a.environ = []string{"MCP_RECONNECT_DATA_DIR=" + a.dataDir}
	a.options.ConfigDir = ownConfigDir(t, version, filepath.Join(a.options.Home, ".config"))
	read := func() map[string]any {
		cmd := exec.Command(testenv.OpenCode(t, version), "debug", "config")
		cmd.Dir = a.options.Home
		cmd.Env = opencode.Environ(a.options.Home, a.options.ConfigDir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var config map[string]any
		if err := json.Unmarshal(out, &config); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return config
	}
	list := func(config map[string]any) []string {
		var specs []string
		plugins, _ := config["plugin"].([]any)
		for _, spec := range plugins {
			specs = append(specs, spec.(string))
		}
		return specs
	}
	for name, text := range shapes {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(a.options.ConfigDir, "opencode", "opencode.jsonc")
			a.writeGlobal(t, "opencode.jsonc", text)
			before := read()
			a.mcpReconnect(t, "install")
			a.mcpReconnect(t, "check")
			after := read()
			ours := "file://" + strings.Replace(a.dataDir, " ", "%20", 1) + "/mcp-reconnect"
			if got, want := list(after), append(list(before), ours); !slices.Equal(got, want) {
				t.Errorf("OpenCode's list is %q, want %q", got, want)
			}
			delete(before, "plugin")
			delete(after, "plugin")
			delete(before, "plugin_origins")
			delete(after, "plugin_origins")
			was, _ := json.Marshal(before)
			is, _ := json.Marshal(after)
			if string(was) != string(is) || before["model"] != "m/x" {
				t.Errorf("OpenCode's configuration was\n%s\nand is\n%s", was, is)
			}
			a.mcpReconnect(t, "uninstall")
			if left, err := os.ReadFile(file); err != nil || string(left) != text {
				t.Errorf("uninstall left %q, %v, of %q", left, err, text)
			}
		})
	}
}
