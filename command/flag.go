package command

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// A flagText is a flag whose value is taken as text, on the command line or from
// its variable, and knows where it came from. cli's own flags forget that, and
// print a variable's value in errors; they also cost a third of a short run.
type flagText struct {
	name     string
	usage    string
	value    string   // what stands for the value in help, e.g. DIR; "" for a flag that is on or off
	choices  []string // the values, where they can be listed
	initial  string   // the default, in help
	category string
	known    func() []string // for completion: values that there are now, among others

	given []string // on the command line
}

var _ interface {
	cli.Flag
	cli.VisibleFlag
	cli.CategorizableFlag
	flag.Value
} = (*flagText)(nil)

// String is the flag's line in help, as cli aligns it; it also satisfies flag.Value.
func (f *flagText) String() string {
	line := "--" + f.name
	if f.value != "" {
		line += " " + f.value
	}
	line += "\t" + f.usage
	if len(f.choices) > 0 {
		line += "; " + strings.Join(f.choices, ", ")
	}
	if f.initial != "" {
		line += " (default: " + f.initial + ")"
	}
	return line
}

func (f *flagText) Apply(set *flag.FlagSet) error {
	set.Var(f, f.name, f.usage)
	return nil
}

func (f *flagText) Set(value string) error {
	f.given = append(f.given, value)
	return nil
}

func (f *flagText) Names() []string     { return []string{f.name} }
func (f *flagText) IsSet() bool         { return len(f.given) > 0 }
func (f *flagText) IsBoolFlag() bool    { return f.value == "" }
func (f *flagText) IsVisible() bool     { return true }
func (f *flagText) GetCategory() string { return f.category }

// variable returns the name of the variable that stands for the flag.
func (f *flagText) variable() string {
	return "MCP_RECONNECT_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
}

// A setting is a flag's value and where it was given: "--data-dir", or the
// variable that stands for it. The zero setting is a flag that was not given.
type setting struct{ value, source string }

func (g setting) ok() bool { return g.source != "" }

// problem is the usage error that says where the value came from.
func (g setting) problem(format string, args ...any) error {
	return usagef("%s: "+format, append([]any{g.source}, args...)...)
}

// setting returns what was given on the command line, where of several the last
// counts, or else in the variable, where an empty one counts as unset.
func (f *flagText) setting(s System) setting {
	if f.IsSet() {
		return setting{f.given[len(f.given)-1], "--" + f.name}
	}
	return f.fromVariable(s)
}

// settings returns all that was given on the command line.
func (f *flagText) settings() []setting {
	var all []setting
	for _, value := range f.given {
		all = append(all, setting{value, "--" + f.name})
	}
	return all
}

func (f *flagText) fromVariable(s System) setting {
	if value := s.getenv(f.variable()); value != "" {
		return setting{value, f.variable()}
	}
	return setting{}
}

// choice returns which of the choices was given, or the initial one.
func (f *flagText) choice(s System) (string, error) {
	g := f.setting(s)
	switch {
	case !g.ok():
		return f.initial, nil
	case !slices.Contains(f.choices, g.value):
		return "", f.noneOf(g)
	}
	return g.value, nil
}

// noneOf is the usage error for a value that is not among the choices.
func (f *flagText) noneOf(g setting) error {
	return g.problem("%q is none of %s", g.value, strings.Join(f.choices, ", "))
}

// named returns the setting of a flag that names something, which cannot be nothing.
func (f *flagText) named(s System) (setting, error) {
	g := f.setting(s)
	if g.ok() && g.value == "" {
		return g, g.problem("the name is empty")
	}
	return g, nil
}

// list returns the items of a flag that takes several, and where they were given. What is
// given holds at least one, and no item is empty.
func (f *flagText) list(s System) (items []string, source setting, err error) {
	given := f.settings()
	if variable := f.fromVariable(s); len(given) == 0 && variable.ok() {
		given = []setting{variable}
	}
	for _, source = range given {
		for item := range strings.SplitSeq(source.value, ",") {
			if item = strings.TrimSpace(item); item == "" {
				return nil, source, source.problem("it names nothing, or nothing beside a comma")
			}
			items = append(items, item)
		}
	}
	return items, source, nil
}

// on returns whether a flag that is on or off is on.
func (f *flagText) on(s System) (bool, error) {
	g := f.setting(s)
	if !g.ok() {
		return false, nil
	}
	on, err := strconv.ParseBool(g.value)
	if err != nil {
		return false, g.problem("%q is neither true nor false", g.value)
	}
	return on, nil
}

