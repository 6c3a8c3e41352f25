package shellenv

import (
	"fmt"
	"unicode"
)

// cmdLine is the longest command line that cmd.exe takes, in characters
// (learn.microsoft.com, "Command prompt line string limitation").
const cmdLine = 8191

// cmd writes lines for Windows' cmd.exe: a batch file to be called, or the output
// that for /f runs line by line.
//
// set "NAME=value" takes the value up to the last quote of the line, so quotes in it
// are kept. But each of them ends or begins cmd's own quoting, so that parts of the
// value stand outside it, where & | < > and ^ are operators; % is expanded even in
// quotes, and its escape differs between a batch file and a prompt; ! is expanded
// where delayed expansion is on. None of them can be carried in both places, nor what
// depends on the code page. An empty value unsets the variable: cmd knows no empty one.
var cmd = statements(
	func(name, value string) (string, error) {
		if err := refuse(value, "\r\n%!^&|<>"); err != nil {
			return "", err
		}
		for _, r := range value {
			if isControl(r) || r > unicode.MaxASCII {
				return "", fmt.Errorf("its value holds the character %U", r)
			}
		}
		line := `set "` + name + `=` + value + `"`
		if len(line) > cmdLine {
			return "", fmt.Errorf("its line would have %d characters, and cmd takes %d", len(line), cmdLine)
		}
		return line + "\r\n", nil
	},
	func(name string) string {
		return `set "` + name + "=\"\r\n"
	},
)

// cmdHint is for a prompt; in a batch file the % is written twice.
const cmdHint = `for /f "delims=" %%i in ('%s') do @%%i`
