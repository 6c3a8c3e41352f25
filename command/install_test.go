package command

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// home returns a home directory, and the variables of somebody who is at home there.
func home(t *testing.T) (dir string, environ []string) {
	t.Helper()
	dir = t.TempDir()
	return dir, []string{"HOME=" + dir, "MCP_RECONNECT_DATA_DIR=" + filepath.Join(dir, "data")}
}

// global writes a global configuration file below a home, and returns its path.
func global(t *testing.T, home, name, text string) string {
	t.Helper()
	path := filepath.Join(home, ".config", "opencode", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantsText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is %q, %v; want %q", path, got, err, want)
	}
}

// TestInstallKeepsAnEditOfSomebodyElse that is made between reading the file and writing it, once or again and again.
func TestInstallKeepsAnEditOfSomebodyElse(t *testing.T) {
	dir, environ := home(t)
	path := global(t, dir, "opencode.json", `{"plugin": ["x"]}`)
	s := system("", environ...)
	o, err := newInstallFlags().options(s)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() ([]edit, error) {
		_, edits, err := o.planInstall()
		return edits, err
	}
	once := sync.OnceFunc(func() { global(t, dir, "opencode.json", `{"plugin": ["theirs"]}`) })
	made, err := o.apply(plan, func() error { once(); return nil })
	if err != nil || len(made) != 1 {
		t.Errorf("%+v, %v", made, err)
	}
	wantsText(t, path, `{"plugin": ["theirs", "`+o.entry.URL+`"]}`)

	more := `{"plugin": ["theirs"]}`
	global(t, dir, "opencode.json", more)
	_, err = o.apply(plan, func() error {
		more += " "
		global(t, dir, "opencode.json", more)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "changed by another program") {
		t.Error(err)
	}
	wantsText(t, path, more)
}

// TestConfigurationFilesAreNeverRepeated: a file that is broken, and a variable that holds a configuration by mistake.
func TestConfigurationFilesAreNeverRepeated(t *testing.T) {
	const secret = "sk-5ecret"
	for _, content := range []string{`{"` + secret + `":`, `{"plugin":"` + secret + `"}`, `{"a":"` + secret + `\x"}`, secret, `["` + secret + `"]`} {
		dir, environ := home(t)
		path := global(t, dir, "opencode.jsonc", content)
		for _, command := range []string{"install", "uninstall"} {
			for _, dry := range []string{"true", "false"} {
				got := run(system("", environ...), command, "--dry-run="+dry)
				if got.status != 1 || got.stdout != "" || strings.Contains(got.stderr, secret) {
					t.Errorf("%s with %q: %+v", command, content, got)
				}
			}
		}
		wantsText(t, path, content)
		if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
			t.Errorf("%q: the plugin was written: %v", content, err)
		}
	}
	for _, value := range []string{`{"a":"` + secret + `"}`, `{"a":"` + secret + strings.Repeat("/x", 10_000) + `"}`, secret + strings.Repeat("x", 10_000)} {
		for _, name := range []string{"OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "MCP_RECONNECT_CONFIG"} {
			dir, environ := home(t)
			s := system("", append(environ, name+"="+value)...)
			s.StderrTerminal = true
			for _, command := range []string{"install", "uninstall", "env"} {
				if got := run(s, command); strings.Contains(got.stdout+got.stderr, secret) {
					if name != "MCP_RECONNECT_CONFIG" || strings.Contains(value, `"`) { // else it is the name of a file
						t.Errorf("%s in %s: %+v", command, dir, got)
					}
				}
			}
		}
	}
}

