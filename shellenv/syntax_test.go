package shellenv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	if diff := cmp.Diff([]string{"sh", "bash", "zsh", "fish", "elvish", "nu", "tcsh", "powershell", "cmd"}, ShellNames()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"json", "dotenv", "null", "github", "systemd", "docker"}, FormatNames()); diff != "" {
		t.Error(diff)
	}
	for _, name := range ShellNames() {
		if s, ok := Shell(name); !ok || s.Name != name {
			t.Errorf("Shell(%q) is %q, %v", name, s.Name, ok)
		}
	}
	for _, name := range FormatNames() {
		if s, ok := Format(name); !ok || s.Name != name {
			t.Errorf("Format(%q) is %q, %v", name, s.Name, ok)
		}
	}
	aliases := map[string]string{
		"ksh": "ksh", "mksh": "ksh", "dash": "sh", "ash": "sh", "busybox": "sh", "csh": "tcsh", "pwsh": "powershell",
	}
	for alias, name := range aliases {
		if s, ok := Shell(alias); !ok || s.Name != name {
			t.Errorf("Shell(%q) is %q, %v; want %q", alias, s.Name, ok, name)
		}
	}
	for _, name := range []string{"", "json", "SH", "auto", "bash "} {
		if s, ok := Shell(name); ok {
			t.Errorf("Shell(%q) is %q", name, s.Name)
		}
	}
	for _, name := range []string{"", "sh", "shell", "JSON"} {
		if s, ok := Format(name); ok {
			t.Errorf("Format(%q) is %q", name, s.Name)
		}
	}
}

func TestVerbatim(t *testing.T) {
	want := map[string]bool{"json": true, "null": true, "nu": true, "github": true, "docker": true}
	for _, s := range all() {
		if s.Verbatim != want[s.Name] {
			t.Errorf("%s: Verbatim is %v", s.Name, s.Verbatim)
		}
	}
}

func all() []Syntax { return append(append([]Syntax(nil), shells...), formats...) }

func TestEveryTextIsSortedAndTheSameEachTime(t *testing.T) {
	value := "x"
	env := Env{}
	for c := 'A'; c <= 'Z'; c++ {
		env[string(c)+"_1"] = &value
	}
	for _, s := range all() {
		text := encode(t, s, env)
		last := -1
		for c := 'A'; c <= 'Z'; c++ {
			at := strings.Index(text, string(c)+"_1")
			if at <= last {
				t.Errorf("%s: %c is not in order", s.Name, c)
			}
			last = at
		}
		if s.Name != "github" && encode(t, s, env) != text {
			t.Errorf("%s: another text the second time", s.Name)
		}
	}
}

// Text of several statements survives an unquoted eval only if nothing in it needs the
// end of a line.
func TestShellStatementsNeedNoLineEnd(t *testing.T) {
	value := "a"
	for _, name := range []string{"sh", "bash", "zsh", "ksh", "fish", "elvish", "tcsh", "powershell"} {
		for line := range strings.Lines(encode(t, mustShell(t, name), Env{"A": &value, "B": nil})) {
			if !strings.HasSuffix(line, ";\n") || strings.Contains(line, "#") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

func TestAnEmptyEnvironment(t *testing.T) {
	for _, s := range all() {
		want := ""
		if s.Name == "json" || s.Name == "nu" {
			want = "{}\n"
		}
		if got := encode(t, s, nil); got != want {
			t.Errorf("%s: %q", s.Name, got)
		}
	}
}

// What no variable can have, no syntax writes; and an error never shows a value.
func TestRefusals(t *testing.T) {
	const secret = "s3cr3t"
	tests := []struct{ name, value string }{
		{"A", secret + "\x00" + secret},
		{"A", secret + "\xff" + secret},
		{"A", "\xed\xa0\x80" + secret}, // a surrogate in UTF-8
		{"", secret}, {"a", secret}, {"1A", secret}, {"A-B", secret}, {"A B", secret}, {"A=B", secret}, {"É", secret}, {"A\n", secret},
	}
	for _, s := range all() {
		for _, test := range tests {
			text, err := s.Encode(Env{test.name: &test.value})
			if err == nil || text != "" {
				t.Errorf("%s: %q is not refused", s.Name, test.name)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the value is in the error: %v", s.Name, err)
			}
		}
		if _, err := s.Encode(Env{"a b": nil}); err == nil {
			t.Errorf("%s: the name of an unset variable is not refused", s.Name)
		}
		for _, value := range nastyValues() {
			value = secret + value + secret
			if _, err := s.Encode(Env{"A": &value}); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the value is in the error: %v", s.Name, err)
			}
		}
	}
}

func TestRefusalsSayWhatIsInTheWay(t *testing.T) {
	tests := []struct{ syntax, value, want string }{
		{"docker", "a\nb", "the docker format cannot carry A: its value holds a line feed"},
		{"docker", "a\rb", "the docker format cannot carry A: its value holds a carriage return"},
		{"docker", strings.Repeat("x", 70000), "the docker format cannot carry A: its line would have 70003 bytes, and docker reads 65536"},
		{"tcsh", "a\nb", "the tcsh format cannot carry A: its value holds a line feed"},
		{"cmd", "a%b", "the cmd format cannot carry A: its value holds the character %"},
		{"cmd", "é", "the cmd format cannot carry A: its value holds the character U+00E9"},
		{"systemd", "$a", "the systemd format cannot carry A: its value holds the character $"},
		{"systemd", "a\nb", "the systemd format cannot carry A: its value holds a line feed"},
		{"systemd", "\x1b", "the systemd format cannot carry A: its value holds the character U+001B"},
		{"github", "a\r", "the github format cannot carry A: its value ends in a carriage return"},
		{"dotenv", `a\`, "the dotenv format cannot carry A: its value ends in a backslash"},
		{"dotenv", `it's $x`, "the dotenv format cannot carry A: its value holds a single quote or a line feed together with the character $"},
		{"sh", "\x00", "A cannot be a variable: its value holds a NUL character"},
		{"sh", "\xff", "A cannot be written as text: its value is not valid UTF-8"},
	}
	for _, test := range tests {
		s, ok := Shell(test.syntax)
		if !ok {
			s = mustFormat(t, test.syntax)
		}
		if _, err := s.Encode(Env{"A": &test.value}); fmt.Sprint(err) != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

func TestHints(t *testing.T) {
	want := map[string]string{
		"sh":         `eval "$(mcp-reconnect env --shell sh)"`,
		"bash":       `eval "$(mcp-reconnect env --shell bash)"`,
		"zsh":        `eval "$(mcp-reconnect env --shell zsh)"`,
		"ksh":        `eval "$(mcp-reconnect env --shell ksh)"`,
		"fish":       `mcp-reconnect env --shell fish | source`,
		"elvish":     `eval (mcp-reconnect env --shell elvish | slurp)`,
		"nu":         `mcp-reconnect env --shell nu | from json | load-env`,
		"tcsh":       "eval \"`mcp-reconnect env --shell tcsh`\"",
		"powershell": `mcp-reconnect env --shell powershell | Invoke-Expression`,
		"cmd":        `for /f "delims=" %i in ('mcp-reconnect env --shell cmd') do @%i`,
	}
	for _, s := range all() {
		if got := s.Hint("mcp-reconnect env"); got != want[s.Name] {
			t.Errorf("%s: got %s, want %s", s.Name, got, want[s.Name])
		}
	}
}
