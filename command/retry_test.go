package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

func TestWhatBecameOfARetry(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	failed := state.Server{Name: "a", Status: "failed", Phase: "waiting"}
	asked := state.Instance{Pid: 7, Directory: "/p", Servers: []state.Server{failed, {Name: "well", Status: "connected"}}}
	answered := func(servers ...state.Server) []state.Instance {
		// Another OpenCode, also one that the same watch looks after, is no answer.
		return []state.Instance{{Pid: 8, Directory: "/p"}, {Pid: 7, Directory: "/p", URL: "http://x"}, {Pid: 7, Directory: "/p", RetriedAt: at, Servers: servers}}
	}
	a := func(status, phase string, retried bool) []state.Instance {
		return answered(state.Server{Name: "a", Status: status, Phase: phase, Retried: retried})
	}
	unused := state.Instance{Pid: 7, Directory: "/p"}
	const pending, final, fails = false, true, true
	force := []string{"a", "--force"} // stands for the flag
	for _, tt := range []struct {
		name          string
		servers       []string
		before        state.Instance
		now           []state.Instance
		result        string // of a, or of what is not known
		final, failed bool
	}{
		{"came back", nil, asked, a("connected", "up", true), "connected", final, !fails},
		{"was switched off", nil, asked, a("disabled", "", false), "disabled", final, !fails},
		{"was not tried yet", nil, asked, a("failed", "waiting", false), "still being tried", pending, fails},
		{"is being tried", nil, asked, a("failed", "trying", true), "still being tried", pending, fails},
		{"failed again", nil, asked, a("failed", "waiting", true), "still failed", final, fails},
		{"is skipped", nil, asked, a("failed", "skipped", false), "left alone, as the policy says", final, fails},
		{"vanished", nil, asked, answered(state.Server{Name: "well", Status: "connected"}), "no longer configured", final, !fails},
		{"is not answered for", nil, asked, []state.Instance{{Pid: 7, Directory: "/p"}}, "OpenCode has not answered yet", pending, fails},
		{"went with its OpenCode", nil, asked, []state.Instance{{Pid: 8, Directory: "/p"}}, "its OpenCode or its directory was closed", final, !fails},
		{"was never failed", []string{"well"}, asked, answered(failed, state.Server{Name: "well", Status: "connected"}), "was connected; left alone", final, !fails},
		{"came back by itself", []string{"a"}, asked, a("connected", "", false), "connected", final, !fails},
		{"is restarted by itself", []string{"a"}, asked, a("connected", "up", true), "connected", final, !fails},
		{"was never known", nil, unused, nil, "its OpenCode or its directory was closed", final, fails},
		{"was started first", nil, unused, a("connected", "up", true), "connected", final, !fails},
		{"failed meanwhile", nil, state.Instance{Pid: 7, Directory: "/p"}, a("failed", "waiting", true), "still failed", final, fails},
		{"is not known yet", nil, state.Instance{Pid: 7, Directory: "/p"}, answered(), "its status is not known yet", pending, fails},
		{"is not restarted yet", force, asked, a("connected", "", false), "still being restarted", pending, fails},
		{"is being restarted", force, asked, a("connected", "trying", true), "still being restarted", pending, fails},
		{"was restarted", force, asked, a("connected", "up", true), "connected", final, !fails},
		{"did not come back", force, asked, a("failed", "waiting", true), "still failed", final, fails},
		{"may not be restarted", force, asked, answered(state.Server{Name: "a", Status: "connected", Skipped: true}), "left alone, as the policy says", final, fails},
		{"is switched off", force, asked, a("disabled", "", false), "disabled", final, !fails},
	} {
		forced := slices.Contains(tt.servers, "--force")
		got := retryOptions{servers: tt.servers, force: forced}.fates(tt.before, instanceOf(tt.now, tt.before), at)
		if len(got) != 1 || got[0].result != tt.result || got[0].final != tt.final || got[0].failed != tt.failed {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if got := (retryOptions{}).fates(unused, instanceOf(answered(state.Server{Name: "well", Status: "connected"}), unused), at); len(got) != 0 {
		t.Errorf("nothing failed: %+v", got)
	}
}

// A fakePlugin does what one does that is told something: it answers in its state file.
type fakePlugin struct {
	t         *testing.T
	dir       string // the state directory
	directory string // of the instance
	unused    bool
	before    []state.Server                         // what it knows before it is told anything
	answer    func(asked state.Retry) []state.Server // what it knows after that; nil for no answer
	told      []state.Retry                          // so far
	record    interface{ Save(i state.Instance) error }
}

func (p *fakePlugin) save(i state.Instance) {
	p.t.Helper()
	i.Version = plugin.Version
	if err := p.record.Save(i); err != nil {
		p.t.Error(err)
	}
}

// run runs mcp-reconnect beside plugins, and returns what they were told.
func beside(t *testing.T, data string, plugins []*fakePlugin, args ...string) result {
	t.Helper()
	dir := filepath.Join(data, "mcp-reconnect-state")
	for _, p := range plugins {
		p.t, p.dir = t, dir
		p.record = state.NewRecord(dir, "http://127.0.0.1:4096", p.directory)
		p.save(state.Instance{Started: !p.unused, Known: p.before != nil, Servers: p.before})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := int64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			control, err := state.ReadControl(dir)
			if asked := control.Retry; err == nil && asked.At > last {
				last = asked.At
				for _, p := range plugins {
					p.obey(asked)
				}
			}
		}
	}()
	got := run(system("", "MCP_RECONNECT_DATA_DIR="+data), args...)
	close(stop)
	<-stopped
	return got
}

func (p *fakePlugin) obey(asked state.Retry) {
	if p.unused && !slices.Contains(asked.Use, p.directory) {
		return // rule 2
	}
	p.unused = false
	p.told = append(p.told, asked)
	if p.answer == nil {
		return
	}
	// The status takes its time.
	p.save(state.Instance{Started: true, RetriedAt: time.UnixMilli(asked.At), Known: p.before != nil, Servers: p.before})
	time.Sleep(30 * time.Millisecond)
	servers := p.answer(asked)
	p.save(state.Instance{Started: true, RetriedAt: time.UnixMilli(asked.At), Known: servers != nil, Servers: servers})
}

func always(servers ...state.Server) func(state.Retry) []state.Server {
	return func(state.Retry) []state.Server { return servers }
}

var (
	back  = state.Server{Name: "github", Status: "connected", Phase: "up", Retried: true}
	files = state.Server{Name: "files", Status: "connected"}
	mail  = state.Server{Name: "mail", Status: "connected"}
)

// TestRetryActs: what somebody asks for happens, in use or not, or it is said why not.
func TestRetryActs(t *testing.T) {
	const url = "http://127.0.0.1:4096\t"
	failed := state.Server{Name: "github", Status: "failed", Phase: "waiting", Error: "closed"}
	forced := func(asked state.Retry) []state.Server {
		if slices.Contains(asked.Force, "files") {
			return []state.Server{{Name: "files", Status: "connected", Phase: "up", Retried: true}}
		}
		return []state.Server{files}
	}
	for _, tt := range []struct {
		name    string
		args    string
		plugins []*fakePlugin
		want    result
		use     []string // what the last request says, of each plugin that got one
	}{
		{"an unused directory", "--directory /p",
			[]*fakePlugin{{directory: "/p", unused: true, answer: always(back, files)}, {directory: "/q", unused: true}},
			result{0, url + "/p\tgithub\tconnected\t-\n", ""}, []string{"/p"}},
		{"an unused directory in which all is well", "--directory /p",
			[]*fakePlugin{{directory: "/p", unused: true, answer: always(files, mail)}},
			result{0, "", "mcp-reconnect: no server is failed\n"}, []string{"/p"}},
		{"an unused directory, by name", "--directory /p github",
			[]*fakePlugin{{directory: "/p", unused: true, answer: always(back, files)}},
			result{0, url + "/p\tgithub\tconnected\t-\n", ""}, []string{"/p"}},
		{"an unused directory with a server that is still failed", "--directory /p",
			[]*fakePlugin{{directory: "/p", unused: true, answer: always(state.Server{Name: "github", Status: "failed", Phase: "waiting", Retried: true, Error: "closed"})}},
			result{1, url + "/p\tgithub\tstill failed\tclosed\n", ""}, []string{"/p"}},
		{"a name that is nowhere", "githbu",
			[]*fakePlugin{{directory: "/p", before: []state.Server{files, failed, mail}, answer: always()}, {directory: "/q", before: []state.Server{files}, answer: always()}},
			result{1, "", "mcp-reconnect: /p has no server \"githbu\"; it has files, github, mail\nmcp-reconnect: /q has no server \"githbu\"; it has files\n"}, nil},
		{"a name that turns out to be nowhere", "githbu files --directory /p",
			[]*fakePlugin{{directory: "/p", unused: true, answer: always(files, mail)}},
			result{1, url + "/p\tfiles\tconnected\t-\n", "mcp-reconnect: /p has no server \"githbu\"; it has files, mail\n"}, []string{"/p"}},
		{"a name that one directory has", "github",
			[]*fakePlugin{{directory: "/p", before: []state.Server{files, failed}, answer: always(files, back)}, {directory: "/q", before: []state.Server{files}, answer: always(files)}},
			result{0, url + "/p\tgithub\tconnected\t-\n", ""}, nil},
		{"a server that is connected", "files --directory /p",
			[]*fakePlugin{{directory: "/p", before: []state.Server{files}, answer: always(files)}},
			result{0, url + "/p\tfiles\twas connected; left alone\t-\n", "mcp-reconnect: hint: to restart what is connected: mcp-reconnect retry --force files --directory /p\n"}, nil},
		{"a restart in an unused directory", "--force files --directory /p",
			[]*fakePlugin{{directory: "/p", unused: true, answer: forced}},
			result{0, url + "/p\tfiles\tconnected\t-\n", ""}, []string{"/p"}},
		{"unused ones beside those in use", "",
			[]*fakePlugin{{directory: "/p", before: []state.Server{failed}, answer: always(back)}, {directory: "/it's", unused: true}},
			result{0, url + "/p\tgithub\tconnected\t-\n", "mcp-reconnect: open, and not in use: /it's; to try there: mcp-reconnect retry --directory '/it'\\''s'\n"}, nil},
		{"one above the named one", "--directory /p/q/r", []*fakePlugin{{directory: "/p", unused: true}},
			result{1, "", "mcp-reconnect: no running OpenCode that has loaded the plugin has /p/q/r open\nmcp-reconnect: hint: one above it is open: mcp-reconnect retry --directory /p\n"}, nil},
		{"an unused directory without servers", "--directory /p github",
			[]*fakePlugin{{directory: "/p", unused: true, answer: func(state.Retry) []state.Server { return []state.Server{} }}},
			result{1, "", "mcp-reconnect: /p has no server \"github\"; it has none\n"}, []string{"/p"}},
		{"one that does not answer", "--directory /p --wait 200ms", []*fakePlugin{{directory: "/p", unused: true}},
			result{1, url + "/p\t-\tOpenCode has not answered yet\t-\n", ""}, []string{"/p"}},
		{"one whose servers take long", "--directory /p --wait 200ms", []*fakePlugin{{directory: "/p", unused: true, answer: always()}},
			result{1, url + "/p\t-\tits status is not known yet\t-\n", ""}, []string{"/p"}},
	} {
		got := beside(t, t.TempDir(), tt.plugins, append([]string{"retry"}, strings.Fields(tt.args)...)...)
		if got != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
		for _, p := range tt.plugins {
			if n := len(p.told); n > 0 && !slices.Equal(p.told[n-1].Use, tt.use) {
				t.Errorf("%s: %s was told %+v", tt.name, p.directory, p.told)
			}
		}
	}
}

// TestRetryWhereSomebodyIs: the directory that somebody is in, or is below, is meant.
func TestRetryWhereSomebodyIs(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "project", "src", "deep")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(below, link); err != nil {
		testenv.Skip(t, "%v", err) // Windows asks for a privilege
	}
	for _, cwd := range []string{filepath.Join(root, "project"), below, link} {
		t.Chdir(cwd)
		project := &fakePlugin{directory: filepath.Join(root, "project"), unused: true, answer: always(back)}
		above := &fakePlugin{directory: root, unused: true}
		got := beside(t, t.TempDir(), []*fakePlugin{project, above}, "retry", "github")
		if got.status != 0 || !strings.Contains(got.stdout, "project\tgithub\tconnected\t") || strings.Count(got.stderr, "open, and not in use") != 1 {
			t.Errorf("in %s: %+v", cwd, got)
		}
		if len(project.told) != 1 || !slices.Equal(project.told[0].Use, []string{project.directory}) || project.told[0].Directories != nil || len(above.told) > 0 {
			t.Errorf("in %s: told %+v, and %+v", cwd, project.told, above.told)
		}
	}
}

