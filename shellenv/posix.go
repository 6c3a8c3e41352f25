package shellenv

import "strings"

// posix writes for sh and its kin: dash, bash, zsh, ksh93, mksh, busybox.
//
// Only single quotes keep everything as it is (POSIX.1-2024, XCU 2.2.2); inside
// double quotes a backslash and a newline vanish together. Each statement ends in a
// semicolon, since an unquoted eval joins the lines with blanks, and there is no
// comment, which would then swallow the rest.
var posix = statements(
	func(name, value string) (string, error) {
		return "export " + name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "';\n", nil
	},
	func(name string) string {
		return "unset " + name + ";\n"
	},
)

const posixHint = `eval "$(%s)"`
