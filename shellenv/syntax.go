// Package shellenv writes a set of environment variables as the commands of a
// shell or in the format of a file. What a syntax cannot carry is an error, never
// a silent loss. It never reads or changes the environment of its own process.
package shellenv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Env maps the names of variables to their values; nil means unset.
type Env map[string]*string

// Syntax is how one shell or file format writes an environment.
type Syntax struct {
	// Name is the name that the command line knows it by.
	Name string
	// Verbatim says that a value needs no rewriting to pass through. Where it is
	// false, JSON should go through SafeJSON first: people evaluate a shell's text
	// unquoted, and a file's text has more readers than this package can test.
	Verbatim bool

	encode encoder
	hint   string // what to type, with the command as %s; "" for file formats
}

// encoder writes env, whose names come checked and in the order to write them.
type encoder func(names []string, env Env) (string, error)

// shells are the shells in the order in which they are documented.
var shells = []Syntax{
	{Name: "sh", encode: posix, hint: posixHint},
	{Name: "bash", encode: posix, hint: posixHint},
	{Name: "zsh", encode: posix, hint: posixHint},
	{Name: "ksh", encode: posix, hint: posixHint},
	{Name: "fish", encode: fish, hint: fishHint},
	{Name: "elvish", encode: elvish, hint: elvishHint},
	{Name: "nu", encode: nu, hint: nuHint, Verbatim: true},
	{Name: "tcsh", encode: tcsh, hint: tcshHint},
	{Name: "powershell", encode: powershell, hint: powershellHint},
	{Name: "cmd", encode: cmd, hint: cmdHint},
}

// formats are the file formats in the order in which they are documented.
var formats = []Syntax{
	{Name: "json", encode: jsonObject, Verbatim: true},
	{Name: "dotenv", encode: dotenv},
	{Name: "null", encode: null, Verbatim: true},
	{Name: "github", encode: github, Verbatim: true},
	{Name: "systemd", encode: systemd},
	{Name: "docker", encode: docker, Verbatim: true},
}

// aliases are further names of shells; ksh is not listed by ShellNames, but stands
// among the shells, so that its hint names it.
var aliases = map[string]string{
	"dash":    "sh",
	"ash":     "sh",
	"busybox": "sh",
	"mksh":    "ksh",
	"csh":     "tcsh",
	"pwsh":    "powershell",
}

// Shell returns the syntax of the named shell: a name of ShellNames, or ksh, mksh,
// dash, ash, busybox, csh or pwsh.
func Shell(name string) (Syntax, bool) {
	if full, ok := aliases[name]; ok {
		name = full
	}
	return byName(shells, name)
}

// Format returns the syntax of the named file format, a name of FormatNames.
func Format(name string) (Syntax, bool) {
	return byName(formats, name)
}

func byName(table []Syntax, name string) (Syntax, bool) {
	i := slices.IndexFunc(table, func(s Syntax) bool { return s.Name == name })
	if i < 0 {
		return Syntax{}, false
	}
	return table[i], true
}

// ShellNames returns the documented names of shells.
func ShellNames() []string {
	return slices.DeleteFunc(names(shells), func(name string) bool { return name == "ksh" })
}

// FormatNames returns the documented names of file formats.
func FormatNames() []string {
	return names(formats)
}

func names(table []Syntax) []string {
	list := make([]string, len(table))
	for i, s := range table {
		list[i] = s.Name
	}
	return list
}

// validName reports whether name is [A-Z_][A-Z0-9_]*. Some syntax would need quotes for
// other characters, and to Windows names differ by more than their case.
func validName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Encode returns the text that gives env to whatever reads this syntax, with the
// names in sorted order. A name that is not [A-Z_][A-Z0-9_]*, and a value that the
// syntax cannot carry, is an error that says what is in the way, never the value:
// it may be a secret. NUL and invalid UTF-8 pass through none of them.
func (s Syntax) Encode(env Env) (string, error) {
	if s.encode == nil {
		return "", errors.New("no shell or format is chosen")
	}
	names := make([]string, 0, len(env))
	for name, value := range env {
		if !validName(name) {
			return "", fmt.Errorf("%q is not a variable name of capital letters, digits and underscores", name)
		}
		if value != nil {
			if strings.IndexByte(*value, 0) >= 0 {
				return "", fmt.Errorf("%s cannot be a variable: its value holds a NUL character", name)
			}
			if !utf8.ValidString(*value) {
				return "", fmt.Errorf("%s cannot be written as text: its value is not valid UTF-8", name)
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	text, err := s.encode(names, env)
	if err != nil {
		return "", fmt.Errorf("the %s format cannot carry %w", s.Name, err)
	}
	return text, nil
}

// Hint returns what a person types to evaluate the output in this shell, or "" for
// a file format. The command is the command line to show, such as
// "mcp-reconnect env", in the shell's own syntax; the shell's name is added to it,
// since what is copied into a start-up file should not depend on detection.
func (s Syntax) Hint(command string) string {
	if s.hint == "" {
		return ""
	}
	return fmt.Sprintf(s.hint, command+" --shell "+s.Name)
}

// statements is the encoder of a syntax that has one statement for each variable.
func statements(set func(name, value string) (string, error), unset func(name string) string) encoder {
	return func(names []string, env Env) (string, error) {
		var b strings.Builder
		for _, name := range names {
			value := env[name]
			if value == nil {
				b.WriteString(unset(name))
				continue
			}
			statement, err := set(name, *value)
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			b.WriteString(statement)
		}
		return b.String(), nil
	}
}

// emptied writes an unset variable, in formats that only know how to set one, as
// an empty one: OpenCode and mcp-reconnect read both as nothing there.
func emptied(name string) string {
	return name + "=\n"
}

// refuse returns an error if value holds one of the characters, and names it.
func refuse(value, characters string) error {
	i := strings.IndexAny(value, characters)
	if i < 0 {
		return nil
	}
	switch value[i] {
	case '\n':
		return errors.New("its value holds a line feed")
	case '\r':
		return errors.New("its value holds a carriage return")
	}
	return fmt.Errorf("its value holds the character %c", value[i])
}

// isControl reports whether r is an ASCII control character.
func isControl(r rune) bool {
	return r < 0x20 || r == 0x7f
}
