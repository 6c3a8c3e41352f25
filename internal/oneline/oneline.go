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
// shells, fish and PowerShell where it needs some.
func Word(text string) string {
	plain := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+:@%,~"
	if runtime.GOOS == "windows" {
		plain += `\`
	}
	if text != "" && text[0] != '~' && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
