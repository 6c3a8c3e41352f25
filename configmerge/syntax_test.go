package configmerge

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// faults are texts that are refused, with what is said of them. They hold every message and every hint that there is.
var faults = []struct{ content, want, hint string }{
	// Cut off (B17). The position is the end of the text.
	{`{`, `line 1, column 2: the text ends here, expected a key in double quotes or '}'`, ""},
	{`{"plugin"`, `line 1, column 10: the text ends here, expected ':' after the key`, ""},
	{`{"plugin":`, `line 1, column 11: the text ends here, expected a value after ':'`, ""},
	{`{"plugin":[`, `line 1, column 12: the text ends here, expected a value or ']'`, ""},
	{`{"plugin":["a"`, `line 1, column 15: the text ends here, expected ',' or ']' after the value`, ""},
	{`{"plugin":["a",`, `line 1, column 16: the text ends here, expected a value or ']'`, ""},
	{`{"plugin":["a"]`, `line 1, column 16: the text ends here, expected ',' or '}' after the value`, ""},
	{`{"plugin":["a"],`, `line 1, column 17: the text ends here, expected a key in double quotes or '}'`, ""},
	{"{\n  \"a\": [\n", `line 3, column 1: the text ends here, expected a value or ']'`, ""},
	{"{\r\n\t\"ä\": 1 // c", `line 2, column 13: the text ends here, expected ',' or '}' after the value`, ""},
	{`// c`, `line 1, column 5: the text ends here, expected an object`, ""},
	{"/* c */\n", `line 2, column 1: the text ends here, expected an object`, ""},
	{`{"a":"b`, `line 1, column 8: the text ends inside a string`, ""},
	{`{"a":"b\`, `line 1, column 9: the text ends inside a string`, ""},
	{`{"a":"b\"`, `line 1, column 10: the text ends inside a string`, ""},
	{`{"a":"b\u00`, `line 1, column 12: the text ends inside a string`, ""},
	{`{"a`, `line 1, column 4: the text ends inside a string`, ""},
	{"{\n\"é漢😀", `line 2, column 5: the text ends inside a string`, ""},
	{`{"a":1 /* c }`, `line 1, column 8: the comment that starts here is not closed`, ""},
	{"{}\n/*/", `line 2, column 1: the comment that starts here is not closed`, ""},
	{`{"a":tru`, `line 1, column 6: expected a value after ':'`, hintQuotes},
	{`{"a":-`, `line 1, column 6: expected a value after ':'`, hintNumber},

	// Not JSONC (F1, F9).
	{`x`, `line 1, column 1: expected an object`, hintQuotes},
	{`]`, `line 1, column 1: expected an object`, ""},
	{`,`, `line 1, column 1: expected an object`, ""},
	{`{}{}`, `line 1, column 3: expected the end of the text`, ""},
	{`{"a":1} trailing`, `line 1, column 9: expected the end of the text`, ""},
	{`{"a":1}]`, `line 1, column 8: expected the end of the text`, ""},
	{`{"a":1}/`, `line 1, column 8: expected the end of the text`, ""},
	{"\ufeff\ufeff{}", `line 1, column 1: expected an object`, ""},
	{`{"a" 1}`, `line 1, column 6: expected ':' after the key`, ""},
	{`{"a"}`, `line 1, column 5: expected ':' after the key`, ""},
	{`{"a":}`, `line 1, column 6: expected a value after ':'`, ""},
	{`{"a":,}`, `line 1, column 6: expected a value after ':'`, ""},
	{`{"a":1 "b":2}`, `line 1, column 8: expected ',' or '}' after the value`, ""},
	{`{"a":1]`, `line 1, column 7: expected ',' or '}' after the value`, ""},
	{`{"a":"b",2"1":2}`, `line 1, column 10: expected a key in double quotes or '}'`, ""},
	{`{"a":1,,}`, `line 1, column 8: expected a key in double quotes or '}'`, ""},
	{`{,}`, `line 1, column 2: expected a key in double quotes or '}'`, ""},
	{`{1:2}`, `line 1, column 2: expected a key in double quotes or '}'`, ""},
	{`{null:2}`, `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{`{["a"]:2}`, `line 1, column 2: expected a key in double quotes or '}'`, ""},
	{`{{}:2}`, `line 1, column 2: expected a key in double quotes or '}'`, ""},
	{`{"a":[1 2]}`, `line 1, column 9: expected ',' or ']' after the value`, ""},
	{`{"a":[1:2]}`, `line 1, column 8: expected ',' or ']' after the value`, ""},
	{`{"a":["b" "c"]}`, `line 1, column 11: expected ',' or ']' after the value`, ""},
	{`{"a":[1}`, `line 1, column 8: expected ',' or ']' after the value`, ""},
	{`{"a":[,]}`, `line 1, column 7: expected a value or ']'`, ""},
	{`{"a":[1,,]}`, `line 1, column 9: expected a value or ']'`, ""},
	{`{"a":[}`, `line 1, column 7: expected a value or ']'`, ""},
	{`{plugin:['a']}`, `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{`{'plugin':["a"]}`, `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{`{"plugin":['a']}`, `line 1, column 12: expected a value or ']'`, hintQuotes},
	{`{"plugin":[file:///x]}`, `line 1, column 12: expected a value or ']'`, hintQuotes},
	{`{“a”:1}`, `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{"{\"a\":`b`}", `line 1, column 6: expected a value after ':'`, hintQuotes},
	{`{"a":True}`, `line 1, column 6: expected a value after ':'`, hintQuotes},
	{`{"a":01}`, `line 1, column 6: expected a value after ':'`, hintNumber},
	{`{"a":+1}`, `line 1, column 6: expected a value after ':'`, hintNumber},
	{`{"a":.5}`, `line 1, column 6: expected a value after ':'`, hintNumber},
	{`{"a":[0x10]}`, `line 1, column 7: expected a value or ']'`, hintNumber},
	{`{"a":{env:KEY}}`, `line 1, column 7: expected a key in double quotes or '}'`, hintToken},
	{`{"a":[{file:///k}]}`, `line 1, column 8: expected a key in double quotes or '}'`, hintToken},
	{`{env:CONFIG}`, `line 1, column 2: expected a key in double quotes or '}'`, hintToken},
	{"{\"a\":\u00a01}", `line 1, column 6: expected a value after ':'`, ""},
	{"{\"a\":1\x00}", `line 1, column 7: expected ',' or '}' after the value`, ""},

	// Inside strings.
	{"{\"a\":\"b,\n\"c\":1}", `line 1, column 9: the line ends inside a string`, ""},
	{"{\"a\":\"b,\r\n\"c\":1}", `line 1, column 9: the line ends inside a string`, ""},
	{"{\n  \"a: 1\n}", `line 2, column 8: the line ends inside a string`, ""},
	{"{\"a\":\"é\tb\"}", `line 1, column 8: a control character in a string must be written as an escape`, ""},
	{`{"a":"é\x"}`, `line 1, column 8: unknown escape in a string`, hintEscape},
	{`{"a":"{file:C:\keys\k}"}`, `line 1, column 15: unknown escape in a string`, hintEscape},
	{`{"\'":1}`, `line 1, column 3: unknown escape in a string`, hintEscape},
	{`{"a":"\u12"}`, `line 1, column 7: expected four hexadecimal digits in a \u escape`, hintEscape},
	{`{"a":"\u123"}`, `line 1, column 7: expected four hexadecimal digits in a \u escape`, hintEscape},
	{`{"a":"C:\\users\\u\users"}`, `line 1, column 19: expected four hexadecimal digits in a \u escape`, hintEscape},

	// Positions: line ends, tabs, characters of several bytes, comments, the last line.
	{"\n\n  x", `line 3, column 3: expected an object`, hintQuotes},
	{"{\n\t\t\"a\": 1,\n\t\tx\n}", `line 3, column 3: expected a key in double quotes or '}'`, hintQuotes},
	{"{\r\n\"a\": 1,\r\n  x\r\n}\r\n", `line 3, column 3: expected a key in double quotes or '}'`, hintQuotes},
	{"{\r\"a\": 1,\r  x\r}", `line 3, column 3: expected a key in double quotes or '}'`, hintQuotes},
	{"{\n\r\n\r\r\n x", `line 5, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{`{"é漢😀":"ü" x}`, `line 1, column 12: expected ',' or '}' after the value`, ""},
	{"{ /* é漢😀 */ x", `line 1, column 13: expected a key in double quotes or '}'`, hintQuotes},
	{"{ /* é\n漢 */ x", `line 2, column 6: expected a key in double quotes or '}'`, hintQuotes},
	{"// é\u2028\n{\"a\":1}}", `line 2, column 8: expected the end of the text`, ""},
	{"\ufeff{x", `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{"\ufeff{\n\ufeff", `line 2, column 1: expected a key in double quotes or '}'`, ""},

	// Not UTF-8.
	{"\xff", `line 1, column 1: not UTF-8`, ""},
	{"{\"a\":\"é\xff\"}", `line 1, column 8: not UTF-8`, ""},
	{"{\n// é\xc3\n}", `line 2, column 5: not UTF-8`, ""},
	{"{\"a\":\"\ufffd\xed\xa0\x80\"}", `line 1, column 8: not UTF-8`, ""},
	{"{\"a\":1}\r\n\xe6\xbc", `line 2, column 1: not UTF-8`, ""},
	{"\xff\xfe{\x00}\x00", `line 1, column 1: not UTF-8`, ""},

	// Nested too deeply; the nearest fault comes first.
	{strings.Repeat("[", 10_000_000), fmt.Sprintf(`line 1, column %d: nested deeper than %d levels, which is beyond what OpenCode reads`, maxDepth+1, maxDepth), ""},
	{"{\"a\":\n" + strings.Repeat(`[`, maxDepth) + strings.Repeat(`]`, maxDepth) + `}`, fmt.Sprintf(`line 2, column %d: nested deeper than %d levels, which is beyond what OpenCode reads`, maxDepth, maxDepth), ""},
	{`{x` + strings.Repeat("[", maxDepth), `line 1, column 2: expected a key in double quotes or '}'`, hintQuotes},
	{"{\"a:1,\n\"" + strings.Repeat("[", maxDepth), `line 1, column 7: the line ends inside a string`, ""},

	// Not a configuration.
	{`[]`, `line 1, column 1: the top level is a list, expected an object`, ""},
	{`// c` + "\n  " + `"x"`, `line 2, column 3: the top level is a string, expected an object`, ""},
	{`null`, `line 1, column 1: the top level is null, expected an object`, ""},
	{`true`, `line 1, column 1: the top level is a boolean, expected an object`, ""},
	{`-1`, `line 1, column 1: the top level is a number, expected an object`, ""},
	{`{"plugin":null}`, `line 1, column 11: "plugin" is null, expected a list`, ""},
	{`{"plugin":{}}`, `line 1, column 11: "plugin" is an object, expected a list`, ""},
	{`{"plugin":"x"}`, `line 1, column 11: "plugin" is a string, expected a list`, ""},
	{`{"plugin":1}`, `line 1, column 11: "plugin" is a number, expected a list`, ""},
	{"\ufeff// é\r\n{\"é\":1, /* é */ \"plu\\u0067in\": // c\r\n\t/* é */ false,}", `line 3, column 10: "plugin" is a boolean, expected a list`, ""},
	{`{"plugin":[],"a":{},"plugin":null}`, `line 1, column 30: "plugin" is null, expected a list`, ""},
}

func TestFaults(t *testing.T) {
	for _, test := range faults {
		name := test.content[:min(len(test.content), 40)]
		for function, f := range map[string]func(string, Entry) (string, error){"Merge": Merge, "Remove": Remove} {
			got, err := f(test.content, entry)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Errorf("%s(%q): %q, %v", function, name, got, err)
				continue
			}
			if err.Error() != test.want || syntax.Hint != test.hint || got != "" {
				t.Errorf("%s(%q):\n got %v [%s]\nwant %s [%s]", function, name, err, syntax.Hint, test.want, test.hint)
			}
		}
	}
}

func TestDeepest(t *testing.T) {
	content := `{"a":` + strings.Repeat(`[`, maxDepth-1) + strings.Repeat(`]`, maxDepth-1)
	got, err := Merge(content+" /* [[ */ , // {{\n}", entry)
	if want := content + `,"plugin":[` + ours + `]}`; got != want || err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
}

// TestNothingIsQuoted plants a secret before, behind and inside of each fault. What is said must be one of the fixed
// messages and must not depend on what the secret is.
func TestNothingIsQuoted(t *testing.T) {
	const secret = "sk-secret"
	plant := []func(content string) string{
		func(c string) string { return `/* sk-secret */` + c },
		func(c string) string { return c + `/* sk-secret */` },
		func(c string) string { return c + `sk-secret` },
		func(c string) string { return `sk-secret` + c },
		func(c string) string { return `"sk-secret"` + c },
		func(c string) string { return strings.ReplaceAll(c, `{`, `{"sk-secret":"sk-secret",`) },
		func(c string) string { return strings.ReplaceAll(c, `{`, `{'sk-secret':'sk-secret',`) },
		func(c string) string { return strings.ReplaceAll(c, `"`, `"sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `"`, `"\sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `"`, "\"sk-secret\x01\xff") },
		func(c string) string { return strings.ReplaceAll(c, `"`, `sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `1`, `sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `:`, `:sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `:`, `sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `,`, ` sk-secret `) },
		func(c string) string { return strings.ReplaceAll(c, `[`, `[sk-secret`) },
		func(c string) string { return strings.ReplaceAll(c, `]`, `sk-secret]`) },
	}
	refused := 0
	for _, fault := range faults {
		if len(fault.content) > 1000 {
			continue
		}
		for i, plant := range plant {
			content := plant(fault.content)
			other := strings.ReplaceAll(content, secret, "sq-public")
			_, err := Merge(content, entry)
			_, err2 := Merge(other, entry)
			if fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Errorf("%d, %q: says %q of one secret and %q of another", i, content, err, err2)
			}
			if err != nil {
				refused++
				checkError(t, content, err)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d texts were refused: too few to tell anything", refused)
	}
}

// messages are the fixed texts that errors consist of.
var messages = func() map[string]bool {
	set := map[string]bool{"": true}
	for _, fault := range faults {
		_, msg, _ := strings.Cut(fault.want, ": ")
		set[msg], set[fault.hint] = true, true
	}
	return set
}()

// checkError checks what has to hold for whatever is said of any content: it is one of the fixed texts, hence no quote,
// in the house's form, and points into the content or at its end.
func checkError(t interface{ Errorf(string, ...any) }, content string, err error) {
	var e *SyntaxError
	if !errors.As(err, &e) {
		t.Errorf("%q: %v is not a SyntaxError", content, err)
		return
	}
	if !messages[e.Msg] || !messages[e.Hint] {
		t.Errorf("%q: %q [%s] is not a known message", content, e.Msg, e.Hint)
	}
	if want := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg); err.Error() != want {
		t.Errorf("%q: %v, want %s", content, err, want)
	}
	lines := regexp.MustCompile(`\r\n|\r|\n`).Split(strings.TrimPrefix(content, "\ufeff"), -1)
	if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > utf8.RuneCountInString(lines[e.Line-1])+1 {
		t.Errorf("%q: line %d, column %d is outside", content, e.Line, e.Column)
	}
}

func TestMessageForm(t *testing.T) {
	for msg := range messages {
		if strings.HasSuffix(msg, ".") || msg != "" && strings.ToLower(msg[:1]) != msg[:1] || strings.ContainsAny(msg, "\n\r") {
			t.Errorf("%q is not in the form of the house", msg)
		}
	}
}

// TestOffset: should hujson ever word its position otherwise, the error is a general one instead of a wrong one.
func TestOffset(t *testing.T) {
	if got := offset([]byte("{"), io.ErrUnexpectedEOF); got != -1 {
		t.Errorf("got %d", got)
	}
}
