package command

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

func TestStatusAtATerminal(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	instances := []state.Instance{
		{Pid: 7, Version: "0.1.0", Directory: "/home/ann/project", URL: "http://127.0.0.1:4096", Started: true, Servers: []state.Server{
			{Name: "github", Status: "failed", Phase: "waiting", Tries: 3, Error: "MCP error -32000: Connection closed",
				Since: now.Add(-12 * time.Second), TriedAt: now.Add(-2 * time.Second), DueAt: now.Add(4 * time.Second)},
			{Name: "files", Status: "connected", Since: now.Add(-3 * time.Hour)},
			{Name: "mail", Status: "needs_auth", Phase: "aside", Tries: 1, Since: now.Add(-90 * time.Second)},
		}},
		{Pid: 7, Version: "0.1.0", Directory: "/home/ann/other"},
		{Pid: 9, Version: "0.0.9", Directory: "/\x1b[2J", Started: true, Servers: []state.Server{
			{Name: "old", Status: "failed", Phase: "parked", Tries: 10, Error: "a\nb", Since: now.Add(-72 * time.Hour), DueAt: now.Add(-time.Second)},
		}},
		{Pid: 11, Watch: true, Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:1", Started: true},
		{Pid: 11, Watch: true, Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:2", Started: true},
	}
	const want = `OpenCode 7 at http://127.0.0.1:4096, mcp-reconnect 0.1.0
DIRECTORY          SERVER  PHASE       TRIES  NEXT TRY  SINCE  LAST ERROR
/home/ann/project  github  waiting     3      in 4 s    12 s   MCP error -32000: Connection closed
/home/ann/project  files   connected   -      -         3 h    -
/home/ann/project  mail    needs_auth  1      -         1 min  -
/home/ann/other    -       unused      -      -         -      -
unused: nothing is read before the first prompt there, or with --start load.
To look now: mcp-reconnect retry --directory /home/ann/other

OpenCode 9, mcp-reconnect 0.0.9
DIRECTORY  SERVER  PHASE   TRIES  NEXT TRY  SINCE  LAST ERROR
/\x1b[2J   old     parked  10     in 0 s    3 d    a\nb

Watch 11 of http://127.0.0.1:1, mcp-reconnect 0.1.0
DIRECTORY  SERVER  PHASE    TRIES  NEXT TRY  SINCE  LAST ERROR
/p         -       unknown  -      -         -      -

Watch 11 of http://127.0.0.1:2, mcp-reconnect 0.1.0
DIRECTORY  SERVER  PHASE    TRIES  NEXT TRY  SINCE  LAST ERROR
/p         -       unknown  -      -         -      -

Watch 13 of http://127.0.0.1:7817: connected, no directory in use yet

Watch 13 of http://127.0.0.1:1: waiting (nothing listens there: connection refused)
`
	found := state.Instances{List: instances, Watches: []state.Watch{
		{Pid: 11, URL: "http://127.0.0.1:1", State: "connected", Directories: 1},
		{Pid: 13, URL: "http://127.0.0.1:7817", State: "connected"},
		{Pid: 13, URL: "http://127.0.0.1:1", State: "waiting", Error: "nothing listens there: connection refused"},
	}}
	if got := statusTables(found, now, 0); got != want {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.Lines(statusTables(found, now, 60)) {
		prose := strings.Contains(line, ": ") // which nothing may be cut off
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 && !prose {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

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

func TestPauseIsHintedAt(t *testing.T) {
	data := t.TempDir()
	s := system("", "MCP_RECONNECT_DATA_DIR="+data)
	s.StderrTerminal = true
	run(s, "env")
	if got := run(s, "pause"); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	const want = "mcp-reconnect: hint: reconnecting is paused: mcp-reconnect resume ends that\n"
	if got := run(s, "env"); got.status != 0 || got.stderr != want {
		t.Errorf("%+v", got)
	}
	if got := run(s, "env", "--unset"); got.stderr != "" {
		t.Errorf("%+v", got)
	}
}
