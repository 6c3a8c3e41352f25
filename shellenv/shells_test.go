package shellenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

// realShells are the shells that run here, each with its syntax.
var realShells = []struct {
	name    string
	program []string
	syntax  string
	refused func(value string) bool
}{
	{"dash", []string{"dash"}, "sh", nothing},
	{"busybox", []string{"busybox", "sh"}, "sh", nothing},
	{"bash", []string{"bash"}, "bash", nothing},
	{"bash as sh", []string{"bash", "--posix"}, "sh", nothing},
	{"zsh", []string{"zsh", "-f"}, "zsh", nothing},
	{"ksh93", []string{"ksh93"}, "ksh", nothing},
	{"mksh", []string{"mksh"}, "ksh", nothing},
	{"fish", []string{"fish", "--no-config"}, "fish", nothing},
	{"elvish", []string{"elvish", "-norc"}, "elvish", nothing},
	{"nu", []string{"nu", "--no-config-file"}, "nu", nothing},
	{"tcsh", []string{"tcsh", "-f"}, "tcsh", func(value string) bool { return strings.Contains(value, "\n") }},
}

// command returns the program to run, with nushell's from npm.
func command(t *testing.T, program []string) []string {
	t.Helper()
	if program[0] == "nu" {
		return append([]string{testenv.Nushell(t)}, program[1:]...)
	}
	return program
}

func TestShellsKeepEveryValue(t *testing.T) {
	for _, shell := range realShells {
		t.Run(shell.name, func(t *testing.T) {
			syntax := mustShell(t, shell.syntax)
			sent := number(carried(t, syntax, nastyValues(), shell.refused))
			s := session{
				shell:  command(t, shell.program),
				syntax: syntax,
				text:   encode(t, syntax, sent),
				script: syntax.Hint("mcp-reconnect env") + "\nprintenv0",
			}
			compare(t, s.run(t), sent)
		})
	}
}

// prepare is JSON as the command passes it to Encode.
func prepare(s Syntax, doc string) string {
	if s.Verbatim {
		return doc
	}
	return SafeJSON(doc)
}

func TestShellsKeepConfigurations(t *testing.T) {
	const quoted, unquoted = `eval "$(mcp-reconnect env --shell %)"`, `eval $(mcp-reconnect env --shell %)`
	tests := []struct {
		program []string
		syntax  string
		forms   []string // % is the syntax's name
		setups  []string
	}{
		{[]string{"dash"}, "sh", []string{quoted, unquoted}, []string{"", "set -eu"}},
		{[]string{"busybox", "sh"}, "sh", []string{quoted, unquoted}, []string{"", "set -eu"}},
		{[]string{"bash"}, "bash", []string{quoted, unquoted}, []string{
			"", "set -eu", "set -o history; set -H", "set -o posix",
			"shopt -s nullglob", "shopt -s failglob",
			"set -eu; shopt -s extglob dotglob globstar nocaseglob nullglob",
			"set -eu; shopt -s extglob dotglob globstar nocaseglob failglob",
		}},
		{[]string{"zsh", "-f"}, "zsh", []string{quoted, unquoted}, []string{
			"", "set -eu", "setopt sh_word_split", "setopt glob_subst", "setopt null_glob glob_subst",
			"setopt sh_word_split glob_subst extended_glob brace_ccl magic_equal_subst",
			"setopt sh_word_split glob_subst csh_null_glob ksh_glob", "emulate sh", "emulate ksh", "emulate csh",
		}},
		{[]string{"ksh93"}, "ksh", []string{quoted, unquoted}, []string{"", "set -eu", "set -o globstar -o braceexpand"}},
		{[]string{"mksh"}, "ksh", []string{quoted, unquoted}, []string{"", "set -eu", "set -o braceexpand"}},
		{[]string{"fish", "--no-config"}, "fish", []string{"mcp-reconnect env --shell % | source", "eval (mcp-reconnect env --shell %)"}, []string{""}},
		{[]string{"elvish", "-norc"}, "elvish", []string{"eval (mcp-reconnect env --shell % | slurp)"}, []string{""}},
		{[]string{"nu", "--no-config-file"}, "nu", []string{"mcp-reconnect env --shell % | from json | load-env"}, []string{""}},
		{[]string{"tcsh", "-f"}, "tcsh", []string{"eval \"`mcp-reconnect env --shell %`\"", "set noglob; eval `mcp-reconnect env --shell %`; unset noglob"},
			[]string{"", "set backslash_quote", "set histlit; set nonomatch"}},
	}
	configs := configurations(t)
	dir := directoryOfMatches(t, configs)
	for _, test := range tests {
		t.Run(test.program[0], func(t *testing.T) {
			syntax := mustShell(t, test.syntax)
			prepared := make([]string, len(configs))
			for i, config := range configs {
				prepared[i] = prepare(syntax, config)
			}
			sent := number(prepared)
			text := encode(t, syntax, sent)
			for _, setup := range test.setups {
				for _, form := range test.forms {
					s := session{
						shell:  command(t, test.program),
						syntax: syntax,
						text:   text,
						script: setup + "\n" + strings.ReplaceAll(form, "%", syntax.Name) + "\nprintenv0",
						dir:    dir,
					}
					t.Run(setup+" "+form, func(t *testing.T) { compare(t, s.run(t), sent) })
				}
			}
		})
	}
}

