package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// result is what running the program came to.
type result struct {
	status         int
	stdout, stderr string
}

// system is a System in which nothing is a terminal and the variables are the given ones.
func system(stdin string, environ ...string) System {
	return System{Stdin: strings.NewReader(stdin), StdoutWidth: func() int { return 0 }, Environ: environ}
}

func run(s System, args ...string) result {
	var stdout, stderr bytes.Buffer
	s.Stdout, s.Stderr = &stdout, &stderr
	status := Main(append([]string{"mcp-reconnect"}, args...), s)
	return result{status, stdout.String(), stderr.String()}
}

// TestConfigurationIsNeverRepeated breaks a configuration that is full of secrets
// in every way, at every place where one may be given, and looks for them in what
// people are told.
func TestConfigurationIsNeverRepeated(t *testing.T) {
	const secret = "sk-5ecret"
	broken := []string{
		`{"` + secret + `":`, `{"a":"` + secret, `{"a":` + secret + `}`, `{"a":"x" ` + secret + `}`, `["` + secret + `"]`, `"` + secret + `"`,
		`{'` + secret + `':1}`, `{"a":"` + secret + "\n\"}", `{"a":"` + secret + `\x"}`, "{\"" + secret + "\xff\":1}", secret,
		`{"plugin":"` + secret + `"}`, `{"plugin":{"` + secret + `":1}}`, `{/* ` + secret, `{"` + secret + `":1}}` + secret,
		`{"a":"` + secret + strings.Repeat("x", 140_000) + `"}`,
		`{"a":"{env:` + secret + `%!&}"}`, // which cmd cannot carry
	}
	data := t.TempDir()
	for _, content := range broken {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, try := range map[string]func(args ...string) result{
			"--config-content": func(args ...string) result {
				return run(system(""), append(args, "--config-content", content)...)
			},
			"--config-file": func(args ...string) result {
				return run(system(""), append(args, "--config-file", file)...)
			},
			"standard input": func(args ...string) result {
				return run(system(content), append(args, "--config-file", "-")...)
			},
			"the variable": func(args ...string) result {
				return run(system("", "OPENCODE_CONFIG_CONTENT="+content), args...)
			},
			"our variable": func(args ...string) result {
				return run(system("", "MCP_RECONNECT_CONFIG_CONTENT="+content), args...)
			},
		} {
			got := try("env", "--shell", "cmd", "--data-dir", data)
			if got.status != 1 || got.stdout != "" || strings.Contains(got.stderr, secret) {
				t.Errorf("%.40q by %s: status %d, standard output %.100q, standard error %q", content, name, got.status, got.stdout, got.stderr)
			}
		}
		for _, format := range []string{"text", "json", "github"} { // which reports findings as its result
			got := run(system(content, "PATH="), "check", "--config-file", "-", "--data-dir", data, "--format", format)
			if got.status != 1 || got.stderr != "" || strings.Contains(got.stdout, secret) {
				t.Errorf("check of %.40q: status %d, standard output %q, standard error %q", content, got.status, got.stdout, got.stderr)
			}
		}
		if !strings.ContainsAny(content, "{[") || !strings.Contains(content, `"`) {
			continue // a single word is named where a command or a flag is expected
		}
		if len(content) < 100_000 { // as a command, too
			got := run(system("", "PATH=/usr/bin:/bin", "MCP_RECONNECT_DATA_DIR="+data), "run", "--", content)
			if got.status != 127 || got.stdout != "" || strings.Contains(got.stderr, secret) {
				t.Errorf("run -- %.40q: %+v", content, got)
			}
		}
		// By mistake it may also stand where something else belongs.
		for _, args := range [][]string{
			{content}, {"env", content}, {"env", "--" + content}, {"run", content}, {"--" + content}, {"render", content},
			{"env", "--data-dir", "--" + content}, {"env", "--data-dir", content}, {"env", "--config-file", content}, {"env", "--output", content},
			{"env", "--shell", content}, {"env", "--format", content}, {"env", "--entry", content}, {"env", "--max-delay", content},
			{"env", "--only", content}, {"env", "--unset=" + content}, {"run", "--concurrency", content, "--", "true"},
			{"status", content}, {"status", "--format", content}, {"status", "--watch=" + content}, {"retry", content}, {"retry", "--wait", content},
			{"retry", "--directory", content}, {"pause", content}, {"resume", "--data-dir", content}, {"completion", content},
			{"check", content}, {"check", "--format", content}, {"check", "--opencode", content}, {"check", "--config-file", content}, {"check", "--strict=" + content},
		} {
			if got := run(system(""), args...); got.status != 2 || got.stdout != "" || strings.Contains(got.stderr, secret) {
				t.Errorf("%.40q: status %d, standard output %.100q, standard error %q", args, got.status, got.stdout, got.stderr)
			}
		}
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 0 {
		t.Errorf("refused, and yet on disk: %v, %v", entries, err)
	}
}

func TestHintsAreForTerminals(t *testing.T) {
	data := t.TempDir()
	for _, tt := range []struct {
		name     string
		terminal func(*System)
		args     []string
		want     string // in standard error; "" is nothing at all
	}{
		{"evaluated, as in a start-up file", func(s *System) { s.StderrTerminal = true }, nil, ""},
		{"looked at", func(s *System) { s.StderrTerminal, s.StdoutTerminal = true, true }, nil,
			"mcp-reconnect: hint: to set it in this shell: eval \"$(mcp-reconnect env --shell bash)\"\n"},
		{"looked at, with flags", func(s *System) { s.StderrTerminal, s.StdoutTerminal = true, true }, []string{"--entry", "dir"},
			"mcp-reconnect: hint: to set it in this shell, with the same flags: eval \"$(mcp-reconnect env … --shell bash)\"\n"},
		{"for OpenCode 2", func(s *System) {
			s.StderrTerminal = true
			s.Environ = append(s.Environ, `OPENCODE_CONFIG_CONTENT={"plugins":["a"]}`)
		}, nil, `mcp-reconnect: hint: the configuration is for OpenCode 2, and so is the entry, in "plugins"; with "plugin": [] in it, OpenCode 1 reads it, too` + "\n"},
		{"changed, seen by nobody", func(*System) {}, []string{"--max-attempts", "3"}, ""},
		{"changed", func(s *System) { s.StderrTerminal = true }, []string{"--max-attempts", "4"},
			"mcp-reconnect: hint: the plugin has changed; an OpenCode that is running keeps the old one until it is restarted\n"},
	} {
		s := system("", "MCP_RECONNECT_DATA_DIR="+data)
		tt.terminal(&s)
		got := run(s, append([]string{"env", "--shell", "bash"}, tt.args...)...)
		if got.status != 0 || got.stderr != tt.want {
			t.Errorf("%s: status %d, standard error %q, want %q", tt.name, got.status, got.stderr, tt.want)
		}
		if !strings.HasPrefix(got.stdout, "export ") || strings.Count(got.stdout, "\n") != 1 {
			t.Errorf("%s: standard output %q", tt.name, got.stdout)
		}
	}
}

// TestHintForOpenCode2: only where somebody reads it, and only a program that is named, or
// that run is to start and would leave the work to a background service.
func TestHintForOpenCode2(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	defer func(d time.Duration) { hintPatience = d }(hintPatience)
	hintPatience = time.Minute // or a program that is slow to start gets no hint
	const hint = "mcp-reconnect: hint: support of OpenCode 2.0.26 is experimental; a background service that runs already does not see the variable: " +
		"use opencode --standalone or opencode serve, or restart the service\n"
	two := script("two", `echo asked >>"$ASKED"; printf '\033[1mopencode v2.0.26\033[0m\n'`)
	for _, tt := range []struct {
		name     string
		program  string
		terminal bool
		asked    bool
		want     string
	}{
		{"plain env", "", true, false, ""},
		{"2", two, true, true, hint},
		{"2, seen by nobody", two, false, false, ""},
		{"1", script("one", `echo asked >>"$ASKED"; echo 1.18.33`), true, true, ""},
		{"a development build", script("dev", `echo asked >>"$ASKED"; echo 0.0.0-next-15123`), true, true, ""},
		{"failing", script("failing", `echo asked >>"$ASKED"; echo no >&2; exit 3`), true, true, ""},
		{"not there", filepath.Join(dir, "nowhere"), true, false, ""},
	} {
		asked := filepath.Join(t.TempDir(), "asked")
		s := system("", "MCP_RECONNECT_DATA_DIR="+t.TempDir(), "PATH="+os.Getenv("PATH"), "ASKED="+asked)
		s.StderrTerminal = tt.terminal
		args := []string{"env", "--shell", "bash"}
		if tt.program != "" {
			args = append(args, "--opencode", tt.program)
		}
		got := run(s, args...)
		if got.status != 0 || got.stderr != tt.want || !strings.HasPrefix(got.stdout, "export ") {
			t.Errorf("%s: %+v, want standard error %q", tt.name, got, tt.want)
		}
		if _, err := os.Stat(asked); (err == nil) != tt.asked {
			t.Errorf("%s: asked: %v", tt.name, err)
		}
	}

	// Nobody waits for one that does not answer.
	hintPatience = 10 * time.Millisecond
	s := system("", "MCP_RECONNECT_DATA_DIR="+t.TempDir(), "PATH="+os.Getenv("PATH"))
	s.StderrTerminal = true
	if got := run(s, "env", "--shell", "bash", "--opencode", script("slow", "exec sleep 1000")); got.status != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "export ") {
		t.Errorf("slow: %+v", got)
	}

	for command, want := range map[string]string{
		"opencode": "opencode", "/usr/bin/opencode": "/usr/bin/opencode", "OpenCode.EXE run x": "OpenCode.EXE", "opencode.cmd": "opencode.cmd",
		"opencode serve --port 1": "", "opencode --standalone": "", "opencode2": "", "sh -c opencode": "", "opencode.sh": "",
	} {
		if got := asksForVersion("", strings.Fields(command)); got != want {
			t.Errorf("run -- %s asks %q, want %q", command, got, want)
		}
		if got := asksForVersion("named", strings.Fields(command)); got != "named" {
			t.Errorf("run --opencode named -- %s asks %q", command, got)
		}
	}
}

func TestTheVariableIsReplacedNotAppended(t *testing.T) {
	environ := []string{"A=1", "OPENCODE_CONFIG_CONTENT=x", "B=2", "OPENCODE_CONFIG_CONTENT=y", "OPENCODE_CONFIG_CONTENT_X=z"}
	got := strings.Join(withContent(environ, "new"), " ")
	if want := "A=1 B=2 OPENCODE_CONFIG_CONTENT_X=z OPENCODE_CONFIG_CONTENT=new"; got != want {
		t.Errorf("%s", got)
	}
	if got := strings.Join(withContent(environ, ""), " "); got != "A=1 B=2 OPENCODE_CONFIG_CONTENT_X=z" {
		t.Errorf("unset: %s", got)
	}
}

func TestEveryCommandsHelpGoesToStandardOutput(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"env", "--help"}, {"run", "--help"}, {"render", "-h"}, {"--version"},
		{"check", "--help"}, {"status", "--help"}, {"retry", "--help"}, {"pause", "--help"}, {"resume", "--help"}, {"completion", "--help"}} {
		if got := run(system(""), args...); got.status != 0 || got.stdout == "" || got.stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
