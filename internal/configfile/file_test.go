package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(target, name)); err != nil {
		testenv.Skip(t, "%v", err) // Windows asks for a privilege
	}
}

func open(t *testing.T, path string) *configfile.File {
	t.Helper()
	f, err := configfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wants fails the test if a file has another text or mode.
func wants(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		t.Errorf("%s: %q, %v; want %q", path, got, err, text)
	}
	if info, err := os.Lstat(path); runtime.GOOS != "windows" && (err != nil || info.Mode() != mode) {
		t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
}

// alone fails the test if there is more in a directory than the names, such as a temporary file.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Errorf("%s has %v, %v; want %q", dir, entries, err, names)
	}
}

func TestReplaceKeepsTheMode(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664, 0o400 | 0o200} {
		path := filepath.Join(t.TempDir(), "opencode.json")
		write(t, path, "old", mode)
		if err := open(t, path).Replace("new"); err != nil {
			t.Fatal(err)
		}
		wants(t, path, "new", mode)
		alone(t, filepath.Dir(path), "opencode.json")
	}
}

func TestNewFileAndDirectories(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a/b/opencode.json")
	f := open(t, path)
	if err := f.Writable(); err != nil || f.Exists {
		t.Errorf("%v, and it is there: %t", err, f.Exists)
	}
	alone(t, root) // asking creates nothing
	if err := f.Replace("new"); err != nil {
		t.Fatal(err)
	}
	wants(t, path, "new", 0o600)
	if info, err := os.Stat(filepath.Join(root, "a")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
}

// TestLinksStay: dotfile managers put links where OpenCode looks.
func TestLinksStay(t *testing.T) {
	for name, tt := range map[string]struct {
		links map[string]string // from names below the root
		file  string
	}{
		"a file":                         {map[string]string{"config/opencode.json": "ROOT/dot/oc.json"}, "dot/oc.json"},
		"relative":                       {map[string]string{"config/opencode.json": "../dot/oc.json"}, "dot/oc.json"},
		"through another":                {map[string]string{"config/opencode.json": "../one", "one": "dot/oc.json"}, "dot/oc.json"},
		"a directory":                    {map[string]string{"config": "dot/opencode"}, "dot/opencode/opencode.json"},
		"relative in a linked directory": {map[string]string{"config": "deep/er/opencode", "deep/er/opencode/opencode.json": "../oc.json"}, "deep/er/oc.json"},
	} {
		for _, exists := range []bool{true, false} {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			file, mode := filepath.Join(root, tt.file), os.FileMode(0o600)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if exists {
				mode = 0o640
				write(t, file, "old", mode)
			}
			for link, target := range tt.links {
				if strings.HasPrefix(target, "ROOT") {
					target = root + target[len("ROOT"):]
				}
				symlink(t, target, filepath.Join(root, link))
			}
			f := open(t, filepath.Join(root, "config/opencode.json"))
			if err := f.Writable(); err != nil || f.Exists != exists {
				t.Errorf("%s: %v, and it is there: %t", name, err, f.Exists)
			}
			if err := f.Replace("new"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			wants(t, file, "new", mode)
			if err := open(t, filepath.Join(root, "config/opencode.json")).Remove(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := os.Lstat(file); !os.IsNotExist(err) {
				t.Errorf("%s: the file is still there: %v", name, err)
			}
			for link := range tt.links {
				if info, err := os.Lstat(filepath.Join(root, link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
					t.Errorf("%s: the link %s is gone: %v", name, link, err)
				}
			}
		}
	}
}

func TestLinksWithoutEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.json")
	symlink(t, "opencode.json", path)
	if f, err := configfile.Open(path); err == nil || f == nil {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestNobodysEditIsLost: what was written after the file was read stays.
func TestNobodysEditIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string // "" if it is not there at first
		change func(t *testing.T, path string)
	}{
		"written":           {"old", func(t *testing.T, path string) { write(t, path, "theirs", 0o600) }},
		"made longer":       {"old", func(t *testing.T, path string) { write(t, path, "old and more", 0o600) }},
		"created":           {"", func(t *testing.T, path string) { write(t, path, "theirs", 0o600) }},
		"created, and bare": {"", func(t *testing.T, path string) { write(t, path, "", 0o600) }},
		"replaced": {"old", func(t *testing.T, path string) {
			write(t, path+".new", "theirs", 0o600)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}},
		"removed": {"old", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
		"made a link": {"old", func(t *testing.T, path string) {
			if err := os.Rename(path, path+".moved"); err != nil {
				t.Fatal(err)
			}
			symlink(t, path+".moved", path)
		}},
		"protected": {"old", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o400); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		path := filepath.Join(t.TempDir(), "opencode.json")
		if tt.text != "" {
			write(t, path, tt.text, 0o600)
		}
		f := open(t, path)
		tt.change(t, path)
		before, _ := os.ReadFile(path)
		if err := f.Replace("ours"); !errors.Is(err, configfile.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Remove(); !errors.Is(err, configfile.ErrChanged) {
			t.Errorf("%s: removing: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s: it was %q, and is %q", name, before, after)
		}
	}
}

func TestReadOnly(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "modes of directories mean nothing there")
	}
	for name, tt := range map[string]struct{ file, dir os.FileMode }{
		"a file": {0o444, 0o700}, "a directory": {0o644, 0o555}, "both, as in the Nix store": {0o444, 0o555},
		"a directory without the file": {0, 0o555},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		path := filepath.Join(dir, "opencode.json")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.file != 0 {
			write(t, path, "old", tt.file)
		}
		if err := os.Chmod(dir, tt.dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dir, 0o700) })
		link := filepath.Join(t.TempDir(), "opencode.json")
		symlink(t, path, link)
		for _, name := range []string{path, link} {
			if err := open(t, name).Writable(); !errors.Is(err, configfile.ErrReadOnly) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if tt.dir == 0o555 { // whatever the directory of the link is like
			if err := open(t, filepath.Join(dir, "new/opencode.json")).Writable(); !errors.Is(err, configfile.ErrReadOnly) {
				t.Errorf("%s: below it: %v", name, err)
			}
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := configfile.Open(dir); err == nil {
		t.Error("a directory was read")
	}
	path := filepath.Join(dir, "large")
	write(t, path, "", 0o600)
	if err := os.Truncate(path, 3<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := configfile.Open(path); err == nil {
		t.Error("a file without measure was read")
	}
	if _, err := configfile.Open(filepath.Join(path, "opencode.json")); err == nil {
		t.Error("a file was taken for a directory")
	}
}
