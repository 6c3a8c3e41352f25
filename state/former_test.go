package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// TestEarlierVersionIsTakenOver: nothing of it is left in the plugin's directory, and a pause goes on.
func TestEarlierVersionIsTakenOver(t *testing.T) {
	for _, paused := range []bool{true, false} {
		data := t.TempDir()
		pluginDir, dir := filepath.Join(data, "mcp-reconnect"), filepath.Join(data, "mcp-reconnect-state")
		save := func(pid int) {
			t.Helper()
			was := installed(t)
			file := save(t, was, pid, nil)
			if err := os.MkdirAll(filepath.Join(pluginDir, "state"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(file, filepath.Join(pluginDir, "state", filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		save(deadPid)
		save(os.Getpid())
		for name, content := range map[string]string{"control.json": fmt.Sprintf(`{"paused":%t}`, paused), "control.lock": "", "plugin.js": "// mine"} {
			if err := os.WriteFile(filepath.Join(pluginDir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := state.Former(pluginDir); !slices.Equal(got, []int{os.Getpid()}) {
			t.Errorf("running: %v", got)
		}
		state.TakeOver(pluginDir, dir)
		if !exists(filepath.Join(pluginDir, "control.json")) {
			t.Error("what a running one is told was removed")
		}
		if err := os.Remove(filepath.Join(pluginDir, "state", fmt.Sprint(os.Getpid(), hash, ".json"))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			state.TakeOver(pluginDir, dir)
			left, err := os.ReadDir(pluginDir)
			if err != nil || len(left) != 1 || left[0].Name() != "plugin.js" {
				t.Errorf("left: %v, %v", left, err)
			}
		}
		if c, err := state.ReadControl(dir); err != nil || c.Paused != paused {
			t.Errorf("paused: %t, %v", c.Paused, err)
		}
		if got := state.Former(pluginDir); got != nil {
			t.Errorf("running: %v", got)
		}
	}
}

// TestSomebodyElsesFilesStay: what only has the name is left alone.
func TestSomebodyElsesFilesStay(t *testing.T) {
	pluginDir, dir := t.TempDir(), filepath.Join(t.TempDir(), "mcp-reconnect-state")
	for _, name := range []string{"control.lock", "state"} {
		if err := os.WriteFile(filepath.Join(pluginDir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state.TakeOver(pluginDir, dir)
	for _, name := range []string{"control.lock", "state"} {
		if !exists(filepath.Join(pluginDir, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	control := filepath.Join(pluginDir, "control.json")
	if err := os.WriteFile(control, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	state.TakeOver(pluginDir, dir)
	if !exists(control) {
		t.Error("control.json is gone")
	}
	if exists(dir) {
		t.Error("the state directory was made")
	}
}
