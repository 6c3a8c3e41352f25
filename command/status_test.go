package command

import (
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
	}
	const want = `OpenCode 7 at http://127.0.0.1:4096, mcp-reconnect 0.1.0
DIRECTORY          SERVER  PHASE       TRIES  NEXT TRY  SINCE  LAST ERROR
/home/ann/project  github  waiting     3      in 4 s    12 s   MCP error -32000: Connection closed
/home/ann/project  files   connected   -      -         3 h    -
/home/ann/project  mail    needs_auth  1      -         1 min  -
/home/ann/other    -       unused      -      -         -      -

OpenCode 9, mcp-reconnect 0.0.9
DIRECTORY  SERVER  PHASE   TRIES  NEXT TRY  SINCE  LAST ERROR
/\uFFFD[2J      old     parked  10     in 0 s    3 d    a\uFFFDb
`
	if got := statusTables(instances, now, 0); got != strings.ReplaceAll(want, `\uFFFD`, "\uFFFD") {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.Lines(statusTables(instances, now, 60)) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestRetryReportsAtATerminal(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	asked := state.Instance{Pid: 7, Directory: "/p"}
	answered := func(s state.Server) []state.Instance {
		s.Name = "a"
		return []state.Instance{{Pid: 8, Directory: "/p"}, {Pid: 7, Directory: "/p", RetriedAt: at, Servers: []state.Server{s}}}
	}
	for _, tt := range []struct {
		name   string
		now    []state.Instance
		result string
		final  bool
		failed bool
	}{
		{"came back", answered(state.Server{Status: "connected", Phase: "up"}), "connected", true, false},
		{"was switched off", answered(state.Server{Status: "disabled"}), "disabled", true, false},
		{"was not tried yet", answered(state.Server{Status: "failed", Phase: "waiting", TriedAt: at.Add(-1)}), "still being tried", false, true},
		{"is being tried", answered(state.Server{Status: "failed", Phase: "trying", TriedAt: at}), "still being tried", false, true},
		{"failed again", answered(state.Server{Status: "failed", Phase: "waiting", TriedAt: at}), "still failed", true, true},
		{"is skipped", answered(state.Server{Status: "failed", Phase: "skipped"}), "left alone, as the policy says", true, true},
		{"vanished", []state.Instance{{Pid: 7, Directory: "/p", RetriedAt: at}}, "no longer configured", true, false},
		{"is not answered for", []state.Instance{{Pid: 7, Directory: "/p"}}, "OpenCode has not answered yet", false, true},
		{"went with its OpenCode", []state.Instance{{Pid: 8, Directory: "/p"}}, "its OpenCode or its directory was closed", true, false},
	} {
		got := fateOf(asked, "a", tt.now, at)
		if got.result != tt.result || got.final != tt.final || got.failed != tt.failed {
			t.Errorf("%s: %+v", tt.name, got)
		}
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
