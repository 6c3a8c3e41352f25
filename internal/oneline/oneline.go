// Package oneline makes text safe to show: names and errors come from files, OpenCode's
// configuration and MCP servers, and may hold what steers a terminal.
package oneline

import (
	"runtime"
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

// Word writes a text as one word of a command that people copy: in the quotes of POSIX
// shells and fish, or on Windows of PowerShell, where it needs some.
func Word(text string) string {
	plain := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+:@%,~"
	if runtime.GOOS == "windows" {
		plain += `\`
	}
	switch {
	case text != "" && !strings.ContainsRune("~=@", rune(text[0])) && strings.Trim(text, plain) == "": // zsh looks for =ls, PowerShell for @x
		return text
	case runtime.GOOS == "windows":
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return "'" + outOfQuotes.Replace(text) + "'"
}

// outOfQuotes puts what single quotes do not keep outside of them: in fish, that is a backslash, too.
var outOfQuotes = strings.NewReplacer("'", `'\''`, `\`, `'\\'`)
