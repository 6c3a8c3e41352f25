//go:build unix

package plugin

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/template"
)

func install(t *testing.T, dataDir string) Installation {
	t.Helper()
	i, err := Install(dataDir, DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// listing is what a directory holds: names with modes and contents.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " " + info.Mode().String())
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.WriteString(" " + info.ModTime().String() + " " + string(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			b.WriteString(" -> " + target)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func checkInstalled(t *testing.T, dir string) {
	t.Helper()
	js, err := Render(DefaultPolicy())
	must(t, err)
	server, err := RenderServer(DefaultPolicy())
	must(t, err)
	for name, want := range map[string]string{"plugin.js": string(js), "server.js": string(server), "package.json": packageJSON} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s holds %q", name, got)
		}
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if info, err := os.Lstat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"package.json", "plugin.js", "server.js"}) {
		t.Errorf("the directory holds %q", got)
	}
}

func TestInstallOverWhateverStoodThere(t *testing.T) {
	secret := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "target")
		if err := os.WriteFile(path, []byte("somebody's"), 0o640); err != nil {
			t.Fatal(err)
		}
		return path
	}
	older := template.Marker + "0.0.1. DO NOT EDIT.\n"
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"nothing":         func(t *testing.T, dir string) { must(t, os.Remove(dir)) },
		"empty directory": func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777)) },
		"older plugin, 0644": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "plugin.js"), []byte(older), 0o644))
			must(t, os.Chmod(filepath.Join(dir, "plugin.js"), 0o644))
			must(t, os.WriteFile(filepath.Join(dir, "server.js"), []byte(older), 0o644))
			must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(packageMarker+"}"), 0o644))
		},
		"same bytes, 0666": func(t *testing.T, dir string) {
			js, _ := Render(DefaultPolicy())
			must(t, os.WriteFile(filepath.Join(dir, "plugin.js"), js, 0o666))
			must(t, os.Chmod(filepath.Join(dir, "plugin.js"), 0o666))
		},
		"longer plugin": func(t *testing.T, dir string) {
			js, _ := Render(DefaultPolicy())
			must(t, os.WriteFile(filepath.Join(dir, "plugin.js"), append(js, "// edited\n"...), 0o600))
		},
		"symlinks": func(t *testing.T, dir string) {
			for _, file := range []string{"plugin.js", "server.js", "package.json"} {
				target := secret(t)
				must(t, os.Symlink(target, filepath.Join(dir, file)))
				t.Cleanup(func() {
					if got, err := os.ReadFile(target); err != nil || string(got) != "somebody's" {
						t.Errorf("the target holds %q, %v", got, err)
					}
				})
			}
		},
		"dangling symlink": func(t *testing.T, dir string) {
			must(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "plugin.js")))
		},
		"symlink for the directory": func(t *testing.T, dir string) {
			must(t, os.Remove(dir))
			elsewhere := t.TempDir()
			must(t, os.WriteFile(filepath.Join(elsewhere, "plugin.js"), []byte("somebody's"), 0o600))
			before := listing(t, elsewhere)
			must(t, os.Symlink(elsewhere, dir))
			t.Cleanup(func() {
				if after := listing(t, elsewhere); after != before {
					t.Errorf("the link's target changed:\n%s\nbefore:\n%s", after, before)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, umask := range []int{0o000, 0o022, 0o077, 0o777} {
				data := t.TempDir()
				dir := filepath.Join(data, "mcp-reconnect")
				must(t, os.Mkdir(dir, 0o755))
				prepare(t, dir)
				old := syscall.Umask(umask)
				_, err := Install(data, DefaultPolicy())
				syscall.Umask(old)
				if err != nil {
					t.Fatal(err)
				}
				checkInstalled(t, dir)
			}
		})
	}
}

func TestUnchangedPluginKeepsItsMtime(t *testing.T) {
	data := t.TempDir()
	dir := install(t, data).Dir
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, name := range []string{"plugin.js", "server.js", "package.json"} {
		must(t, os.Chtimes(filepath.Join(dir, name), long, long))
	}
	before := listing(t, dir)
	if install(t, data).Updated {
		t.Error("Updated without a change")
	}
	if after := listing(t, dir); after != before {
		t.Errorf("now\n%s\nbefore\n%s", after, before)
	}
}