// flagsOf puts flags into a list as cli wants it.
func flagsOf(lists ...[]*flagText) []cli.Flag {
	var flags []cli.Flag
	for _, list := range lists {
		for _, f := range list {
			flags = append(flags, f)
		}
	}
	return flags
}

// parsed is a command's line, read as Go's flag package reads one but for flags
// behind arguments, at which that package stops.
type parsed struct {
	flags     []string  // the flags, each followed by its value if that is a word of its own
	arguments []string  // the other words
	pending   *flagText // the flag whose value should have followed the last word
	ended     bool      // by --, behind which there are only arguments
}

func parse(words []string, flags []cli.Flag) parsed {
	var p parsed
	for _, word := range words {
		switch {
		case p.pending != nil:
			p.flags = append(p.flags, word)
			p.pending = nil
		case p.ended || len(word) < 2 || word[0] != '-':
			p.arguments = append(p.arguments, word)
		case word == "--":
			p.ended = true
		default:
			p.flags = append(p.flags, word)
			if f := findFlag(flags, word); f != nil && f.value != "" && !strings.Contains(word, "=") {
				p.pending = f
			}
		}
	}
	return p
}

// set gives the flags their values, as cli does.
func (p parsed) set(flags []cli.Flag) {
	var valueless *flagText
	for _, word := range p.flags {
		f := findFlag(flags, word)
		_, value, assigned := strings.Cut(word, "=")
		switch {
		case valueless != nil:
			valueless.Set(word)
			valueless = nil
		case f == nil:
		case assigned:
			f.Set(value)
		case f.value == "":
			f.Set("true")
		default:
			valueless = f
		}
	}
}

// findFlag returns the flag that a word such as --shell or --shell=fish gives.
func findFlag(flags []cli.Flag, word string) *flagText {
	name, _, _ := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
	for _, f := range flags {
		if f, ok := f.(*flagText); ok && f.name == name {
			return f
		}
	}
	return nil
}

// flagsFirst moves flags before arguments: cli would take those behind the first
// argument for arguments, too.
func flagsFirst(words []string, flags []cli.Flag) []string {
	p := parse(words, flags)
	if p.pending != nil || slices.Contains(p.flags, "--help") || slices.Contains(p.flags, "-h") {
		return p.flags // an argument would become the missing value, or a topic of the help
	}
	return append(append(p.flags, "--"), p.arguments...)
}

// checkArguments refuses what cli lets pass: arguments where there are none to
// give, behind which it would ignore flags, and a flag that was taken for the
// value of the one before it.
func checkArguments(c *cli.Context, s System, takesArguments bool) error {
	for _, f := range c.Command.Flags {
		f, ok := f.(*flagText)
		if !ok {
			continue // --help
		}
		for _, value := range f.given {
			if strings.HasPrefix(value, "--") {
				return usagef("--%s needs a value, and is followed by the flag%s", f.name, ifPlain(value))
			}
		}
		if f.name == "config-content" {
			continue
		}
		for _, g := range append([]setting{f.fromVariable(s)}, f.settings()...) {
			if err := checkNotContent(g); err != nil {
				return err
			}
		}
	}
	switch {
	case c.NArg() == 0 || takesArguments:
		return nil
	case c.Command.Name == "run":
		return usagef("the command to run stands behind --, as in: mcp-reconnect run -- opencode")
	}
	word := ifPlain(c.Args().First())
	if word == "" {
		word = " one"
	}
	return usagef("%s takes no arguments, and got%s", c.Command.Name, word)
}

// checkNotContent refuses a configuration where something else belongs, before a
// message about it would repeat it.
func checkNotContent(g setting) error {
	if strings.ContainsAny(g.value, `"'`) && strings.ContainsAny(g.value, "{[") || strings.ContainsAny(g.value, "\n\r") {
		return g.problem("the value looks like a configuration, and not like a name; env, run and check take one by --config-content")
	}
	return nil
}

// onUsageError puts what Go's flag package says into this program's words.
func onUsageError(_ *cli.Context, err error, _ bool) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return usagef("unknown flag%s", ifPlain("--"+strings.TrimPrefix(name, "-")))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return usagef("--%s needs a value", strings.TrimPrefix(name, "-"))
	}
	return usagef("the command line cannot be read")
}

// ifPlain returns the quoted word after a space, if it is one that may be repeated:
// no text that could be a part of a configuration.
func ifPlain(word string) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if word == "" || len(word) > 32 || strings.Trim(word, allowed) != "" {
		return ""
	}
	return fmt.Sprintf(" %q", word)
}
