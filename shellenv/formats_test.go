package shellenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// everything is the nasty values that the syntax must carry, and the configurations as
// the command would pass them, under numbered names.
func everything(t *testing.T, s Syntax, refused func(string) bool) Env {
	t.Helper()
	values := carried(t, s, nastyValues(), refused)
	for _, config := range configurations(t) {
		if prepared := prepare(s, config); !refused(prepared) {
			values = append(values, prepared)
		} else if !s.Verbatim {
			t.Errorf("%s refuses a configuration, even from SafeJSON: %.200s", s.Name, prepared)
		}
	}
	return number(values)
}

// emptyForUnset is what formats that cannot unset make of an environment.
func emptyForUnset(env Env) Env {
	sent := Env{}
	for name, value := range env {
		if value == nil {
			value = new(string)
		}
		sent[name] = value
	}
	return sent
}

func dotenvRefuses(value string) bool {
	hard := strings.ContainsAny(value, "'\n")
	return strings.Contains(value, "\r") ||
		hard && strings.ContainsAny(value, `"\$`) ||
		!hard && strings.HasSuffix(value, `\`)
}

func TestNodeReadsDotenv(t *testing.T) {
	node := testenv.Program(t, "node")
	s := mustFormat(t, "dotenv")
	sent := everything(t, s, dotenvRefuses)
	sent["V9999"] = nil
	file := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(file, []byte(encode(t, s, sent)), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(node, "--env-file="+file, "-e",
		`for (const [k, v] of Object.entries(process.env)) process.stdout.write(k + "=" + v + "\0")`)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/x"}
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, ours(string(out)), emptyForUnset(sent))
}

func systemdRefuses(value string) bool {
	return regexp.MustCompile(`[\x00-\x1f\x7f$\x{fdd0}-\x{fdef}\x{ffff}\x{10ffff}]`).MatchString(value)
}

// The generator of environment.d prints what it read, and systemd reads that by the rules
// of EnvironmentFile= (gather_environment_generate in its exec-util.c). It does not set an
// empty variable.
func TestSystemdReadsEnvironmentD(t *testing.T) {
	generator := testenv.Program(t, "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator")
	s := mustFormat(t, "systemd")
	sent := everything(t, s, systemdRefuses)
	sent["V9999"] = nil
	text := encode(t, s, sent)
	for name, value := range sent {
		if value != nil && *value == "" {
			sent[name] = nil
		}
	}
	home := t.TempDir()
	dir := filepath.Join(home, "config", "environment.d")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mcp-reconnect.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(generator)
	command.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config")}
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	for line := range strings.Lines(errs.String()) {
		if !strings.Contains(line, "invalid syntax") { // of an empty one
			t.Error(line)
		}
	}
	got := readEnvironmentFile(t, string(out))
	for name := range got {
		if !ourName.MatchString(name) {
			delete(got, name) // from the system's own environment.d
		}
	}
	compare(t, got, sent)
}

// readEnvironmentFile reads what systemd.exec(5) says of EnvironmentFile=, of values in
// double quotes, where a backslash escapes " \ ` $ and stays before others, or without
// quotes. Nothing is expanded.
func readEnvironmentFile(t *testing.T, text string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for text != "" {
		name, rest, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(rest, `"`) {
			got[name], text, _ = strings.Cut(rest, "\n")
			continue
		}
		var value strings.Builder
		for rest = rest[1:]; rest[0] != '"'; rest = rest[1:] {
			if rest[0] == '\\' && strings.Contains("\"\\`$", rest[1:2]) {
				rest = rest[1:]
			}
			value.WriteByte(rest[0])
		}
		if !strings.HasPrefix(rest, "\"\n") {
			t.Fatalf("no end of line at %.100q", rest)
		}
		got[name] = value.String()
		text = rest[2:]
	}
	return got
}

func TestSystemdUnitsReadTheSame(t *testing.T) {
	s := mustFormat(t, "systemd")
	sent := everything(t, s, systemdRefuses)
	sent["V9999"] = nil
	compare(t, readEnvironmentFile(t, encode(t, s, sent)), emptyForUnset(sent))
}

// readGitHubEnv follows SetEnvFileCommand of actions/runner, FileCommandManager.cs.
func readGitHubEnv(t *testing.T, text string, windows bool) map[string]string {
	t.Helper()
	index := 0
	readLine := func() (line string, newline int, ok bool) {
		if index >= len(text) {
			return "", 0, false
		}
		start := index
		n := strings.IndexByte(text[start:], '\n')
		if n < 0 {
			index = len(text)
			return text[start:], 0, true
		}
		index = start + n + 1
		if windows && n > 0 && text[start+n-1] == '\r' {
			return text[start : start+n-1], 2, true
		}
		return text[start : start+n], 1, true
	}
	got := map[string]string{}
	for {
		line, _, ok := readLine()
		if !ok {
			return got
		}
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		switch {
		case line == "":
		case equals >= 0 && (heredoc < 0 || equals < heredoc):
			got[line[:equals]] = line[equals+1:]
		case heredoc > 0 && heredoc+2 < len(line):
			start, end := index, index
			for {
				next, newline, ok := readLine()
				if !ok {
					t.Fatal("no delimiter")
				}
				if next == line[heredoc+2:] {
					break
				}
				end = index - newline
			}
			got[line[:heredoc]] = text[start:max(start, end)]
		default:
			t.Fatalf("not an environment line: %.100q", line)
		}
	}
}

func githubRefuses(value string) bool { return strings.HasSuffix(value, "\r") }

func TestGitHubReadsItsEnvironmentFile(t *testing.T) {
	s := mustFormat(t, "github")
	sent := everything(t, s, githubRefuses)
	sent["V9999"] = nil
	before, after := "earlier", "later"
	text := "V10000=earlier\n" + encode(t, s, sent) + "V10001<<EOF\nlater\nEOF"
	sent["V10000"], sent["V10001"] = &before, &after
	for _, windows := range []bool{false, true} {
		compare(t, readGitHubEnv(t, text, windows), emptyForUnset(sent))
	}
}

// act, and the runners of Gitea and Forgejo after it, refuse an empty line.
func TestGitHubTextHasNoEmptyLineAround(t *testing.T) {
	s := mustFormat(t, "github")
	value := `{"a":1}`
	text := encode(t, s, Env{"A": &value, "B": nil, "C": &value})
	line := regexp.MustCompile(`^A<<(ghadelimiter_[0-9a-f]{32})\n\{"a":1\}\n(ghadelimiter_[0-9a-f]{32})\nB=\nC<<(ghadelimiter_[0-9a-f]{32})\n\{"a":1\}\n(ghadelimiter_[0-9a-f]{32})\n$`)
	match := line.FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("unexpected text: %q", text)
	}
	if match[1] != match[2] || match[3] != match[4] || match[1] == match[3] {
		t.Errorf("delimiters %q", match[1:])
	}
}

// readDockerEnvFile follows docker/cli, pkg/kvfile.
func readDockerEnvFile(t *testing.T, text string) map[string]string {
	t.Helper()
	got := map[string]string{}
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		line := strings.TrimLeft(scanner.Text(), " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("no value: %.100q", line)
		}
		got[name] = value
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

func dockerRefuses(value string) bool {
	return strings.ContainsAny(value, "\r\n") || len(value) > 60000
}

func TestDockerReadsItsEnvFile(t *testing.T) {
	s := mustFormat(t, "docker")
	sent := everything(t, s, dockerRefuses)
	sent["V9999"] = nil
	compare(t, readDockerEnvFile(t, encode(t, s, sent)), emptyForUnset(sent))
}

func TestDockerLineFitsExactly(t *testing.T) {
	s := mustFormat(t, "docker")
	most := strings.Repeat("x", bufio.MaxScanTokenSize-len("V0=\n"))
	sent := number([]string{most})
	compare(t, readDockerEnvFile(t, encode(t, s, sent)), sent)
	if text, err := s.Encode(number([]string{most + "x"})); err == nil || text != "" {
		t.Errorf("one byte more: %d bytes, %v", len(text), err)
	}
}

func TestJSONReadsBack(t *testing.T) {
	s := mustFormat(t, "json")
	sent := everything(t, s, nothing)
	sent["V9999"] = nil
	text := encode(t, s, sent)
	if !strings.HasSuffix(text, "}\n") || strings.Count(text, "\n") != 1 {
		t.Error("not one line")
	}
	var got Env
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
}

func TestJSONEscapesNothingForHTML(t *testing.T) {
	value := "<a>&\u2028\u2029é\x7f\"\\\b\n"
	got := encode(t, mustFormat(t, "json"), Env{"A": &value, "B": nil})
	want := "{\"A\":\"<a>&\u2028\u2029é\x7f\\\"\\\\\\u0008\\n\",\"B\":null}\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNullReadsBack(t *testing.T) {
	s := mustFormat(t, "null")
	sent := everything(t, s, nothing)
	sent["V9999"] = nil
	text := encode(t, s, sent)
	compare(t, ours(text), emptyForUnset(sent))
	if entries := strings.Split(text, "\x00"); len(entries) != len(sent)+1 || entries[len(sent)] != "" {
		t.Errorf("%d entries for %d variables", len(entries), len(sent))
	}
}

// xargs -0 gets one item a variable, with its newlines (field report C15).
func TestXargsReadsNull(t *testing.T) {
	xargs := testenv.Program(t, "xargs")
	value := " a\n'b' \"c\\\n"
	command := exec.Command(xargs, "-0", "-n1", "printf", "<%s>")
	command.Stdin = strings.NewReader(encode(t, mustFormat(t, "null"), Env{"A": &value}))
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "<A=" + value + ">"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
