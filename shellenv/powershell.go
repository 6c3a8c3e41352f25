package shellenv

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// powershell writes for Windows PowerShell 5.1 and PowerShell 7.
//
// The text is ASCII, since 5.1 decodes what a program prints by the console's code
// page. A single-quoted string is literal but for the doubled quote, and U+2018 to
// U+201B count as that quote as well (about_Quoting_Rules; the tokenizer's
// IsSingleQuote): everything outside printable ASCII is therefore spliced in as
// [char] of its UTF-16 units. The cast binds tighter than the +, and a string on
// the left makes the + a concatenation. A statement is one line, as the pipeline
// gives Invoke-Expression one line at a time.
//
// Before PowerShell 7.5, setting a variable to an empty string removes it.
var powershell = statements(
	func(name, value string) (string, error) {
		var b strings.Builder
		for _, r := range value {
			switch {
			case r == '\'':
				b.WriteString("''")
			case r >= ' ' && r <= '~':
				b.WriteRune(r)
			default:
				for _, unit := range utf16.AppendRune(nil, r) {
					fmt.Fprintf(&b, "' + [char]0x%04X + '", unit)
				}
			}
		}
		return "${env:" + name + "} = '" + b.String() + "';\n", nil
	},
	func(name string) string {
		return "Remove-Item Env:" + name + " -ErrorAction SilentlyContinue;\n"
	},
)

// powershellHint pipes, because Invoke-Expression is then not called at all if the
// command fails and prints nothing; given an empty argument it fails by itself.
const powershellHint = `%s | Invoke-Expression`
