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
		{Pid: 11, Watch: true, Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:1", Started: true},
		{Pid: 11, Watch: true, Version: "0.1.0", Directory: "/p", URL: "http://127.0.0.1:2", Started: true},
	}
	const want = `OpenCode 7 at http://127.0.0.1:4096, mcp-reconnect 0.1.0
DIRECTORY          SERVER  PHASE       TRIES  NEXT TRY  SINCE  LAST ERROR
/home/ann/project  github  waiting     3      in 4 s    12 s   MCP error -32000: Connection closed
/home/ann/project  files   connected   -      -         3 h    -
/home/ann/project  mail    needs_auth  1      -         1 min  -
/home/ann/other    -       unused      -      -         -      -
unused: nothing is read there before the first prompt, unless --start load is set.
To look now: mcp-reconnect retry --directory /home/ann/other

OpenCode 9, mcp-reconnect 0.0.9
DIRECTORY  SERVER  PHASE   TRIES  NEXT TRY  SINCE  LAST ERROR
/\x1b[2J   old     parked  10     in 0 s    3 d    a\nb

Watch 11 of http://127.0.0.1:1, mcp-reconnect 0.1.0
DIRECTORY  SERVER  PHASE    TRIES  NEXT TRY  SINCE  LAST ERROR
/p         -       unknown  -      -         -      -

Watch 11 of http://127.0.0.1:2, mcp-reconnect 0.1.0: given up (connection refused)
DIRECTORY  SERVER  PHASE    TRIES  NEXT TRY  SINCE  LAST ERROR
/p         -       unknown  -      -         -      -

Watch 13 of http://127.0.0.1:7817: connected, no directory in use yet

Watch 13 of http://127.0.0.1:1: waiting (nothing listens there: connection refused)
`
	found := state.Instances{List: instances, Watches: []state.Watch{
		{Pid: 11, URL: "http://127.0.0.1:1", State: "connected", Directories: 1},
		{Pid: 11, URL: "http://127.0.0.1:2", State: "given_up", Error: "connection refused", Directories: 1},
		{Pid: 13, URL: "http://127.0.0.1:7817", State: "connected"},
		{Pid: 13, URL: "http://127.0.0.1:1", State: "waiting", Error: "nothing listens there: connection refused"},
	}}
	if got := statusTables(statusOptions{}, found, now, 0); got != want {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.Lines(statusTables(statusOptions{}, found, now, 60)) {
		prose := strings.Contains(line, ": ") // which nothing may be cut off
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 60 && !prose {
			t.Errorf("%d columns: %s", n, line)
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
