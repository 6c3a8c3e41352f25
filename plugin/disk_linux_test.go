package plugin

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// TestFullOrReadOnlyDisk uses small file systems of its own, for which it must be root.
func TestFullOrReadOnlyDisk(t *testing.T) {
	for name, spoil := range map[string]func(data string){
		"full": func(data string) {
			filler, err := os.Create(filepath.Join(data, "filler"))
			for err == nil {
				_, err = filler.Write(make([]byte, 4096))
			}
			must(t, filler.Close())
		},
		"read-only": func(data string) {
			must(t, syscall.Mount("", data, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=256k"); err != nil {
				testenv.Skip(t, "a file system cannot be mounted: %v", err)
			}
			t.Cleanup(func() { must(t, syscall.Unmount(data, 0)) })
			elsewhere := t.TempDir()
			must(t, os.Mkdir(filepath.Join(data, "below"), 0o700))
			must(t, os.Symlink(elsewhere, filepath.Join(data, "below", "mcp-reconnect")))
			older := DefaultPolicy()
			older.MaxAttempts = 3
			_, err := Install(data, older)
			must(t, err)
			spoil(data)
			before := listing(t, data)
			_, err = Install(data, DefaultPolicy())
			if err == nil {
				t.Error("installed")
			}
			t.Log(err)
			if name == "read-only" {
				if _, err := Install(data, older); err != nil {
					t.Errorf("with nothing to change: %v", err)
				}
			}
			if _, err := Install(filepath.Join(data, "below"), older); err == nil {
				t.Error("installed in the place of a symbolic link")
			}
			if after := listing(t, data); after != before {
				t.Errorf("now\n%.2000s\nbefore\n%.2000s", after, before)
			}
		})
	}
}