func TestUpdatedSaysThatRunningServersAreStale(t *testing.T) {
	data := t.TempDir()
	if install(t, data).Updated {
		t.Error("the first installation is no update")
	}
	p := DefaultPolicy()
	p.MaxAttempts = 3
	i, err := Install(data, p)
	if err != nil || !i.Updated {
		t.Errorf("another policy: Updated %v, %v", i.Updated, err)
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) { // C14
	for _, name := range []string{"plugin.js", "server.js", "package.json"} {
		for what, put := range map[string]func(path string) error{
			"text":      func(path string) error { return os.WriteFile(path, []byte("export default 1\n"), 0o644) },
			"empty":     func(path string) error { return os.WriteFile(path, nil, 0o644) },
			"directory": func(path string) error { return os.Mkdir(path, 0o755) },
			"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
			"marker in the second line": func(path string) error {
				return os.WriteFile(path, []byte("\n"+template.Marker+packageMarker), 0o644)
			},
		} {
			data := t.TempDir()
			dir := filepath.Join(data, "mcp-reconnect")
			must(t, os.Mkdir(dir, 0o755))
			must(t, put(filepath.Join(dir, name)))
			var before string
			if what != "fifo" {
				before = listing(t, data)
			}
			_, err := Install(data, DefaultPolicy())
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if what != "fifo" && listing(t, data) != before {
				t.Errorf("%s, %s: something changed:\n%s\nbefore:\n%s", name, what, listing(t, data), before)
			}
		}
	}
}

func TestInstallWhereItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	for name, data := range map[string]string{
		"a file":        file,
		"inside a file": filepath.Join(file, "below"),
		"no name":       "",
		"question mark": filepath.Join(t.TempDir(), "wh?t"),
		"backslash":     filepath.Join(t.TempDir(), `back\slash`),
		"not UTF-8":     filepath.Join(t.TempDir(), "bad\xff"),
		"below proc":    "/proc/self/nowhere",
	} {
		if _, err := Install(data, DefaultPolicy()); err == nil {
			t.Errorf("%s: installed", name)
		}
		if _, err := os.Lstat(data); err == nil && data != file {
			t.Errorf("%s: something was created", name)
		}
	}
}

// TestConcurrentInstalls runs fifty processes against a reader (F16, F19). They
// alternate between two policies, so that there is something to write each time.
func TestConcurrentInstalls(t *testing.T) {
	data := t.TempDir()
	policies := []Policy{DefaultPolicy(), DefaultPolicy()}
	policies[1].MaxAttempts = 3
	whole := map[string]map[string]bool{"plugin.js": {}, "server.js": {}}
	for _, p := range policies {
		js, err := Render(p)
		must(t, err)
		whole["plugin.js"][string(js)] = true
		server, err := RenderServer(p)
		must(t, err)
		whole["server.js"][string(server)] = true
	}
	dir := install(t, data).Dir

	stop := make(chan struct{})
	reads := 0
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for name, whole := range whole {
				path := filepath.Join(dir, name)
				content, err := os.ReadFile(path)
				if err != nil || !whole[string(content)] {
					t.Errorf("a reader of %s saw %d bytes, %v", name, len(content), err)
					return
				}
				if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
					t.Errorf("a reader of %s saw mode %v, %v", name, info.Mode(), err)
					return
				}
			}
			reads++
		}
	})
	var writers sync.WaitGroup
	exe, err := os.Executable()
	must(t, err)
	for n := range 50 {
		writers.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), "INSTALL_INTO="+data, "INSTALL_ATTEMPTS="+[]string{"10", "3"}[n%2])
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	if reads == 0 {
		t.Error("the reader read nothing")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"package.json", "plugin.js", "server.js"}) {
		t.Errorf("left behind: %q", got)
	}
}

