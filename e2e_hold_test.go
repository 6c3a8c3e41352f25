//go:build unix

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// holding tries a server once, and holds a prompt for longer than a test may take: what
// is not decided by then would be seen.
var holding = setup{policy: append(slices.Clone(patient.policy), "MCP_RECONNECT_HOLD_PROMPT=1m")}

// TestFirstPromptHasItsTools: what failed at start and can start by the time of a prompt
// is in the prompt's first request (rule 21).
func TestFirstPromptHasItsTools(t *testing.T) {
	runAll(t, launch(t, holding), []scenario{
		{"a server failed before the prompt", failedBefore},
		{"a server fails in the start that the prompt causes", failsInColdStart},
		{"another server is slow to start", coldStartIsSlow},
		{"a server stays broken", brokenCostsNothing},
		{"nothing has failed", nothingFailed},
	})
}

// firstPrompt is the whole of the rule, for every OpenCode.
func firstPrompt(t *testing.T, a *app) {
	failedBefore(t, a)
	failsInColdStart(t, a)
}

func failedBefore(t *testing.T, a *app) {
	w := a.project(t).stdios("late", "well")
	w.mark("late", "down")
	w.wants("late", "failed") // as a UI that shows the status: it starts them, and is no use (rule 2)
	w.unmark("late", "down")
	w.works("late", "late_echo")
	if late, well := w.starts("late"), w.starts("well"); late != 2 || well != 1 {
		t.Errorf("the server was started %d times, its healthy neighbour %d times", late, well)
	}
}

func failsInColdStart(t *testing.T, a *app) {
	w := a.project(t).stdios("once")
	w.mark("once", "once")
	w.works("once", "once_echo")
	if n := w.starts("once"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
}

// coldStartIsSlow: OpenCode itself waits for a slow server, and the time does not count.
func coldStartIsSlow(t *testing.T, a *app) {
	w := a.project(t).stdios("once", "slow")
	w.mark("once", "once")
	w.steer("slow", "slow", "5000")
	got := w.prompt("call once_echo then slow_echo")
	for _, tool := range []string{"once_echo", "slow_echo"} {
		if !slices.Contains(got.offered, tool) {
			t.Errorf("the first request of the prompt offers %q", got.offered)
		}
	}
	if said := got.said(); !strings.Contains(said, "once says hello") || !strings.Contains(said, "slow says hello") {
		t.Errorf("they returned %q", said)
	}
}

// brokenCostsNothing: no prompt waits for a server that was tried and is still down.
func brokenCostsNothing(t *testing.T, a *app) {
	w := a.project(t).stdios("broken", "well")
	w.mark("broken", "down")
	began := time.Now()
	w.works("well", "well_echo")
	w.tried(2, "broken")
	w.works("well", "well_echo")
	w.works("well", "well_echo")
	if took := time.Since(began); took >= time.Minute {
		t.Errorf("three prompts took %v", took)
	}
	if n := w.starts("broken"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
}

func nothingFailed(t *testing.T, a *app) {
	w := a.project(t)
	w.configure(mcp{"well": w.stdio("well"), "off": with(w.stdio("off"), "enabled", false)})
	began := time.Now()
	for range 3 {
		w.works("well", "well_echo")
	}
	if took := time.Since(began); took >= time.Minute {
		t.Errorf("three prompts took %v", took)
	}
	if well, off := w.starts("well"), w.starts("off"); well != 1 || off != 0 {
		t.Errorf("they were started %d and %d times", well, off)
	}
}

// TestPromptGoesOn: a prompt is held for --hold-prompt at most. The server's try goes on,
// and the next prompt has its tool.
func TestPromptGoesOn(t *testing.T) {
	w := launch(t, setup{policy: append(slices.Clone(patient.policy), "MCP_RECONNECT_HOLD_PROMPT=500ms")}).project(t)
	w.configure(mcp{"hung": with(w.stdio("hung"), "timeout", (2 * patience).Milliseconds()), "well": w.stdio("well")})
	w.mark("hung", "down")
	w.wants("hung", "failed")
	w.unmark("hung", "down")
	w.mark("hung", "hang")
	if got := w.prompt("call well_echo"); slices.Contains(got.offered, "hung_echo") || !strings.Contains(got.said(), "well says hello") {
		t.Errorf("the prompt offered %q, and its call returned %q", got.offered, got.said())
	}
	w.eventually("its try is under way", func() bool { return w.starts("hung") == 2 })
	w.unmark("hung", "hang")
	w.kill("hung") // the try has failed: its request was dropped
	w.eventually("the try is over", func() bool { return w.phase("hung") == "waiting" })
}

// TestFirstPromptOfRun: `opencode run` has no listener, and its first prompt is its last.
func TestFirstPromptOfRun(t *testing.T) {
	a := launch(t, holding)
	w := a.project(t).stdios("once")
	w.mark("once", "once")
	binary := testenv.OpenCode(t, testenv.OpenCodeVersion())
	cmd := exec.CommandContext(a.ctx, "sh", "-c", `eval $(mcp-reconnect env --shell sh) && exec "$0" run --model "$1" "$2"`,
		binary, opencode.ProviderID+"/"+opencode.ModelID, "call once_echo")
	cmd.Dir = w.dir
	cmd.Env = append(append(opencode.Environ(a.mkdir(t, "home"), a.options.ConfigDir), a.environ...), "PWD="+w.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	requests := a.model.Requests()
	if len(requests) == 0 || !slices.Contains(requests[0].Tools, "once_echo") {
		t.Fatalf("the first request is not right: %+v", requests)
	}
	if said := strings.Join(a.model.Said(), "\n"); !strings.Contains(said, "once says hello") {
		t.Errorf("the tool returned %q", said)
	}
}
