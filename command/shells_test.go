//go:build unix

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// interactive are the shells, set up as the README says and as people have them.
var interactive = []struct {
	name, shell   string
	file, startup string // its start-up file, below the home directory
}{
	{"bash", "bash", ".bashrc", `eval "$(mcp-reconnect completion bash)"`},
	{"bash in POSIX mode", "bash", ".bashrc", `set -o posix; set -u; eval "$(mcp-reconnect completion bash)"`},
	{"bash with strange separators", "bash", ".bashrc", `source <(mcp-reconnect completion bash); COMP_WORDBREAKS=$' \t\n"\'><=;|&(:,'; IFS=:; shopt -s failglob`},
	{"zsh", "zsh", ".zshrc", "autoload -Uz compinit; compinit -u; source <(mcp-reconnect completion zsh)"},
	{"zsh with options", "zsh", ".zshrc", "autoload -Uz compinit; compinit -u; setopt sh_word_split ksh_arrays no_nomatch\n" + `eval "$(mcp-reconnect completion zsh)"`},
	{"zsh with fpath", "zsh", ".zshrc", "mkdir ~/f; mcp-reconnect completion zsh >~/f/_mcp-reconnect; fpath=(~/f $fpath); autoload -Uz compinit; compinit -u"},
	{"fish", "fish", "fish/config.fish", "mcp-reconnect completion fish | source"},
}

func TestShellsComplete(t *testing.T) {
	const back = "\x02"                      // the key that goes one character back
	lines := []struct{ typed, want string }{ // what stands behind mcp-reconnect; a tab is the key
		{"en\t", "env"},
		{"env --shell po\t", "env|--shell|powershell"},
		{"env --shell=po\t", "env|--shell=powershell"},
		{"env --shell 'po\t", "env|--shell|powershell"},
		{"env --sh\tfi\t--entry=f\t", "env|--shell|fish|--entry=file"},
		{"env --shell po --unset" + strings.Repeat(back, len(" --unset")) + "\t", "env|--shell|powershell|--unset"},
		{"env --output some\t", "env|--output|some file"},
		{"env --output=some\t", "env|--output=some file"},
		{"env --output 'some\t", "env|--output|some file"},
		{"env --output=sub\\ dir/in\t", "env|--output=sub dir/inner"},
		{"env --output ~/oth\t", "env|--output|HOME/other"},
		{"env --data-dir su\t", "env|--data-dir|sub dir/"},
		{"env --data-dir=su\t", "env|--data-dir=sub dir/"},
		{"env --data-dir some\t", "env|--data-dir|some"},
		{"env --config-content some\t", "env|--config-content|some"},
		{"env --config-content '{\"a\": \"b\"}' --shell po\t", `env|--config-content|{"a": "b"}|--shell|powershell`},
		{"env some\t", "env|some"},
		{"zork some\t", "zork|some"},
		{"env --shell fish >some\t", "env|--shell|fish"},
		{"run -- other-pr\t", "run|--|other-program"},
		{"run --log warn -- other-program some\t", "run|--log|warn|--|other-program|some file"},
		{"run --lo\tw\t--\t other-pr\t", "run|--log|warn|--|other-program"},
		{"fake n0\tn2\t--fo\tj\t", "fake|n0|n2'quote|--format|json"},
		{"fake n2\tn2\t", "fake|n2'quote|n2"}, // it stands there already
		{"fake n7:\t", "fake|n7:a:b"},
		{"fake n7:a:\t", "fake|n7:a:b"},
		{"fake 'n7:a:\t", "fake|n7:a:b"},
		{"fake n7\\:a\t", "fake|n7:a:b"},
		{"fake n9=x\t", "fake|n9=x=y"},
		{"fake n1\\ wi\t", "fake|n1 with  blanks "},
	}
	for _, quote := range []string{"", "'", `"`} {
		for _, name := range hostileNames {
			lines = append(lines, struct{ typed, want string }{"fake " + quote + name[:2] + "\t", "fake|" + name})
		}
	}
	for _, shell := range interactive {
		t.Run(shell.name, func(t *testing.T) {
			lines := lines
			if shell.name != shell.shell { // quotes mean the same, however the shell is set up
				lines = lines[:len(lines)-2*len(hostileNames)]
			}
			term := openTerminal(t, shell.shell, shell.file, shell.startup)
			for _, line := range lines {
				want := strings.ReplaceAll(line.want, "HOME/", term.home+"/")
				// zsh takes the slash away again when the line ends.
				if got := term.enter("mcp-reconnect " + line.typed); got != want && got != strings.TrimSuffix(want, "/") {
					t.Errorf("%q: %s, want %s", line.typed, got, want)
				}
			}
			if got := term.enter("true && A=b mcp-reconnect env --entry f\t"); got != "env|--entry|file" {
				t.Errorf("within a line: %s", got)
			}
			if _, err := os.Stat(filepath.Join(term.dir, "ran")); err == nil {
				t.Error("a name was executed")
			}
		})
	}
}

