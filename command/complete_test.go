package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

// hostileNames are names of MCP servers that a shell could take for something else.
// Each begins with a prefix of its own.
var hostileNames = []string{
	"n0", "n1 with  blanks ", "n2'quote", `n3"quotes"`, "n4$(touch ran)", "n5`touch ran`", "n6;touch ran", "n7:a:b", `n8\back\\slash\`,
	"n9=x=y", "na$HOME", "nb~", "nc*?[a]", "nd{a,b}", "ne!!x!", "nf#x", "ng&touch ran", "nh|x>ran", "ni(x)<y", "njé日本", "nk‘’“”", "nl%s\\n", "nm^x", "nn@{x}", "no,x",
	`np"!"'x'$y`, "nq --all",
}

// fakeCommand is a command whose arguments are names of servers.
func fakeCommand() subcommand {
	return subcommand{
		Command: &cli.Command{Name: "fake", Usage: "take names: of servers", Flags: flagsOf([]*flagText{
			{name: "format", value: "NAME", choices: []string{"text", "json"}}, {name: "all"}})},
		arguments: func(given []string) []candidate {
			list := []candidate{{"", "nothing"}, {"-n", "a flag"}, {"nz\x1b[31m", ""}, {"nz\nx", ""}, {"nz\xff", ""}, {"nz\tx", ""}}
			for _, name := range hostileNames {
				if !slices.Contains(given, name) {
					list = append(list, candidate{name, "a server: failed"})
				}
			}
			return list
		},
	}
}

func testCommands() []subcommand { return append(subcommands(system(""), nil), fakeCommand()) }

// words returns the words of an answer, or its kind in brackets.
func words(answer string) []string {
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	if lines[0] != "words" {
		return []string{"[" + lines[0] + "]"}
	}
	for n, line := range lines {
		lines[n], _, _ = strings.Cut(line, "\t")
	}
	return lines[1:]
}

func TestWhatIsCompletedWhere(t *testing.T) {
	nothing := []string{"[]"}
	for _, tt := range []struct {
		typed string // words between bars, of which the last one is at the cursor
		want  []string
	}{
		{"c", []string{"check", "completion"}},
		{"--", []string{"--help", "--version"}},
		{"help|r", []string{"run", "render", "retry", "resume"}},
		{"help|run|", nothing},
		{"zork|", nothing},
		{"--version|", nothing},
		{"env|--shell|p", []string{"powershell"}},
		{"env|--shell=p", []string{"--shell=powershell"}},
		{"env|-shell=p", []string{"-shell=powershell"}},
		{"env|--shell|zsh|--format|d", []string{"dotenv", "docker"}},
		{"env|--shell=zsh|--format|d", []string{"dotenv", "docker"}},
		{"env|--entry|", []string{"dir", "file"}},
		{"env|--unset=", []string{"--unset=true", "--unset=false"}},
		{"env|--unset|--ent", []string{"--entry"}},
		{"env|--data-dir|", []string{"[dirs]"}},
		{"env|--data-dir=x", []string{"[dirs]"}},
		{"env|--output|-", []string{"[files]"}},
		{"env|--config-file=", []string{"[files]"}},
		{"env|--config-content|", nothing},
		{"env|--config-content={", nothing},
		{"env|--zork=", nothing},
		{"env|--max-delay|", nothing},
		{"env|stray|--shell|f", []string{"fish"}}, // whatever is wrong before, a flag's value is one
		{"env|stray|--s", nothing},
		{"env|--|--s", nothing},
		{"run|--", slices.Concat(flagNames(runCommand(System{}, nil)), []string{"--help", "--"})},
		{"run|--log|w", []string{"warn"}},
		{"run|--|", []string{"[command]"}},
		{"run|--unset|--|env|--shell|", []string{"[command]"}},
		{"run|opencode|", nothing},
		{"completion|", []string{"bash", "zsh", "fish", "powershell"}},
		{"completion|z", []string{"zsh"}},
		{"completion|zsh|", nothing},
		{"completion|--", []string{"--help"}},
		{"fake|", hostileNames},
		{"fake|n1", []string{"n1 with  blanks "}},
		{"fake|n0|n0", nothing},
		{"fake|n0|--format|", []string{"text", "json"}},
		{"fake|n0|--format=j", []string{"--format=json"}},
		{"fake|n0|-", []string{"--format", "--all", "--help"}},
		{"fake|--|-", []string{"-n"}},
	} {
		typed := strings.Split(tt.typed, "|")
		c := completionOf(typed, testCommands()).beginning(typed[len(typed)-1])
		if c.kind == "words" && len(c.words) == 0 {
			c.kind = ""
		}
		got := words(c.print(func(c candidate) string { return c.word }))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.typed, diff)
		}
	}
}

func flagNames(c *cli.Command) []string {
	var names []string
	for _, f := range c.Flags {
		names = append(names, "--"+f.Names()[0])
	}
	return names
}

// What the help names is offered, and what is offered for a flag is what it takes.
func TestCompletionKnowsWhatTheProgramKnows(t *testing.T) {
	s := system("", "MCP_RECONNECT_DATA_DIR="+t.TempDir())
	answer := func(args ...string) []string {
		t.Helper()
		got := run(s, append([]string{completeCommand, "fish"}, args...)...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
		return words(got.stdout)
	}
	for _, c := range subcommands(s, nil) {
		if offered := answer(""); !slices.Contains(offered, c.Name) {
			t.Errorf("%s is not offered, but %q", c.Name, offered)
		}
		if help := run(s, "--help").stdout; !strings.Contains(help, "\n   "+c.Name) {
			t.Errorf("help does not name %s", c.Name)
		}
		offered := answer(c.Name, "-")
		for line := range strings.SplitSeq(run(s, c.Name, "--help").stdout, "\n") {
			name, ok := strings.CutPrefix(line, "   --")
			if !ok {
				continue
			}
			if name = strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == ',' })[0]; !slices.Contains(offered, "--"+name) {
				t.Errorf("%s: --%s is not offered, but %q", c.Name, name, offered)
			}
		}
		for _, f := range c.Flags {
			f := f.(*flagText)
			if f.value != "NAME" && f.value != "KIND" {
				continue
			}
			args := []string{c.Name, "--" + f.name, "zork"}
			if c.Name == "run" {
				args = append(args, "--", "false") // never reached
			}
			refused := run(s, args...)
			_, list, _ := strings.Cut(strings.Split(refused.stderr, "\n")[0], ": \"zork\" is none of ")
			if refused.status != 2 || list == "" {
				t.Errorf("%s --%s zork: %+v", c.Name, f.name, refused)
			}
			taken := strings.Split(list, ", ")
			if diff := cmp.Diff(taken, answer(c.Name, "--"+f.name, "")); diff != "" {
				t.Errorf("%s --%s: %s", c.Name, f.name, diff)
			}
			for n := range taken {
				taken[n] = "--" + f.name + "=" + taken[n]
			}
			if diff := cmp.Diff(taken, answer(c.Name, "--"+f.name+"=")); diff != "" {
				t.Errorf("%s --%s=: %s", c.Name, f.name, diff)
			}
		}
	}
}

// Whatever is asked, and of whatever environment, nothing goes wrong aloud.
func TestCompletionIsQuiet(t *testing.T) {
	s := system("", "OPENCODE_CONFIG_CONTENT={broken", "MCP_RECONNECT_SHELL=zork", "MCP_RECONNECT_CONCURRENCY=x")
	for _, args := range [][]string{
		{}, {"zork"}, {"bash"}, {"bash", ""}, {"bash", "", ""}, {"bash", "mcp-reconnect", ""}, {"bash", "mcp-reconnect x y", "zork"}, {"bash", "a b c", "c", "d"},
		{"bash", "mcp-reconnect '", ""}, {"bash", `mcp-reconnect \`, ""}, {"bash", "mcp-reconnect <", ""}, {"bash", "<", ""},
		{"zsh"}, {"zsh", "zork", ""}, {"fish"}, {"fish", "zork", ""}, {"powershell"}, {"powershell", "zork", ""}, {"fish", "env", "--=x"}, {"fish", "env", "-="},
		{"fish", "env", "---shell"}, {"fish", "run", "--shell", "--", ""},
	} {
		got := run(s, append([]string{completeCommand}, args...)...)
		if got.status != 0 || got.stderr != "" || strings.Contains(got.stdout, "broken") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestFlagsBehindArgumentsAreHonoured(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"", "--"},
		{"a b", "-- a b"},
		{"a --all", "--all -- a"},
		{"a --format json b", "--format json -- a b"},
		{"a --format=json b", "--format=json -- a b"},
		{"a -format json", "-format json -- a"},
		{"--all a --zork", "--all --zork -- a"},
		{"a --help", "--help"}, // which takes a for a topic
		{"a -- --all --", "-- a --all --"},
		{"-- a --all", "-- a --all"},
		{"a - b", "-- a - b"},
		{"a --format --all", "--format --all -- a"}, // which checkArguments refuses
		{"a --format", "--format"},                  // which lacks its value, rather than taking a for it
	} {
		if got := strings.Join(flagsFirst(strings.Fields(tt.typed), fakeCommand().Flags), " "); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.typed, got, tt.want)
		}
	}
}

func TestBashLines(t *testing.T) {
	for _, tt := range []struct {
		line  string
		words []string
		last  string
		quote string
	}{
		{"m", []string{"m"}, "m", ""},
		{"m  a ", []string{"m", "a", ""}, "", ""},
		{`m 'a b' "c \"d" e\ f`, []string{"m", "a b", `c "d`, "e f"}, `e\ f`, ""},
		{`m 'a\`, []string{"m", `a\`}, `'a\`, "'"},
		{`m "a\b$(c`, []string{"m", `a\b$(c`}, `"a\b$(c`, `"`},
		{`m $'a\'b`, []string{"m", "a'b"}, `$'a\'b`, "$'"},
		{`m '' "" `, []string{"m", "", "", ""}, "", ""},
		{`m a\`, []string{"m", "a"}, `a\`, ""},
		{"m 2>x >&2 <y a", []string{"m", "a"}, "a", ""},
		{"m a>x b", []string{"m", "a", "b"}, "b", ""},
	} {
		got := readBash(tt.line)
		if diff := cmp.Diff(tt.words, got.words); diff != "" || got.last != tt.last || got.quote != tt.quote || got.redirection {
			t.Errorf("%s: %+v%s", tt.line, got, diff)
		}
	}
	for _, line := range []string{"m >", "m > x", "m 2>>x", "m <'a b", "m a >&"} {
		if !readBash(line).redirection {
			t.Errorf("%s is no redirection", line)
		}
	}
}

func TestQuotesForBashAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é]*`).Draw(t, "text")
		open := rapid.SampledFrom([]string{"", "'", `"`, "$'"}).Draw(t, "open quote")
		quoted := quoteBash(text, open)
		line := "m " + open + quoted
		if open != "" && !strings.HasSuffix(quoted, open[len(open)-1:]) { // as bash does
			line += open[len(open)-1:]
		}
		got := readBash(line)
		if len(got.words) != 2 || got.words[1] != text || got.quote != "" {
			t.Fatalf("%q after %s became %s, which reads %+v", text, open, quoted, got)
		}
	})
}

// PowerShell cannot be had where the tests run: this is what its rules say
// (about_Quoting_Rules).
func TestPowerShellQuotes(t *testing.T) {
	for prefix, want := range map[string]string{
		"n0": "n0\ta server: failed",
		"n1": "'n1 with  blanks '\ta server: failed",
		"n2": "'n2''quote'\ta server: failed",
		"n4": "'n4$(touch ran)'\ta server: failed",
		"n7": "n7:a:b\ta server: failed",
		"nk": "'nk‘‘’’“”'\ta server: failed",
	} {
		if got := answerPowerShell([]string{"fake", prefix}, testCommands()); got != "words\n"+want+"\n" {
			t.Errorf("%s: %q", prefix, got)
		}
	}
}
