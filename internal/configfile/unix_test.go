//go:build unix

package configfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestAPipeIsNotRead: it would never end.
func TestAPipeIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configfile.Open(path); err == nil {
		t.Error("a pipe was read")
	}
}

func TestOwnerStays(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root may give a file away")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "opencode.json")
	write(t, path, "old", 0o640)
	if err := os.Chown(path, 4242, 4243); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Replace("new"); err != nil {
		t.Fatal(err)
	}
	wants(t, path, "new", 0o640)
	info, err := os.Stat(path)
	if stat := info.Sys().(*syscall.Stat_t); err != nil || stat.Uid != 4242 || stat.Gid != 4243 {
		t.Errorf("it belongs to %d:%d, %v", stat.Uid, stat.Gid, err)
	}
	if uid, known := configfile.Owner(path); !known || uid != 4242 {
		t.Errorf("the owner is %d, %t", uid, known)
	}
	if err := os.Chown(dir, 4244, -1); err != nil {
		t.Fatal(err)
	}
	if uid, known := configfile.Owner(filepath.Join(dir, "not/there")); !known || uid != 4244 {
		t.Errorf("the owner of what is not there would be %d, %t", uid, known)
	}
}
