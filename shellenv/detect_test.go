package shellenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

func TestDetect(t *testing.T) {
	tests := []struct {
		candidates []string
		want       string
	}{
		{nil, "sh"},
		{[]string{"", "go", "node", "make", "/usr/bin/sudo", "login", "tmux: server"}, "sh"},
		{[]string{"bash"}, "bash"},
		{[]string{"-bash"}, "bash"},
		{[]string{"/opt/homebrew/bin/fish"}, "fish"},
		{[]string{"-/bin/zsh"}, "zsh"},
		{[]string{`C:\Windows\System32\WindowsPowerShell\v1.0\PowerShell.EXE`}, "powershell"},
		{[]string{"pwsh.exe"}, "powershell"},
		{[]string{"pwsh-preview"}, "powershell"},
		{[]string{`C:\WINDOWS\system32\cmd.exe`}, "cmd"},
		{[]string{"C:/Program Files/Git/usr/bin/bash.exe"}, "bash"},
		{[]string{"dash"}, "sh"},
		{[]string{"busybox"}, "sh"},
		{[]string{"mksh"}, "ksh"},
		{[]string{"ksh93"}, "ksh"},
		{[]string{"-csh"}, "tcsh"},
		{[]string{"rbash"}, "bash"},
		{[]string{"elvish"}, "elvish"},
		{[]string{"nu"}, "nu"},
		// The nearest wins: the parent before $SHELL (field reports E11).
		{[]string{"fish", "/bin/zsh"}, "fish"},
		{[]string{"go", "make", "sh", "zsh"}, "sh"},
		{[]string{"code", "/bin/zsh"}, "zsh"},
		// Not shells, though their names are near.
		{[]string{"bashful", "fish-agent", "sshd", "json", "shellenv.test", "nushell-lsp"}, "sh"},
	}
	for _, test := range tests {
		if got := Detect(test.candidates...); got != test.want {
			t.Errorf("Detect(%q) is %s, want %s", test.candidates, got, test.want)
		}
	}
	if runtime.GOOS != "windows" {
		if got := Detect("/home/x/project/cmd", "/bin/zsh"); got != "zsh" {
			t.Errorf("a program named cmd is taken for %s", got)
		}
	}
}

func TestDetectGivesNamesThatShellTakes(t *testing.T) {
	for program := range processNames {
		if s, ok := Shell(Detect(program)); !ok || s.Name != Detect(program) || s.Name == "sh" {
			t.Errorf("%s gives %s", program, Detect(program))
		}
	}
}

func TestAncestorsNameTheShell(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		testenv.Skip(t, "the ancestors of a process are not looked for in a real shell on %s", runtime.GOOS)
	}
	for _, shell := range realShells {
		t.Run(shell.name, func(t *testing.T) {
			program := command(t, shell.program)
			run := exec.Command(testenv.Program(t, program[0]), append(program[1:len(program):len(program)], "-c", "ancestors; echo")...)
			run.Env = environment(t.TempDir())
			out, err := run.Output()
			if err != nil {
				t.Fatal(err)
			}
			names := strings.Split(strings.TrimSpace(string(out)), "\n")
			if got, want := Detect(names...), mustShell(t, shell.syntax).Name; got != want && !(shell.name == "bash as sh" && got == "bash") {
				t.Errorf("detected %s, want %s, from %q", got, want, names)
			}
			if len(names) < 2 || len(names) > 8 {
				t.Errorf("%d ancestors: %q", len(names), names)
			}
		})
	}
}

// A script is run by its shell, whatever the script is named.
func TestAncestorsNameTheShellOfAScript(t *testing.T) {
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "only Linux tells a script's name from its shell's")
	}
	script := filepath.Join(t.TempDir(), "launch (x) y")
	text := "#!" + testenv.Program(t, "zsh") + " -f\nancestors; true\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(script)
	run.Env = environment(t.TempDir())
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	if names := strings.Split(string(out), "\n"); Detect(names...) != "zsh" {
		t.Errorf("detected %s from %q", Detect(names...), names)
	}
}

// BenchmarkAncestors: it is in the way of every command (field report E13 asks for
// less than 50 ms).
func BenchmarkAncestors(b *testing.B) {
	for b.Loop() {
		Ancestors()
	}
}