// directoryOfMatches returns a directory whose files match what a glob might make of
// the words of the documents: of one character, of few, as they stand, and as they are
// once a pattern's backslashes are gone.
func directoryOfMatches(t *testing.T, docs []string) string {
	t.Helper()
	dir := t.TempDir()
	names := []string{"a", "1", "x.md", "a.md", ".hidden", "ls", "git", "AGENTS.md", "V0='{", "}';"}
	for _, doc := range docs {
		for word := range strings.FieldsSeq(SafeJSON(doc)) {
			names = append(names, word, strings.ReplaceAll(word, `\`, ""))
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if len(name) > 100 || strings.Contains(name, "/") {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFishEvalKeepsEveryValue(t *testing.T) {
	syntax := mustShell(t, "fish")
	sent := number(nastyValues())
	s := session{
		shell:  []string{"fish", "--no-config"},
		syntax: syntax,
		text:   encode(t, syntax, sent),
		script: "eval (mcp-reconnect env --shell fish)\nprintenv0",
	}
	compare(t, s.run(t), sent)
}

// A value as it is passes quoted evaluation, whatever the locale.
func TestShellsKeepTextInTheCLocale(t *testing.T) {
	for _, shell := range realShells {
		t.Run(shell.name, func(t *testing.T) {
			syntax := mustShell(t, shell.syntax)
			sent := number([]string{"é ü 日本 😀", "a'b\\c"})
			s := session{
				shell:  command(t, shell.program),
				syntax: syntax,
				text:   encode(t, syntax, sent),
				script: syntax.Hint("mcp-reconnect env") + "\nprintenv0",
				env:    []string{"LC_ALL=C"},
			}
			compare(t, s.run(t), sent)
		})
	}
}

// What was set is gone afterwards, what was not set is no error, and what is set in
// the same text is set.
func TestShellsUnset(t *testing.T) {
	setups := map[string]string{"sh": "set -eu\n", "bash": "set -eu\n", "zsh": "set -eu\n", "ksh": "set -eu\n"}
	for _, shell := range realShells {
		t.Run(shell.name, func(t *testing.T) {
			syntax := mustShell(t, shell.syntax)
			value, empty := "after", ""
			sent := Env{"V1": nil, "V2": nil, "V3": &value, "V4": &empty}
			s := session{
				shell:  command(t, shell.program),
				syntax: syntax,
				text:   encode(t, syntax, sent),
				script: setups[syntax.Name] + syntax.Hint("mcp-reconnect env") + "\nprintenv0",
				env:    []string{"V1=before", "V3=before", "V4=before"},
			}
			compare(t, s.run(t), sent)
		})
	}
}

func TestFishUnsetsInEveryScopeAndSucceeds(t *testing.T) {
	syntax := mustShell(t, "fish")
	s := session{
		shell:  []string{"fish"},
		syntax: syntax,
		text:   encode(t, syntax, Env{"V1": nil, "V2": nil}),
		script: `set -Ux V1 universal
set -gx V1 global
function f
    set -lx V1 local
    mcp-reconnect env --shell fish | source
    or echo failed >&2
    printenv0
end
f`,
	}
	compare(t, s.run(t), Env{"V1": nil, "V2": nil})
}

func TestFishSetsGloballyInAFunction(t *testing.T) {
	syntax := mustShell(t, "fish")
	value := "set"
	sent := Env{"V1": &value}
	s := session{
		shell:  []string{"fish", "--no-config"},
		syntax: syntax,
		text:   encode(t, syntax, sent),
		script: "function f\n    mcp-reconnect env --shell fish | source\nend\nf\nprintenv0",
	}
	compare(t, s.run(t), sent)
}

// A command that fails prints nothing on standard output. Then its own message is all that
// a person sees, and nothing is set; but elvish adds an exception that names the command.
func TestHintsAddNoErrorOfTheirOwn(t *testing.T) {
	for _, shell := range realShells {
		t.Run(shell.name, func(t *testing.T) {
			syntax := mustShell(t, shell.syntax)
			program := command(t, shell.program)
			run := exec.Command(testenv.Program(t, program[0]),
				append(program[1:len(program):len(program)], "-c", syntax.Hint("mcp-reconnect env"))...)
			run.Env = environment(t.TempDir(), "STUB_ARGS=env --shell "+syntax.Name, "STUB_TEXT=/nowhere")
			var out, errs bytes.Buffer
			run.Stdout, run.Stderr = &out, &errs
			_ = run.Run() // some shells pass the failure on, some do not
			first, rest, _ := strings.Cut(errs.String(), "\n")
			if !strings.HasPrefix(first, "mcp-reconnect: ") || out.Len() > 0 {
				t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
			}
			if shell.syntax == "elvish" {
				if !strings.Contains(rest, "mcp-reconnect exited with 1") {
					t.Errorf("elvish says %q", rest)
				}
			} else if rest != "" {
				t.Errorf("the shell says %q", rest)
			}
		})
	}
}