// TestManyUnused: five are named.
func TestManyUnused(t *testing.T) {
	var plugins []*fakePlugin
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		plugins = append(plugins, &fakePlugin{directory: "/" + name, unused: true})
	}
	got := beside(t, t.TempDir(), plugins, "retry")
	if n := strings.Count(got.stderr, "open, and not in use"); n != 5 || !strings.HasSuffix(got.stderr, "mcp-reconnect: and 2 more, which mcp-reconnect status lists\n") {
		t.Errorf("%+v", got)
	}
}

// TestCommandsCanBeCopied: a shell gives every word back.
func TestCommandsCanBeCopied(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "fish", "zsh"} {
		if _, err := exec.LookPath(shell); errors.Is(err, exec.ErrNotFound) && shell != "sh" {
			continue
		}
		for _, word := range append([]string{"", "~", "/plain", "it's '", "#", "=ls", "-n"}, hostileNames...) {
			out, err := exec.Command(testenv.Program(t, shell), "-c", "printf '<%s>' "+oneline.Word(word)).Output()
			if err != nil || string(out) != "<"+word+">" {
				t.Errorf("%s: %q became %s, and that %q, %v", shell, word, oneline.Word(word), out, err)
			}
		}
	}
}

// TestRetryWhereAWatchLooks: its directory is there after it was asked for, and what is tried
// there is seen, however fast.
func TestRetryWhereAWatchLooks(t *testing.T) {
	dir := t.TempDir()
	o := retryOptions{location: plugin.Location{StateDir: dir}, directory: "/p", wait: 5 * time.Second}
	if fates, now, err := (retryOptions{location: o.location, directory: "/p", wait: 100 * time.Millisecond}).await(concerned{appears: true}, time.Now(), isFinal, System{}); len(fates)+len(now) > 0 || err != nil {
		t.Errorf("nothing looks there: %+v, %+v, %v", fates, now, err)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		r := state.NewRecord(dir, "http://127.0.0.1:4096", "/p")
		for _, i := range []state.Instance{{Started: true}, {Started: true, Known: true, Servers: []state.Server{files, back}}} {
			if err := r.Save(i); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	fates, now, err := o.await(concerned{appears: true}, time.Now(), isFinal, System{})
	if err != nil || len(now) != 1 || len(fates) != 1 || fates[0].name != "github" || fates[0].result != "connected" {
		t.Errorf("%+v, %+v, %v", fates, now, err)
	}
}

func TestReconnectedWatches(t *testing.T) {
	before := state.Watch{Pid: 7, URL: "http://a", State: "given_up"}
	for _, tt := range []struct {
		now    []state.Watch
		result string
		failed bool
	}{
		{[]state.Watch{{Pid: 7, URL: "http://b", State: "waiting"}, {Pid: 7, URL: "http://a", State: "connected"}}, "connected", false},
		{[]state.Watch{{Pid: 7, URL: "http://a", State: "waiting", Error: "refused"}}, "waiting", true},
		{[]state.Watch{{Pid: 8, URL: "http://a", State: "connected"}}, "its watch has ended", true},
	} {
		if got := reconnected(before, tt.now); got.result != tt.result || got.failed != tt.failed || got.instance.URL != before.URL {
			t.Errorf("%+v: %+v", tt.now, got)
		}
	}
}
