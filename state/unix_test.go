//go:build unix

package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// TestWhatIsNoFileIsNotRead: a pipe would never end.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	dir := installed(t)
	for _, name := range []string{"control.json", "instances/4242-0123456789abcdef.json", "instances/.4242-0123456789abcdef.tmp"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.ReadControl(dir); !isForeign(err) {
		t.Error(err)
	}
	if _, err := state.SetPaused(dir, true); !isForeign(err) {
		t.Error(err)
	}
	read(t, dir)
}

func TestHugeControlIsNotRead(t *testing.T) {
	dir := installed(t)
	path := filepath.Join(dir, "control.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 3<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := state.ReadControl(dir); !isForeign(err) {
		t.Error(err)
	}
}

func TestStateThatIsNoDirectory(t *testing.T) {
	dir := installed(t)
	path := filepath.Join(dir, "instances")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Read(dir); !isForeign(err) {
		t.Error(err)
	}
}

func TestModesWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		dir := filepath.Join(t.TempDir(), "mcp-reconnect-state")
		before := syscall.Umask(umask)
		_, err := state.SetPaused(dir, true)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("umask %o: %v, %v", umask, info, err)
		}
		for _, name := range []string{"control.json", "control.lock"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
				t.Errorf("umask %o: %s has mode %v, %v", umask, name, info.Mode(), err)
			}
		}
	}
}
