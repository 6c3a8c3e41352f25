package shellenv

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// PowerShell and cmd do not run here: their text is read by their written rules.

// readPowerShell reads the part of PowerShell that is written: assignments to variables
// of the environment, of string literals and cast characters joined by +, and
// Remove-Item. It reads a line at a time, as Invoke-Expression gets them from a pipeline.
func readPowerShell(t *testing.T, text string, environ map[string]string) {
	t.Helper()
	remove := regexp.MustCompile(`^Remove-Item Env:([A-Z0-9_]+) -ErrorAction SilentlyContinue;$`)
	assign := regexp.MustCompile(`^\$\{env:([A-Z0-9_]+)\} = `)
	for line := range strings.Lines(text) {
		for _, c := range line {
			if c != '\n' && (c < ' ' || c > '~') {
				t.Fatalf("the character %U", c)
			}
		}
		line = strings.TrimSuffix(line, "\n")
		if match := remove.FindStringSubmatch(line); match != nil {
			delete(environ, match[1])
			continue
		}
		match := assign.FindStringSubmatch(line)
		if match == nil {
			t.Fatalf("not a statement: %.100q", line)
		}
		var value []uint16
		rest := line[len(match[0]):]
		for {
			if strings.HasPrefix(rest, "[char]0x") {
				unit, err := strconv.ParseUint(rest[8:12], 16, 16)
				if err != nil {
					t.Fatal(err)
				}
				value = append(value, uint16(unit))
				rest = rest[12:]
			} else {
				var literal string
				literal, rest = readPowerShellString(t, rest)
				value = append(value, utf16.Encode([]rune(literal))...)
			}
			if rest == ";" {
				break
			}
			var ok bool
			if rest, ok = strings.CutPrefix(rest, " + "); !ok {
				t.Fatalf("neither + nor the end: %.100q", rest)
			}
		}
		// The + of a [char] on the left would be another.
		if !strings.HasPrefix(line[len(match[0]):], "'") {
			t.Fatalf("does not begin with a string: %.100q", line)
		}
		environ[match[1]] = string(utf16.Decode(value))
	}
}

// readPowerShellString reads a single-quoted string: about_Quoting_Rules, and
// IsSingleQuote of the tokenizer, to which four curly quotes are quotes as well.
func readPowerShellString(t *testing.T, text string) (value, rest string) {
	t.Helper()
	isQuote := func(r rune) bool { return strings.ContainsRune("'\u2018\u2019\u201a\u201b", r) }
	var b strings.Builder
	var last rune // the quote just read, within the string
	for i, r := range text {
		switch {
		case i == 0 && !isQuote(r):
			t.Fatalf("not a string: %.100q", text)
		case i == 0:
		case last != 0 && isQuote(r):
			b.WriteRune(r)
			last = 0
		case last != 0:
			return b.String(), text[i:]
		case isQuote(r):
			last = r
		default:
			b.WriteRune(r)
		}
	}
	t.Fatalf("the string does not end: %.100q", text)
	return "", ""
}

func TestPowerShellByItsRules(t *testing.T) {
	s := mustShell(t, "powershell")
	sent := everything(t, s, nothing)
	sent["V9998"], sent["V9999"] = nil, nil
	got := map[string]string{"V9998": "before"}
	readPowerShell(t, encode(t, s, sent), got)
	compare(t, got, sent)
}

func TestPowerShellText(t *testing.T) {
	value := "it's ‘é😀\n"
	got := encode(t, mustShell(t, "pwsh"), Env{"A": &value, "B": nil})
	want := "${env:A} = 'it''s ' + [char]0x2018 + '' + [char]0x00E9 + '' + [char]0xD83D + '' + [char]0xDE00 + '' + [char]0x000A + '';\n" +
		"Remove-Item Env:B -ErrorAction SilentlyContinue;\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// readCmd runs lines of set as cmd.exe does, in a batch file or from for /f, with delayed
// expansion or without: it fails on any character that one of these would take for
// something else, on what depends on the code page, and on too long a line.
func readCmd(t *testing.T, text string, environ map[string]string) {
	t.Helper()
	for line := range strings.SplitAfterSeq(text, "\r\n") {
		if line == "" {
			continue
		}
		line, ok := strings.CutSuffix(line, "\r\n")
		if !ok {
			t.Fatalf("the line has no end: %.100q", line)
		}
		if len(line) > 8191 {
			t.Fatalf("%d characters", len(line))
		}
		quoted := false
		for _, c := range line {
			switch {
			case c < ' ' || c > '~':
				t.Fatalf("the character %U", c)
			case c == '"':
				quoted = !quoted
			case c == '%' || c == '!': // expanded in quotes, too
				t.Fatalf("%c in %.100q", c, line)
			case !quoted && strings.ContainsRune("&|<>^", c):
				t.Fatalf("%c outside quotes in %.100q", c, line)
			}
		}
		rest, ok := strings.CutPrefix(line, `set "`)
		if !ok {
			t.Fatalf("not set: %.100q", line)
		}
		name, value, ok := strings.Cut(rest[:strings.LastIndexByte(rest, '"')], "=")
		if !ok {
			t.Fatalf("no =: %.100q", line)
		}
		if value == "" {
			delete(environ, name)
		} else {
			environ[name] = value
		}
	}
}

func TestCmdByItsRules(t *testing.T) {
	s := mustShell(t, "cmd")
	refused := func(value string) bool {
		return regexp.MustCompile(`[^ -~]|[%!^&|<>]`).MatchString(value) || len(value) > 8000
	}
	var values []string
	for _, value := range carried(t, s, nastyValues(), refused) {
		if value != "" {
			values = append(values, value)
		}
	}
	for _, config := range configurations(t) {
		if safe := SafeJSON(config); len(safe) < 8000 {
			values = append(values, safe)
		}
	}
	sent := number(values)
	empty := ""
	sent["V9998"] = nil
	sent["V9999"] = &empty
	got := map[string]string{"V9998": "before", "V9999": "before"}
	readCmd(t, encode(t, s, sent), got)
	sent["V9999"] = nil // cmd knows no empty variable
	compare(t, got, sent)
}

func TestCmdLineFitsExactly(t *testing.T) {
	s := mustShell(t, "cmd")
	most := strings.Repeat("x", 8191-len(`set "V0="`))
	sent := number([]string{most})
	got := map[string]string{}
	readCmd(t, encode(t, s, sent), got)
	compare(t, got, sent)
	_, err := s.Encode(number([]string{most + "x"}))
	if want := "the cmd format cannot carry V0: its line would have 8192 characters, and cmd takes 8191"; fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
