package shellenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// programs is a directory with the test binary under the names that it acts by.
var programs string

// TestMain lets the shells under test run the test binary itself: as printenv0, which
// prints its environment, as mcp-reconnect, which prints the text under test, and as
// ancestors.
func TestMain(m *testing.M) {
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "printenv0":
		for _, entry := range os.Environ() {
			fmt.Print(entry, "\x00")
		}
		return
	case "ancestors":
		fmt.Println(strings.Join(Ancestors(), "\n"))
		return
	case "mcp-reconnect":
		if got, want := strings.Join(os.Args[1:], " "), os.Getenv("STUB_ARGS"); got != want {
			fmt.Fprintf(os.Stderr, "mcp-reconnect: the arguments are %q, not %q\n", got, want)
			os.Exit(1)
		}
		text, err := os.ReadFile(os.Getenv("STUB_TEXT"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "mcp-reconnect:", err)
			os.Exit(1)
		}
		os.Stdout.Write(text)
		return
	}
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "shellenv-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		if err := linkPrograms(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func linkPrograms() error {
	self, err := os.Executable()
	if err != nil || runtime.GOOS == "windows" { // where the shells under test are not
		return err
	}
	for _, name := range []string{"printenv0", "mcp-reconnect", "ancestors"} {
		if err := os.Symlink(self, filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	return nil
}

// session is one run of a real shell, which evaluates text and then shows the
// environment of a command that it starts.
type session struct {
	shell  []string // the program and its arguments; the script's path is added
	syntax Syntax
	text   string   // what mcp-reconnect prints
	script string   // must run printenv0 at its end
	dir    string   // the working directory; an empty one if ""
	env    []string // added to a minimal environment
}

// run returns the variables of ours that the command got. Whatever the shell says on
// standard error is a failure.
func (s session) run(t *testing.T) map[string]string {
	t.Helper()
	home := t.TempDir()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	text := filepath.Join(home, "text")
	script := filepath.Join(home, "script")
	if err := os.WriteFile(text, []byte(s.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(s.script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	command := exec.Command(testenv.Program(t, s.shell[0]), append(s.shell[1:len(s.shell):len(s.shell)], script)...)
	command.Dir = s.dir
	command.Stdout, command.Stderr = &out, &errs
	command.Env = append(environment(home, "STUB_TEXT="+text, "STUB_ARGS=env --shell "+s.syntax.Name), s.env...)
	if err := command.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%v: %v: %.1000s", s.shell, err, errs.String())
	}
	return ours(out.String())
}

// environment is a minimal one, in which the test binary can be run under its names. The
// last two keep it from waiting a second, if built with -race, and from complaining, if
// built with -cover.
func environment(home string, more ...string) []string {
	return append([]string{
		"PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "TERM=dumb", "LC_ALL=C.UTF-8",
		"GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + home,
	}, more...)
}

var ourName = regexp.MustCompile(`^(V[0-9]+|OPENCODE_CONFIG_CONTENT)$`)

// ours picks the variables of the tests out of an environment as env -0 prints it.
func ours(environ string) map[string]string {
	got := map[string]string{}
	for entry := range strings.SplitSeq(environ, "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok && ourName.MatchString(name) {
			got[name] = value
		}
	}
	return got
}

// number gives the values names, V0 and so on.
func number(values []string) Env {
	env := Env{}
	for i := range values {
		env[fmt.Sprintf("V%d", i)] = &values[i]
	}
	return env
}

// compare reports what arrived otherwise than it was sent.
func compare(t *testing.T, got map[string]string, sent Env) {
	t.Helper()
	for name, want := range sent {
		value, ok := got[name]
		switch {
		case want == nil && ok:
			t.Errorf("%s is still set", name)
		case want != nil && !ok:
			t.Errorf("%s is not set; sent %.200q", name, *want)
		case want != nil && value != *want:
			t.Errorf("got %.200q\nsent %.200q", value, *want)
		}
	}
	for name := range got {
		if _, ok := sent[name]; !ok {
			t.Errorf("%s is set out of nowhere", name)
		}
	}
}

func encode(t *testing.T, s Syntax, env Env) string {
	t.Helper()
	text, err := s.Encode(env)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func mustShell(t *testing.T, name string) Syntax {
	t.Helper()
	s, ok := Shell(name)
	if !ok {
		t.Fatalf("no shell %s", name)
	}
	return s
}

func mustFormat(t *testing.T, name string) Syntax {
	t.Helper()
	s, ok := Format(name)
	if !ok {
		t.Fatalf("no format %s", name)
	}
	return s
}

// carried returns the values that the syntax can carry, and checks that it refuses
// exactly those that the test says it must.
func carried(t *testing.T, s Syntax, values []string, refused func(string) bool) []string {
	t.Helper()
	var kept []string
	for _, value := range values {
		_, err := s.Encode(Env{"V": &value})
		if must := refused(value); must != (err != nil) {
			t.Errorf("%s: value %.200q: refused %v, must be %v", s.Name, value, err, must)
		}
		if err == nil {
			kept = append(kept, value)
		}
	}
	return kept
}

func nothing(string) bool { return false }
