//go:build unix

package check

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// well returns options with which nothing is found.
func well(t *testing.T) Options {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"home", "project/.git"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{
		Variable: "OPENCODE_CONFIG_CONTENT", Source: "OPENCODE_CONFIG_CONTENT",
		DataDir: filepath.Join(root, "da ta%ü"), Policy: plugin.DefaultPolicy(),
		Dir: filepath.Join(root, "project"), Home: filepath.Join(root, "home"), Version: "1.18.33",
	}
	installed, err := plugin.Install(o.DataDir, o.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if o.Content, err = configmerge.Merge("", configmerge.Entry{URL: installed.Entry}); err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// found lists what Run finds as "severity id".
func found(t *testing.T, o Options) []string {
	t.Helper()
	report, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, d := range report.Diagnostics {
		if d.Summary == "" || d.Detail == "" || strings.HasSuffix(d.Summary, ".") || strings.HasSuffix(d.Detail, ".") {
			t.Errorf("%+v: a summary and what to do, without final periods", d)
		}
		if !slices.Contains(IDs(), d.ID) {
			t.Errorf("%s is no rule", d.ID)
		}
		list = append(list, string(d.Severity)+" "+d.ID)
	}
	return list
}

func TestRun(t *testing.T) {
	inList := func(o *Options, more string) {
		o.Content = strings.Replace(o.Content, `"plugin":[`, `"plugin":[`+more+`,`, 1)
	}
	version := func(v string, change func(o *Options)) func(*testing.T, *Options) {
		return func(_ *testing.T, o *Options) {
			o.Version = v
			change(o)
		}
	}
	nothing := func(*Options) {}
	comment := func(o *Options) { o.Content += "// x" }
	path := func(o *Options) { o.Content = `{"plugin":["` + o.DataDir + `/mcp-reconnect"]}` }
	plugins := func(o *Options) { o.Content = `{"plugins":[],` + o.Content[1:] }
	native := func(o *Options) { o.Content = strings.Replace(o.Content, `"plugin"`, `"plugins"`, 1) }
	both := func(o *Options) {
		list := o.Content[strings.Index(o.Content, `"plugin":`)+len(`"plugin":`) : strings.LastIndex(o.Content, "]")+1]
		o.Content = `{"plugins":` + list + "," + o.Content[1:]
	}
	link := func(t *testing.T, o *Options) string {
		name := filepath.Join(filepath.Dir(o.Dir), "link")
		if err := os.Symlink(o.DataDir, name); err != nil {
			t.Fatal(err)
		}
		return `"file://` + name + `/mcp-reconnect"`
	}
	global := func(t *testing.T, o *Options, name, content string) string {
		write(t, filepath.Join(o.Home, ".config/opencode", name), content)
		return ""
	}
	another := func(t *testing.T) string {
		installed, err := plugin.Install(t.TempDir(), plugin.DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		return installed.Entry
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, o *Options)
		want   []string
	}{
		{"well", version("1.18.33", nothing), nil},
		{"others in the list", func(t *testing.T, o *Options) {
			inList(o, `"x", 1, null, [], {}, "./y", ["z", {}], "file:///elsewhere/mcp-reconnect"`)
		}, nil},
		{"an empty text from a file", func(t *testing.T, o *Options) { o.Content, o.Source = "", "x.json" }, []string{"error content-missing"}},
		{"only a byte order mark", func(t *testing.T, o *Options) { o.Content = "\ufeff" }, []string{"error content-missing"}},
		{"a byte order mark", func(t *testing.T, o *Options) { o.Content = "\ufeff" + o.Content }, []string{"error content-not-strict"}},
		{"a comment", version("1.18.33", comment), nil},
		{"a comment, which is not read", version("1.2.1", comment), []string{"error content-not-strict"}},
		{"the last of two lists counts", func(t *testing.T, o *Options) { o.Content = o.Content[:len(o.Content)-1] + `,"plugin":[]}` }, []string{"error entry-missing"}},
		{"the order does not count", func(t *testing.T, o *Options) { o.Content = strings.Replace(o.Content, `"]}`, `","x"]}`, 1) }, nil},
		{"a path, unknown version", version("", path), []string{"warning entry-form", "info opencode-unknown"}},
		{"a path, which is not loaded", version("1.3.2", path), []string{"error entry-form"}},
		{"another spelling", func(t *testing.T, o *Options) { o.Content = strings.Replace(o.Content, "file://", "FILE:", 1) }, []string{"warning entry-form"}},
		{"through a symbolic link", func(t *testing.T, o *Options) { o.Content = `{"plugin":[` + link(t, o) + `]}` }, []string{"warning entry-form"}},
		{"a link beside it", func(t *testing.T, o *Options) { inList(o, link(t, o)) }, []string{"warning entry-form", "error entry-repeated"}},
		{"a relative entry", func(t *testing.T, o *Options) { inList(o, `"../da ta%ü/mcp-reconnect"`) }, []string{"warning entry-form", "error entry-repeated"}},
		{"plugins, ignored", version("1.18.11", plugins), []string{"warning plugins-key"}},
		{"plugins, refused first", version("1.2.11", plugins), []string{"error plugins-key"}},
		{"plugins, refused last", version("1.18.10", plugins), []string{"error plugins-key"}},
		{"plugins, ignored before", version("1.1.65", plugins), []string{"warning plugins-key"}},
		{"plugins, in OpenCode 2", version("2.0.26", plugins), []string{"warning opencode-2"}},
		{"plugins, unknown version", version("", plugins), []string{"warning plugins-key", "info opencode-unknown"}},
		{"plugins alone", version("1.18.33", native), []string{"warning plugins-key", "error entry-missing"}},
		{"plugins alone, in OpenCode 2", version("2.0.26", native), []string{"warning opencode-2"}},
		{"plugins alone, unknown version", version("", native), []string{"warning plugins-key", "info opencode-unknown"}},
		{"in both lists", version("2.0.26", both), []string{"error entry-repeated", "warning opencode-2"}},
		{"in both lists, of which one counts", version("1.18.33", both), []string{"warning plugins-key"}},
		{"with options under plugins", version("2.0.26", func(o *Options) {
			native(o)
			o.Content = strings.Replace(strings.Replace(o.Content, `["file`, `[{"package":"file`, 1), `"]`, `"}]`, 1)
		}), []string{"warning entry-form", "warning opencode-2"}},
		{"a file, in OpenCode 2", version("2.0.26", func(o *Options) { o.Content = strings.Replace(o.Content, `"]`, `/plugin.js"]`, 1) }),
			[]string{"error entry-form", "warning opencode-2"}},
		{"too old", version("1.0.141", nothing), []string{"error opencode-unsupported"}},
		{"just not too old", version("1.0.142", nothing), nil},
		{"a preview of 2", version("2.0.0-beta.1", nothing), []string{"warning opencode-2"}},
		{"a data directory that cannot be", func(t *testing.T, o *Options) { o.DataDir += "?" }, []string{"error data-dir"}},
		{"no files of the plugin", func(t *testing.T, o *Options) {
			for _, name := range []string{"plugin.js", "server.js", "package.json"} {
				if err := os.Remove(filepath.Join(o.DataDir, "mcp-reconnect", name)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"error not-installed", "error not-installed", "error not-installed"}},
		{"paused", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.DataDir, "mcp-reconnect-state", "control.json"), `{"paused":true,"retry":{"at":0,"servers":[]}}`)
		}, []string{"warning paused"}},
		{"resumed", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.DataDir, "mcp-reconnect-state", "control.json"), `{"paused":false,"retry":{"at":0,"servers":[]}}`)
		}, nil},
		{"plugins are off", func(t *testing.T, o *Options) { o.Environ = []string{"OPENCODE_PURE=yes"} }, []string{"error plugins-disabled"}},
		{"plugins are not off", func(t *testing.T, o *Options) {
			o.Environ = []string{"OPENCODE_PURE=no", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}
		}, nil},
		{"an empty switch", func(t *testing.T, o *Options) { o.Environ = []string{"OPENCODE_PURE="} }, []string{"error plugins-disabled"}},
		{"the home's own directory", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Home, ".opencode/opencode.json"), `{"plugin":["`+o.DataDir+`/mcp-reconnect"]}`)
		}, []string{"error loaded-twice"}},
		{"another place for configuration", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "xdg/opencode/config.json"), o.Content)
			o.Environ = []string{"XDG_CONFIG_HOME=" + filepath.Join(o.Dir, "xdg")}
			o.Content = strings.Replace(o.Content, `"]`, `/plugin.js"]`, 1)
		}, []string{"error loaded-twice"}},
		{"a variable's file, and relative", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "x.json"), `{"plugin":["../da ta%ü/mcp-reconnect/plugin.js"]}`)
			o.Environ = []string{"OPENCODE_CONFIG=x.json"}
		}, []string{"error loaded-twice"}},
		{"above the work tree", func(t *testing.T, o *Options) {
			write(t, filepath.Join(filepath.Dir(o.Dir), "opencode.json"), `{"plugin":["`+o.DataDir+`/mcp-reconnect"]}`)
		}, nil},
		{"a file that cannot be read", func(t *testing.T, o *Options) { write(t, filepath.Join(o.Dir, "opencode.json", "x"), "") }, []string{"info config-unread"}},
		{"another plugin that is loaded by itself", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Home, ".config/opencode/plugin/x.js"), "export default async () => ({})")
		}, nil},
		{"the same URL elsewhere", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "opencode.json"), o.Content)
			write(t, filepath.Join(o.Home, ".config/opencode/opencode.jsonc"), o.Content)
		}, nil},
		{"listed elsewhere alone", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "opencode.json"), o.Content)
			o.Content = `{"plugin":[]}`
		}, nil},
		{"listed elsewhere alone, which the text to check does not say", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "opencode.json"), o.Content)
			o.Content, o.Source = `{"plugin":[]}`, "x.json"
		}, []string{"error entry-missing"}},
		{"no variable", func(t *testing.T, o *Options) { o.Content = global(t, o, "opencode.json", o.Content) }, nil},
		{"no variable, and nothing in the files", func(t *testing.T, o *Options) { o.Content = global(t, o, "opencode.json", `{"plugin":["x"]}`) },
			[]string{"error content-missing"}},
		{"a blank variable stops OpenCode, whatever the files say", func(t *testing.T, o *Options) { o.Content = global(t, o, "opencode.json", o.Content) + " " },
			[]string{"error content-missing"}},
		{"no variable, twice in the files", func(t *testing.T, o *Options) {
			write(t, filepath.Join(o.Dir, "opencode.json"), strings.Replace(o.Content, `"]`, `/plugin.js"]`, 1))
			o.Content = global(t, o, "opencode.json", o.Content)
		}, []string{"error loaded-twice"}},
		{"no variable, and a path in the file", func(t *testing.T, o *Options) {
			o.Content = global(t, o, "opencode.json", `{"plugin":["`+o.DataDir+`/mcp-reconnect"]}`)
		}, []string{"warning entry-form"}},
		{"a list in a file that counts more", func(t *testing.T, o *Options) {
			o.Content = global(t, o, "opencode.json", o.Content) + global(t, o, "opencode.jsonc", `{"plugin":[]}`)
		}, []string{"error content-missing", "error entry-missing"}},
		{"a list in a file that counts less", func(t *testing.T, o *Options) {
			o.Content = global(t, o, "opencode.jsonc", o.Content) + global(t, o, "opencode.json", `{"plugin":[]}`)
		}, nil},
		{"no list in a file that counts more", func(t *testing.T, o *Options) {
			o.Content = global(t, o, "config.json", o.Content) + global(t, o, "opencode.json", `{"model":"x"}`)
		}, nil},
		{"another one where OpenCode does not look", func(t *testing.T, o *Options) {
			global(t, o, "opencode.json", `{"plugin":["`+another(t)+`"]}`)
			global(t, o, "opencode.jsonc", `{"plugin":[]}`)
		}, nil},
		{"another one in the variable", func(t *testing.T, o *Options) {
			global(t, o, "opencode.json", o.Content)
			o.Content = `{"plugin":["` + another(t) + `"]}`
		}, []string{"error loaded-twice"}},
		{"OpenCode 2's list in a file, in OpenCode 1", func(t *testing.T, o *Options) {
			o.Content = global(t, o, "opencode.json", strings.Replace(o.Content, `"plugin"`, `"plugins"`, 1))
		}, []string{"error content-missing"}},
		{"OpenCode 2's list in a file", version("2.0.26", func(o *Options) {
			o.Content = global(t, o, "opencode.json", strings.Replace(o.Content, `"plugin"`, `"plugins"`, 1))
		}), []string{"warning opencode-2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := well(t)
			tt.change(t, &o)
			if diff := cmp.Diff(append([]string{}, tt.want...), found(t, o)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestAdviceNamesTheCommand that takes another mcp-reconnect out.
func TestAdviceNamesTheCommand(t *testing.T) {
	data := filepath.Join(t.TempDir(), "it's")
	installed, err := plugin.Install(data, plugin.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	list := `{"plugin":["` + installed.Entry + `"]}`
	quoted := "'" + strings.Replace(data, "'", `'\''`, 1) + "'"
	for _, tt := range []struct {
		file string // below the root of the test
		want string
	}{
		{"home/.config/opencode/opencode.json", "mcp-reconnect uninstall --data-dir " + quoted},
		{"home/.opencode/opencode.json", "mcp-reconnect uninstall --data-dir " + quoted},
		{"project/opencode.json", "/project/opencode.json --data-dir " + quoted},
		{"", "evaluate what mcp-reconnect env --unset --data-dir " + quoted + " prints"},
	} {
		o := well(t)
		if tt.file == "" {
			o.Content = strings.Replace(o.Content, `"]}`, `","`+installed.Entry+`"]}`, 1)
		} else {
			write(t, filepath.Join(filepath.Dir(o.Home), tt.file), list)
		}
		report, err := Run(o)
		if err != nil || len(report.Diagnostics) != 1 || !strings.HasSuffix(report.Diagnostics[0].Detail, tt.want) {
			t.Errorf("%s: %+v, %v", tt.file, report.Diagnostics, err)
		}
	}
}

func TestWhatCannotBeLookedAtIsAnError(t *testing.T) {
	o := well(t)
	o.DataDir = filepath.Join(o.DataDir, "mcp-reconnect", "plugin.js") // a file where a directory should be
	if report, err := Run(o); err == nil {
		t.Errorf("%+v", report)
	}
}

// program writes a shell script.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "opencode")
	write(t, path, script)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A deadline is a context whose time is over when a test says so.
type deadline struct {
	context.Context
	over <-chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.over }

func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestLiveWithWhatIsNotOpenCode starts programs that do not serve.
func TestLiveWithWhatIsNotOpenCode(t *testing.T) {
	o := well(t)
	o.Environ = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	diagnostics, err := Live(t.Context(), program(t, "#!/bin/sh\necho sk-5ecret; exit 1"), o)
	if err != nil || len(diagnostics) != 1 || diagnostics[0].ID != LiveRefused {
		t.Errorf("one that ends: %+v, %v", diagnostics, err)
	}
	if diagnostics, err = Live(t.Context(), program(t, "#!/nowhere\n"), o); err == nil {
		t.Errorf("one that cannot be started: %+v", diagnostics)
	}
	// The child notes its environment, and outlives its parent if nobody ends both. The time
	// is over when it has.
	seen := filepath.Join(t.TempDir(), "seen")
	over := make(chan struct{})
	go func() {
		defer close(over)
		for t.Context().Err() == nil {
			if _, err := os.Stat(seen); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	o.Environ = append(o.Environ, "OPENCODE_SERVER_PASSWORD=sk-5ecret", "XDG_CONFIG_HOME=/x", "HOME=/x", "KEPT=1")
	diagnostics, err = Live(deadline{t.Context(), over}, program(t, "#!/bin/sh\n(env; pwd; echo $$) >"+seen+".new\nmv "+seen+".new "+seen+"\nsleep 1000 & wait"), o)
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("one that hangs: %+v, %v", diagnostics, err)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"KEPT=1", "OPENCODE_CONFIG_CONTENT=" + o.Content, "OPENCODE_DISABLE_AUTOUPDATE=1"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in its environment", part)
		}
	}
	if strings.Contains(string(text), "5ecret") || strings.Contains(string(text), "=/x\n") {
		t.Errorf("it is not isolated:\n%s", text)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if _, err := os.Stat(lines[len(lines)-2]); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
}

// TestMain lets this binary be an OpenCode, which answers every request with the status in $FAKE_STATUS and loads nothing.
func TestMain(m *testing.M) {
	status, err := strconv.Atoi(os.Getenv("FAKE_STATUS"))
	if err != nil {
		os.Exit(m.Run())
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, "sk-5ecret")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("sk-5ecret\nopencode server listening on http://" + listener.Addr().String())
	log.Fatal(http.Serve(listener, http.HandlerFunc(answer)))
}

func TestLiveWithoutThePlugin(t *testing.T) {
	before := loadLimit
	loadLimit = 300 * time.Millisecond
	t.Cleanup(func() { loadLimit = before })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[string]string{"200": LiveNotLoaded, "400": LiveRefused, "500": LiveRefused} {
		o := well(t)
		o.Environ = append(os.Environ(), "FAKE_STATUS="+status)
		found, err := Live(t.Context(), self, o)
		if err != nil || len(found) != 1 || found[0].ID != want || strings.Contains(found[0].Summary, "5ecret") {
			t.Errorf("status %s: %+v, %v", status, found, err)
		}
	}
}

// TestEveryRuleIsDocumented compares the rules with the README's table.
func TestEveryRuleIsDocumented(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Checking it in CI\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := []string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	if diff := cmp.Diff(IDs(), documented); diff != "" {
		t.Errorf("-rules +README\n%s", diff)
	}
}
