package shellenv

import "strings"

// tcshQuote escapes what is special inside tcsh's single quotes: the quote, and the
// history character, which is expanded even there.
var tcshQuote = strings.NewReplacer(`'`, `'\''`, `!`, `\!`)

// tcsh writes for tcsh and csh.
//
// It is for eval "`…`", in double quotes, which gets each line as a word and joins
// them with blanks: a line feed in a value would arrive as a blank, so it is refused.
// Without the quotes tcsh globs the words first and stops at a lone brace, "Missing
// '}'", whatever is written; only between set noglob and unset noglob that form works
// as well, for text from SafeJSON, which has no two blanks in a row.
var tcsh = statements(
	func(name, value string) (string, error) {
		if err := refuse(value, "\n"); err != nil {
			return "", err
		}
		return "setenv " + name + " '" + tcshQuote.Replace(value) + "';\n", nil
	},
	func(name string) string {
		return "unsetenv " + name + ";\n"
	},
)

const tcshHint = "eval \"`%s`\""
