//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
)

// persistent is slow without giving up, and polls: no old OpenCode tells of a
// server's death, and a test should not wait for the default poll-interval.
func persistent(version string) setup {
	return setup{version: version, policy: []string{
		"MCP_RECONNECT_INITIAL_DELAY=3s",
		"MCP_RECONNECT_MAX_DELAY=3s",
		"MCP_RECONNECT_JITTER=0",
		"MCP_RECONNECT_MAX_ATTEMPTS=1000",
		"MCP_RECONNECT_POLL_INTERVAL=1s",
	}}
}

// TestVersions runs what every OpenCode can do in every OpenCode that the README
// speaks of, and what depends on the version as its table says. The asserted
// status is the one that a client of the server sees: from 1.14.48 to 1.17.0 that
// is another instance than the client of a plugin gets.
func TestVersions(t *testing.T) {
	if os.Getenv(testenv.Matrix) == "" {
		testenv.Skip(t, "%s is not set", testenv.Matrix)
	}
	for _, tt := range []struct {
		version string
		killed  func(*testing.T, *app)
		// 1.1.65 calls a server that waits for a sign-in failed ("No OAuth state saved").
		signIn bool
		// Up to 1.1.34 the next copy of the plugin is told of a disposal, in 1.3.2
		// none is: there a try that is due makes the instance anew (rule 7).
		disposal bool
		// Up to 1.1.10 plugins are not told where the server listens.
		unnamed bool
		// The event stream of 1.0.142 does not answer before there is an event, which is
		// too late for watch.
		silent bool
	}{
		{version: "1.0.142", killed: killedNoticedAtPrompt, signIn: true, unnamed: true, silent: true},
		{version: "1.1.65", killed: killedNoticedAtPrompt, disposal: true},
		{version: "1.2.27", killed: killedNoticedAtPrompt, signIn: true, disposal: true},
		{version: "1.3.2", killed: killedNoticedAtPrompt, signIn: true},
		{version: "1.14.41", killed: killedUnnoticed, signIn: true, disposal: true},
		{version: "1.15.13", killed: killedUnnoticed, signIn: true, disposal: true},
		{version: "1.17.0", killed: killedUnnoticed, signIn: true, disposal: true},
		{version: "1.17.19", killed: killedNoticed, signIn: true, disposal: true},
		{version: "1.18.33", killed: killedNoticed, signIn: true, disposal: true},
	} {
		t.Run(tt.version, func(t *testing.T) {
			scenarios := []scenario{
				{"late", late},
				{"late remote", func(t *testing.T, a *app) { remotes(t, a, tt.signIn) }},
				{"switched off", switchedOff},
				{"killed", tt.killed},
				{"asked for", askedFor},
				{"first prompt", firstPrompt},
				{"password", func(t *testing.T, _ *app) {
					s := persistent(tt.version)
					s.password = "it's a secret"
					late(t, launch(t, s))
				}},
				{"seen and steered", func(t *testing.T, _ *app) {
					s := patient
					s.version = tt.version
					a := launch(t, s)
					url := a.server.URL
					if tt.unnamed {
						url = ""
					}
					steered(t, a, url)
				}},
				{"installed", func(t *testing.T, _ *app) {
					s := persistent(tt.version)
					s.installs = true
					late(t, launch(t, s))
				}},
				{"directories removed", func(t *testing.T, _ *app) {
					s := patient
					s.version = tt.version
					steeredWithoutDirectories(t, launch(t, s))
				}},
				{"terminal", func(t *testing.T, _ *app) { terminalUI(t, tt.version) }},
			}
			if !tt.silent {
				scenarios = append(scenarios, scenario{"watched from outside", func(t *testing.T, _ *app) {
					s := persistent(tt.version)
					a := launch(t, setup{version: tt.version, policy: []string{"MCP_RECONNECT_UNSET=true"}})
					a.watches(t, s.policy, "--url", a.server.URL).target(watch.Connected)
					late(t, a)
				}})
			}
			if tt.disposal {
				scenarios = append(scenarios, scenario{"disposed", disposed})
			}
			runAll(t, launch(t, persistent(tt.version)), scenarios)
		})
	}
}

