package shellenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
)

// github writes what a step appends to the file named by $GITHUB_ENV, after the rules
// of the runner (actions/runner, FileCommandManager.cs).
//
// A value stands between two lines of a delimiter, which is random: whoever can put
// text into a value could end it early otherwise, and set variables of their own.
// The first line must begin a line of the file; no empty line is put before it to make
// sure of that, as the runners of act, Gitea and Forgejo refuse one. A line feed is
// kept, and so is a carriage return, except at the end, where the runner on Windows
// takes it for half a line break; there it is refused.
//
// An unset variable is written as an empty one.
var github = statements(
	func(name, value string) (string, error) {
		if strings.HasSuffix(value, "\r") {
			return "", errors.New("its value ends in a carriage return")
		}
		delimiter := githubDelimiter(value)
		return name + "<<" + delimiter + "\n" + value + "\n" + delimiter + "\n", nil
	},
	emptied,
)

// githubDelimiter returns a delimiter that the value does not contain. The value is
// there before the delimiter is drawn, so nobody has to be unable to guess it.
func githubDelimiter(value string) string {
	for {
		delimiter := fmt.Sprintf("ghadelimiter_%016x%016x", rand.Uint64(), rand.Uint64())
		if !strings.Contains(value, delimiter) {
			return delimiter
		}
	}
}
