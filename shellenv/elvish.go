package shellenv

import "strings"

// elvish writes for elvish, whose single quotes keep everything but the quote,
// which is doubled (Elvish's language reference, "Single-quoted string").
var elvish = statements(
	func(name, value string) (string, error) {
		return "set-env " + name + " '" + strings.ReplaceAll(value, "'", "''") + "';\n", nil
	},
	func(name string) string {
		return "unset-env " + name + ";\n"
	},
)

const elvishHint = `eval (%s | slurp)`