// TestMain lets the test binary be the installing process of TestConcurrentInstalls.
func TestMain(m *testing.M) {
	data := os.Getenv("INSTALL_INTO")
	if data == "" {
		os.Exit(m.Run())
	}
	p := DefaultPolicy()
	for _, s := range Settings() {
		if s.Name == "max-attempts" {
			if err := s.Set(&p, os.Getenv("INSTALL_ATTEMPTS")); err != nil {
				panic(err)
			}
		}
	}
	for range 20 {
		if _, err := Install(data, p); err != nil {
			panic(err)
		}
	}
}

func TestLocation(t *testing.T) {
	l, err := Locate("/data dir/ü#%")
	if err != nil {
		t.Fatal(err)
	}
	if want := "file:///data%20dir/%C3%BC%23%25/mcp-reconnect"; l.Entry != want || l.FileURL != want+"/plugin.js" {
		t.Errorf("%q, %q", l.Entry, l.FileURL)
	}
	for entry, want := range map[string]bool{
		l.Entry:                                 true,
		l.FileURL:                               true,
		"/data dir/ü#%/mcp-reconnect":           true,
		"/data dir/ü#%/mcp-reconnect/":          true,
		"/data dir/ü#%/mcp-reconnect/plugin.js": true,
		"/data dir/ü#%/mcp-reconnect/server.js": true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect/server%2Ejs": true,
		"/data dir/../data dir/./ü#%//mcp-reconnect":                true,
		"file:///data%20dir/%c3%bc%23%25/mcp-reconnect":             true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect/":            true,
		"file:///data%20dir/%C3%BC%23%25/mcp%2Dreconnect":           true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect?v=1":         true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect#x":           true,
		"file:///data dir/ü%23%25/mcp-reconnect":                    true,
		"file:///data%20dir/%C3%BC%23%/mcp-reconnect":               true,
		"FILE://localhost/data%20dir/%C3%BC%23%25/mcp-reconnect":    true,
		"file:/data%20dir/%C3%BC%23%25/mcp-reconnect":               true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect/./plugin.js": true,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect/x/../":       true,
		"file:///other/mcp-reconnect":                               false, // only the base name is ours
		"file:///home/u/other/mcp-reconnect.js":                     false, // B13
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect/other.js":    false,
		"file:///data%20dir/%C3%BC%23%25/mcp-reconnect-2":           false,
		"file:///data%20dir/%C3%BC%23%25":                           false,
		"file://host/data%20dir/%C3%BC%23%25/mcp-reconnect":         false,
		"https://example.org/data%20dir/%C3%BC%23%25/mcp-reconnect": false,
		"data dir/ü#%/mcp-reconnect":                                false,
		"mcp-reconnect":                                             false,
		"":                                                          false,
		"file:":                                                     false,
	} {
		if got := l.Means(entry); got != want {
			t.Errorf("Means(%q) = %v", entry, got)
		}
	}
	if (Location{}).Means("") {
		t.Error("nowhere is meant by an empty entry")
	}
}

func TestPathsOfWindowsEntries(t *testing.T) {
	ours, _ := pathOf(`file:///C:/Users/Jo%20Ann/mcp-reconnect`, true)
	share, _ := pathOf(`file://srv/share/mcp-reconnect`, true)
	for entry, want := range map[string]string{
		`C:\Users\Jo Ann\mcp-reconnect`:                  ours,
		`c:/users/jo ann/MCP-Reconnect/`:                 ours,
		`file:///c:/Users/Jo%20Ann/mcp-reconnect`:        ours,
		`file:///C%3A/Users/Jo Ann/./mcp-reconnect`:      ours,
		`file://localhost/C:/Users/Jo Ann/mcp-reconnect`: ours,
		`\\SRV\share\mcp-reconnect`:                      share,
		`file://SRV/share/mcp-reconnect/`:                share,
		`mcp-reconnect`:                                  "",
		`C:mcp-reconnect`:                                "",
	} {
		if got, ok := pathOf(entry, true); got != want || ok != (want != "") {
			t.Errorf("pathOf(%q) = %q, %v; want %q", entry, got, ok, want)
		}
	}
}
