package command

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// completeCommand is the hidden command by which the scripts of completers ask what
// may stand at the cursor: the shell's name, and what that shell's answer takes.
//
// The answer's first line says what it is: "words", of which each further line holds
// one as the shell takes it; or "files", "dirs" or "command", which is for the shell
// to complete. There is no answer where nothing is known, and never an error: people
// are in the midst of a line.
//
// It reads no configuration and starts without cli, since people wait for it.
const completeCommand = "__complete"

func complete(args []string, s System) int {
	if len(args) == 0 {
		return 0
	}
	if c := findCompleter(args[0]); c != nil {
		_ = s.print(c.answer(args[1:], subcommands(s, nil)))
	}
	return 0
}

// A candidate is a word that may stand at the cursor.
type candidate struct {
	word        string
	description string // a line for people, or ""
}

// candidates returns words without descriptions.
func candidates(words []string) []candidate {
	var list []candidate
	for _, word := range words {
		list = append(list, candidate{word, ""})
	}
	return list
}

// A completion is what may stand at the cursor.
type completion struct {
	kind  string // the answer's first line, or "" where nothing is known
	words []candidate
}

// completionOf completes the last of the words that stand behind the program's name.
// The candidates are not yet those alone that begin as the word does: some shells
// match by more than that.
func completionOf(words []string, commands []subcommand) completion {
	if len(words) == 0 {
		return completion{}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	help := candidate{"help", "show the help of a command"}
	var names []candidate
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, candidate{c.Name, c.Usage})
		}
	}
	switch {
	case len(before) == 0 && strings.HasPrefix(word, "-"):
		return ofWords(ofFlag(cli.HelpFlag), ofFlag(cli.VersionFlag))
	case len(before) == 0:
		return ofWords(append(names, help)...)
	case len(before) == 1 && before[0] == help.word:
		return ofWords(names...)
	}
	for _, c := range commands {
		if c.Name == before[0] {
			return c.completion(before, word)
		}
	}
	return completion{}
}

// completion completes a word behind others, of which the first is the command's name.
func (c subcommand) completion(before []string, word string) completion {
	if own, _ := splitChild(append([]string{""}, before...)); len(own) <= len(before) {
		return completion{kind: "command"}
	}
	p := parse(before[1:], c.Flags)
	flag := !p.ended && strings.HasPrefix(word, "-")
	name, _, assigned := strings.Cut(word, "=")
	switch {
	case p.pending != nil:
		p.set(c.Flags) // --data-dir, say, decides what there is
		return p.pending.completion("", word)
	case flag && assigned:
		if f := findFlag(c.Flags, word); f != nil {
			p.set(c.Flags)
			return f.completion(name+"=", word)
		}
		return completion{}
	case c.arguments == nil && (p.ended || len(p.arguments) > 0):
		return completion{} // an error already
	case c.arguments != nil && !flag:
		p.set(c.Flags)
		var words []candidate
		for _, argument := range c.arguments(p.arguments) {
			if p.ended || !strings.HasPrefix(argument.word, "-") { // which would be a flag
				words = append(words, argument)
			}
		}
		return ofWords(words...)
	}
	var words []candidate
	for _, f := range c.Flags {
		words = append(words, ofFlag(f))
	}
	words = append(words, ofFlag(cli.HelpFlag))
	if c.Name == "run" {
		words = append(words, candidate{"--", "the command to run stands behind it"})
	}
	return ofWords(words...)
}

// completion completes a flag's value, which may stand behind "--flag=".
func (f *flagText) completion(prefix, word string) completion {
	choices := f.choices
	if f.known != nil {
		choices = f.known()
	}
	switch {
	case f.value == "FILE":
		return completion{kind: "files"}
	case f.value == "DIR" && !slices.ContainsFunc(choices, func(c string) bool { return strings.HasPrefix(prefix+c, word) }):
		return completion{kind: "dirs"}
	case f.value == "": // on or off
		choices = []string{"true", "false"}
	}
	var words []candidate
	for _, choice := range choices {
		words = append(words, candidate{prefix + choice, ""})
	}
	return ofWords(words...)
}

// ofFlag is the candidate for a flag, described as in help.
func ofFlag(f cli.Flag) candidate {
	_, usage, _ := strings.Cut(f.String(), "\t")
	return candidate{"--" + f.Names()[0], usage}
}

// ofWords completes words, without those that no line of an answer can hold, and that
// a terminal should not be shown.
func ofWords(words ...candidate) completion {
	c := completion{kind: "words"}
	for _, w := range words {
		if w.word != "" && utf8.ValidString(w.word) && !strings.ContainsFunc(w.word, unicode.IsControl) {
			c.words = append(c.words, w)
		}
	}
	if len(c.words) == 0 {
		return completion{}
	}
	return c
}

// beginning returns the completion with those candidates alone that begin so.
func (c completion) beginning(prefix string) completion {
	var words []candidate
	for _, w := range c.words {
		if strings.HasPrefix(w.word, prefix) {
			words = append(words, w)
		}
	}
	return completion{c.kind, words}
}

// print writes an answer; line writes one candidate for the shell.
func (c completion) print(line func(candidate) string) string {
	if c.kind == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(c.kind + "\n")
	for _, w := range c.words {
		b.WriteString(line(w) + "\n")
	}
	return b.String()
}

// described writes a candidate and, behind the separator, what describes it.
func described(word, separator, description string) string {
	if description == "" {
		return word
	}
	return word + separator + description
}

var zshEscapes = strings.NewReplacer(`\`, `\\`, `:`, `\:`)

// answerZsh takes the words, and writes candidates as _describe reads them. zsh
// matches them, as the user has set it up to do, and quotes them.
func answerZsh(words []string, commands []subcommand) string {
	return completionOf(words, commands).print(func(c candidate) string {
		return described(zshEscapes.Replace(c.word), ":", c.description)
	})
}

// answerFish takes the words. fish matches, by parts of words too, and quotes.
func answerFish(words []string, commands []subcommand) string {
	return completionOf(words, commands).print(func(c candidate) string {
		return described(c.word, "\t", c.description)
	})
}

// powershellQuotes doubles every quote that ends a string: PowerShell takes four more
// characters for it (about_Quoting_Rules).
var powershellQuotes = strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019",
	"\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b")

// answerPowerShell takes the words. PowerShell inserts what it is given.
func answerPowerShell(words []string, commands []subcommand) string {
	if len(words) == 0 {
		return ""
	}
	return completionOf(words, commands).beginning(words[len(words)-1]).print(func(c candidate) string {
		word := c.word
		if strings.Trim(word, plainCharacters) != "" {
			word = "'" + powershellQuotes.Replace(word) + "'"
		}
		return described(word, "\t", c.description)
	})
}

// plainCharacters need no quotes in any shell, wherever they stand in a word.
const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+:"