// TestInstallInTheHomeOfAnother: under sudo, what is written would be root's.
func TestInstallInTheHomeOfAnother(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		testenv.Skip(t, "only root may give a directory away")
	}
	dir, environ := home(t)
	if err := os.Chown(dir, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		by   []string
		want string
	}{
		{[]string{"SUDO_UID=4242", "SUDO_USER=ann"}, " belongs to ann, and this runs as another user"},
		{[]string{"SUDO_UID=4243", "SUDO_USER=bob"}, " belongs to user 4242, and this runs as another user"},
		{[]string{"DOAS_USER=ann"}, " belongs to user 4242, and this runs as another user"},
	} {
		for _, command := range []string{"install", "uninstall"} {
			got := run(system("", append(environ, tt.by...)...), command)
			if got.status != 1 || got.stdout != "" || !strings.Contains(got.stderr, tt.want) || !strings.Contains(got.stderr, "without sudo") {
				t.Errorf("%s with %q: %+v", command, tt.by, got)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v was created, %v", entries, err)
	}
	if got := run(system("", environ...), "install"); got.status != 0 { // root itself, in a container
		t.Errorf("%+v", got)
	}
}

// TestHintsOfASecondOne: at a terminal env and run name a plugin of another data directory, with the command that takes it out.
func TestHintsOfASecondOne(t *testing.T) {
	dir, environ := home(t)
	other := filepath.Join(dir, "an other")
	variable := strings.TrimSuffix(strings.TrimPrefix(run(system("", environ...), "env", "--format", "null", "--data-dir", other).stdout, "OPENCODE_CONFIG_CONTENT="), "\x00")
	hints := func(terminal bool, environ []string, args ...string) string {
		s := system("", environ...)
		s.StderrTerminal = terminal
		got := run(s, args...)
		var lines []string
		for line := range strings.Lines(got.stderr) {
			if strings.Contains(line, "second mcp-reconnect") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	inVariable := "mcp-reconnect: hint: a second mcp-reconnect is named in the variable, and would be loaded as well; to take it out: evaluate what mcp-reconnect env --unset --data-dir " + oneline.Word(other) + " prints\n"
	inFile := "mcp-reconnect: hint: a second mcp-reconnect is named in ~/.config/opencode/opencode.json, and would be loaded as well; to take it out: mcp-reconnect uninstall --data-dir " + oneline.Word(other) + "\n"
	environ = append(environ, "OPENCODE_CONFIG_CONTENT="+variable)
	if got := hints(true, environ, "env"); got != inVariable {
		t.Errorf("with another in the variable: %q", got)
	}
	if got := hints(false, environ, "env"); got != "" {
		t.Errorf("a program is told: %q", got)
	}
	if got := run(system("", environ...), "install", "--data-dir", other); got.status != 0 {
		t.Fatal(got)
	}
	if got := hints(true, environ, "env"); got != inVariable+inFile {
		t.Errorf("with another in both: %q", got)
	}
	environ = environ[:len(environ)-1]
	if got := hints(true, environ, "env"); got != inFile {
		t.Errorf("with another in the file: %q", got)
	}
	if got := hints(true, environ, "env", "--unset"); got != "" {
		t.Errorf("env --unset speaks of it: %q", got)
	}
	if got := hints(true, environ, "env", "--data-dir", other); got != "" {
		t.Errorf("it is called another than itself: %q", got)
	}
	global(t, dir, "opencode.jsonc", `{"plugin":[]}`) // which hides the other list
	if got := hints(true, environ, "env"); got != "" {
		t.Errorf("what OpenCode does not read is spoken of: %q", got)
	}
}

// TestUninstallNamesWhatIsLeft: the variable, and a project's files, are not its to change.
func TestUninstallNamesWhatIsLeft(t *testing.T) {
	dir, environ := home(t)
	t.Chdir(dir)
	content := strings.TrimSuffix(strings.TrimPrefix(run(system("", environ...), "env", "--format", "null").stdout, "OPENCODE_CONFIG_CONTENT="), "\x00")
	if err := os.WriteFile(filepath.Join(dir, "opencode.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := system("", append(environ, "OPENCODE_CONFIG_CONTENT="+content)...)
	s.StderrTerminal = true
	if got := run(s, "install"); got.status != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	got := run(s, "uninstall")
	want := "mcp-reconnect: hint: OPENCODE_CONFIG_CONTENT still names it: evaluate what mcp-reconnect env --unset prints\n" +
		"mcp-reconnect: hint: ~/opencode.json still names it: mcp-reconnect uninstall --config opencode.json takes it out\n"
	want = strings.Replace(want, "--config opencode.json", "--config "+oneline.Word(filepath.Join(dir, "opencode.json")), 1)
	if got.status != 0 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
	if got := run(system("", environ...), "uninstall"); got.stderr != "" {
		t.Errorf("a program is told: %+v", got)
	}
	wantsText(t, filepath.Join(dir, "opencode.json"), content)
}

func TestInstallSaysWhereOpenCode1DoesNotLook(t *testing.T) {
	dir, environ := home(t)
	path := global(t, dir, "opencode.json", `{"plugins": []}`)
	s := system("", environ...)
	s.StderrTerminal = true
	if got := run(s, "install"); got.status != 0 || !strings.Contains(got.stderr, `the configuration is for OpenCode 2`) {
		t.Errorf("%+v", got)
	}
	if got := run(s, "uninstall"); got.status != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	wantsText(t, path, `{"plugins": []}`)
}
