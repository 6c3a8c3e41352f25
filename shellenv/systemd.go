package shellenv

import (
	"fmt"
	"strings"
)

// systemdQuote escapes what is special inside double quotes there.
var systemdQuote = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// systemd writes a file for EnvironmentFile= of a unit and for environment.d.
//
// Both are read by the same parser (systemd's env-file.c); double quotes mean the same
// to all its versions, while those before 240 read escapes in single quotes as well. But
// environment.d expands $ after that, in any quotes, and knows an escape for it that
// EnvironmentFile= does not: it is refused. So is a control character, with which systemd
// drops the variable (env_value_is_valid); of tab and line feed, which it would keep, the
// generator that reads environment.d makes "\t" and "\n" and the manager leaves them so.
// And so are Unicode's noncharacters, to it invalid UTF-8 (unichar_is_valid).
//
// An unset variable is written as an empty one. From EnvironmentFile= it is set and empty;
// environment.d says "invalid syntax" in the log of an empty one, and sets nothing.
var systemd = statements(
	func(name, value string) (string, error) {
		if err := refuse(value, "\r\n$"); err != nil {
			return "", err
		}
		for _, r := range value {
			if isControl(r) || isNoncharacter(r) {
				return "", fmt.Errorf("its value holds the character %U", r)
			}
		}
		return name + `="` + systemdQuote.Replace(value) + "\"\n", nil
	},
	emptied,
)

// isNoncharacter reports whether Unicode will never assign r (its chapter 23.7).
func isNoncharacter(r rune) bool {
	return r&0xfffe == 0xfffe || 0xfdd0 <= r && r <= 0xfdef
}