// late: a server that cannot start at first, among others that need nothing.
func late(t *testing.T, a *app) {
	var unused []*world
	for range 3 {
		u := a.project(t).stdios("late")
		u.post("/session")
		unused = append(unused, u)
	}
	w := a.project(t)
	w.mark("late", "down")
	w.configure(mcp{
		"late":    w.stdio("late"),
		"healthy": w.stdio("healthy"),
		"off":     with(w.stdio("off"), "enabled", false),
	})
	w.prompt("hello")
	w.eventually("the plugin tries", func() bool { return w.starts("late") >= 3 })
	w.wants("late", "failed")
	w.unmark("late", "down")
	w.connects("late")
	w.prompt("call late_echo")
	if said := strings.Join(w.model.Said(), "\n"); !strings.Contains(said, "late says hello") {
		t.Errorf("the tool returned %q", said)
	}
	w.wants("off", "disabled")
	if healthy, off := w.starts("healthy"), w.starts("off"); healthy != 1 || off != 0 {
		t.Errorf("the healthy server was started %d times, the disabled one %d times", healthy, off)
	}
	for _, u := range unused {
		if n := u.starts("late"); n != 0 {
			t.Errorf("%d processes were started in an unused directory", n)
		}
	}
}

// askedFor: nobody prompts, and a client has read the status; somebody names the directory.
func askedFor(t *testing.T, a *app) {
	w := a.project(t)
	w.mark("late", "down")
	w.configure(mcp{"late": w.stdio("late"), "off": with(w.stdio("off"), "enabled", false)})
	w.post("/session")
	w.wants("late", "failed") // which reads the status
	w.eventually("status tells of the directory", func() bool { return w.line("-") != nil && w.line("-")[3] == "unused" })
	w.unmark("late", "down")
	if out, status := w.reconnect(t, "retry", "--directory", w.dir); status != 0 || !strings.Contains(out, w.dir+"\tlate\tconnected\t") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.wants("late", "connected")
	if n := w.starts("off"); n != 0 {
		t.Errorf("the disabled one was started %d times", n)
	}
}

// remotes: one that is not up yet, beside one that may wait for a sign-in.
func remotes(t *testing.T, a *app, signIn bool) {
	w := a.project(t)
	locked, web := w.remote("locked"), w.remote("web")
	servers := mcp{"web": web.http()}
	if signIn {
		w.mark("locked", "auth")
		locked.serve()
		servers["locked"] = locked.http()
	}
	w.configure(servers)
	w.prompt("hello")
	w.wants("web", "failed")
	asked := locked.requests("")
	web.serve()
	w.connects("web")
	if !signIn {
		return
	}
	w.wants("locked", "needs_auth")
	if n := locked.requests(""); n != asked || n == 0 {
		t.Errorf("the server that waits for a sign-in got %d requests, and then %d", asked, n)
	}
}

func killedNoticed(t *testing.T, a *app) {
	w := a.project(t).stdios("killed", "neighbour")
	w.prompt("hello")
	w.recovers("killed")
	if n := w.starts("neighbour"); n != 1 {
		t.Errorf("the neighbour was started %d times", n)
	}
}

// killedNoticedAtPrompt: OpenCode finds out when it asks for the tools.
func killedNoticedAtPrompt(t *testing.T, a *app) {
	w := a.project(t).stdios("killed", "neighbour")
	w.prompt("hello")
	w.kill("killed")
	w.eventually("it is dead", func() bool { return w.ended("killed") })
	w.wants("killed", "connected")
	w.prompt("hello again")
	w.eventually("it is connected by a new process", func() bool {
		return w.starts("killed") == 2 && w.state("killed") == "connected"
	})
	if n := w.starts("neighbour"); n != 1 {
		t.Errorf("the neighbour was started %d times", n)
	}
}

// killedUnnoticed: OpenCode calls a dead server connected, and it is left alone until a
// call has proven that it is dead (rule 20).
func killedUnnoticed(t *testing.T, a *app) {
	w := a.project(t).stdios("killed", "late")
	w.mark("late", "down")
	w.prompt("hello")
	w.kill("killed")
	w.eventually("it is dead", func() bool { return w.ended("killed") })
	w.prompt("hello again")
	w.unmark("late", "down")
	w.connects("late")
	w.wants("killed", "connected")
	if n := w.starts("killed"); n != 1 {
		t.Errorf("it was started %d times before a call", n)
	}
	if said := w.prompt("call killed_echo").said(); said != "Not connected" {
		t.Errorf("a call of a dead server says %q", said)
	}
	w.works("killed", "killed_echo")
	if n := w.starts("killed"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
}
