// Package oneline makes text safe to show: names and errors come from files, OpenCode's
// configuration and MCP servers, and may hold what steers a terminal.
package oneline

import (
	"strconv"
	"strings"
)

// Text escapes a text that a terminal could take for more than text, and whoever reads
// line by line for more than one; any other stays as it is.
func Text(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
