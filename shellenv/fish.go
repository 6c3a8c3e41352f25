package shellenv

import "strings"

// fishQuote escapes what is special inside fish's single quotes: the backslash and
// the quote. A newline stands outside the quotes as an escape, for eval (…) gets
// the text split into lines and joins them with blanks.
var fishQuote = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `'\n'`)

// fish writes for fish, to be read by source or by eval (…).
//
// The variable is global whatever function evaluates it. To unset it, it is erased
// in every scope that has it, as a universal one would show through otherwise; the
// loop succeeds if there is none, and ends if fish will not let go of one.
var fish = statements(
	func(name, value string) (string, error) {
		return "set -gx " + name + " '" + fishQuote.Replace(value) + "';\n", nil
	},
	func(name string) string {
		return "while set -q " + name + "; set -e " + name + "; or break; end;\n"
	},
)

const fishHint = `%s | source`