// A completion of the package bash-completion is asked about the command that run starts.
func TestBashPassesTheCommandOn(t *testing.T) {
	term := openTerminal(t, "bash", ".bashrc", `eval "$(mcp-reconnect completion bash)"; _command_offset() { COMPREPLY=("from-${COMP_WORDS[$1]}"); }`)
	if got := term.enter("mcp-reconnect run --log=warn -- git fr\t"); got != "run|--log=warn|--|git|from-git" {
		t.Error(got)
	}
}

func TestShellsShowDescriptions(t *testing.T) {
	for _, shell := range interactive {
		if shell.shell == "bash" {
			continue // which knows none
		}
		t.Run(shell.name, func(t *testing.T) {
			term := openTerminal(t, shell.shell, shell.file, shell.startup)
			for typed, want := range map[string][]string{
				"":        {"take names: of servers", "install the plugin and print the environment"},
				"env --s": {"write for this shell", "leave these servers alone"},
				"fake n":  {"n7:a:b", "a server: failed"},
			} {
				term.tmux("send-keys", "-l", "mcp-reconnect "+typed+"\t")
				for _, text := range want {
					if !term.shows(text) {
						t.Errorf("%q: the screen does not show %q:\n%s", typed, text, term.screen())
					}
				}
				term.tmux("send-keys", "C-c")
				term.tmux("send-keys", "-l", "clear\n")
				term.enter("mcp-reconnect ready")
			}
		})
	}
}

// A terminal is a real shell that somebody types at, in a directory with some files.
type terminal struct {
	t      *testing.T
	home   string
	dir    string
	record string // the arguments of each mcp-reconnect that was run, by lines
	tmux   func(args ...string) string
}

func openTerminal(t *testing.T, shell, file, startup string) *terminal {
	t.Helper()
	tmux, shell := testenv.Program(t, "tmux"), testenv.Program(t, shell)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	term := &terminal{t: t, home: filepath.Join(root, "home"), dir: filepath.Join(root, "dir"), record: filepath.Join(root, "record")}
	for name, content := range map[string]string{
		"home/" + file: startup + "\n", "home/other": "", "dir/some file": "", "dir/sub dir/inner": "", "bin/other-program": "#!/bin/sh\n",
		"home/fish/generated_completions/none": "", // or fish would read all manual pages, in the background
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(root, "bin", "mcp-reconnect")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(root, "tmux")
	cmd := exec.Command(tmux, "-S", socket, "-f", "/dev/null", "new-session", "-d", "-x", "200", "-y", "50", shell, "-i")
	cmd.Dir = term.dir
	cmd.Env = []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "HOME=" + term.home, "XDG_CONFIG_HOME=" + term.home,
		"XDG_DATA_HOME=" + term.home, "RECORD=" + term.record, "SHELL=/bin/sh", "LC_ALL=C.UTF-8", "TERM=xterm", "GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + root,
		"HISTFILE=", "fish_history="} // which would be written after the end, into a directory that is being removed
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	term.tmux = func(args ...string) string {
		out, err := exec.Command(tmux, append([]string{"-S", socket}, args...)...).Output()
		if err != nil {
			t.Errorf("tmux %s: %v", args[0], err)
		}
		return string(out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", strings.TrimRight(term.screen(), "\n"))
		}
		term.tmux("kill-server")
	})
	term.enter("mcp-reconnect ready")
	return term
}

func (term *terminal) screen() string { return term.tmux("capture-pane", "-p") }

// enter types a line and returns the arguments of the mcp-reconnect that it runs.
func (term *terminal) enter(line string) string {
	term.t.Helper()
	before, _ := os.ReadFile(term.record)
	term.tmux("send-keys", "-l", line)
	term.tmux("send-keys", "Enter")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		after, _ := os.ReadFile(term.record)
		if got := strings.TrimPrefix(string(after), string(before)); strings.HasSuffix(got, "\n") {
			return strings.TrimSuffix(got, "\n")
		}
	}
	term.t.Fatalf("%q runs nothing", line)
	return ""
}

// shows waits until the screen shows a text.
func (term *terminal) shows(text string) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(term.screen(), text) {
			return true
		}
	}
	return false
}
