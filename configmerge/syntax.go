package configmerge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// maxDepth is how many lists and objects may be open at once. OpenCode 1.18.33 reads about 9,160 nested objects, and
// twice as many lists, before its stack is full.
const maxDepth = 9000

// SyntaxError says where content cannot be read, and what was expected there. It never quotes the content, not even one
// character of it: a configuration holds API keys.
type SyntaxError struct {
	// Line and Column count from 1. Lines end with \n, \r\n or \r; Column counts characters, a tab being one. A byte
	// order mark at the start of the content counts for nothing.
	Line, Column int
	// Msg is in lower case and has no final period.
	Msg string
	// Hint is advice to print with the message, or empty.
	Hint string
	// NotList says that the text is a well-formed object, whose "plugin" is not a list.
	NotList bool
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

const (
	hintQuotes = `this is JSONC, not JSON5: keys and strings stand in double quotes`
	hintToken  = `an {env:…} or {file:…} token must stand inside double quotes here`
	hintNumber = `numbers are written as in JSON: no leading plus sign or zero, and digits on both sides of a point`
	hintEscape = `a backslash is written twice; a {file:…} token takes / instead`
)

// read turns JSONC into strict, compact JSON: an object whose last "plugin", if there is one, is a list. Blank content is
// an object without members.
func read(content string) (string, error) {
	src := strings.TrimPrefix(content, "\ufeff")
	if strings.TrimSpace(src) == "" {
		return "{}", nil
	}
	for i, r := range src {
		if r == utf8.RuneError && !strings.HasPrefix(src[i:], string(r)) {
			return "", errorAt(src, i, "not UTF-8", "")
		}
	}
	b, _, tooDeep := blank(src)
	if text, ok := strict(b); ok && !tooDeep {
		return text, nil
	}
	v, err := hujson.Parse(b)
	if err != nil {
		off := offset(b, err)
		switch {
		case off < 0:
			return "", errorAt(src, 0, "not readable as JSONC", "")
		case tooDeep && off == len(b):
			return "", errorAt(src, off, fmt.Sprintf("nested deeper than %d levels, which is beyond what OpenCode reads", maxDepth), "")
		}
		return "", fault(src, b, off)
	}
	top, ok := v.Value.(*hujson.Object)
	if !ok {
		return "", errorAt(src, v.StartOffset, "the top level is "+kind(v)+", expected an object", "")
	}
	for _, m := range slices.Backward(top.Members) {
		if m.Name.Value.(hujson.Literal).String() != "plugin" {
			continue
		}
		if m.Value.Value.Kind() != '[' {
			err := errorAt(src, m.Value.StartOffset, `"plugin" is `+kind(m.Value)+", expected a list", "")
			err.NotList = true
			return "", err
		}
		break // an earlier one is shadowed
	}
	v.Minimize()
	return string(v.Pack()), nil
}

// strict compacts b if there is nothing for hujson to do: no trailing comma and no fault. That is what launchers write,
// and it takes a third of the time.
func strict(b []byte) (string, bool) {
	if !json.Valid(b) {
		return "", false
	}
	var compact bytes.Buffer
	compact.Grow(len(b))
	if err := json.Compact(&compact, b); err != nil {
		return "", false
	}
	text := compact.String()
	if text[0] != '{' {
		return "", false
	}
	if c := examine(text); c.plugin.keys > 0 && !c.plugin.value.IsArray() {
		return "", false
	}
	return text, true
}

// blank returns text with its comments turned into spaces, so that every offset stays what it was, and where they are. In a line comment
// hujson differs from OpenCode's parser: it wants \n at the end, where \r or the end of the text will do, and refuses
// U+2028. When text is nested too deeply, what is returned ends before the bracket that is too much: hujson calls itself
// for each level.
func blank(text string) (b []byte, comments []span, tooDeep bool) {
	b = []byte(text)
	depth := 0
	for i := 0; i < len(b); {
		end := i + 1
		switch b[i] {
		case '"':
			if end = stringEnd(b, i); end < 0 {
				return b, comments, false // hujson goes no further either
			}
		case '{', '[':
			if depth++; depth > maxDepth {
				return b[:i], comments, true
			}
		case '}', ']':
			depth--
		case '/':
			if end = commentEnd(b, i); end < 0 {
				return b, comments, false
			}
			comments = append(comments, span{i, end})
			for j := i; j < end; j++ {
				b[j] = ' '
			}
		}
		i = end
	}
	return b, comments, false
}

// stringEnd returns the offset after the string that starts at i, or -1 if the text ends inside it.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// commentEnd returns the offset after the comment that starts at i, or -1 if none does or the text ends inside it.
func commentEnd(b []byte, i int) int {
	switch rest := b[i:]; {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexAny(rest, "\r\n"); n >= 0 {
			return i + n
		}
		return len(b)
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + n + 4
		}
	}
	return -1
}

// offset returns the offset in b that hujson's error speaks of, or -1. Hujson counts lines by \n alone, columns in bytes.
func offset(b []byte, err error) int {
	var line, column int
	if _, err := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); err != nil {
		return -1
	}
	off := 0
	for ; line > 1; line-- {
		off += bytes.IndexByte(b[off:], '\n') + 1
	}
	return off + column - 1
}

// fault says what is wrong at off, the place in b where hujson stopped; b is src without its comments. All that stands
// before off is well formed, so the grammar tells what had to follow. Hujson's own words are of no use: they quote.
func fault(src string, b []byte, off int) *SyntaxError {
	open, last, str := state(b[:off])
	value := strings.IndexByte("{[,:\x00", last) >= 0 // a key or a value may start at off
	rest := b[off:]
	switch {
	case str >= 0:
		return stringFault(src, b, str)
	case value && bytes.HasPrefix(rest, []byte(`"`)):
		return stringFault(src, b, off)
	case bytes.HasPrefix(rest, []byte("/*")):
		return errorAt(src, off, "the comment that starts here is not closed", "")
	}

	var want string
	key := false
	switch {
	case last == 'k':
		want = "expected ':' after the key"
	case last == ':':
		want = "expected a value after ':'"
	case last == 0:
		want = "expected an object"
	case open == 0:
		want = "expected the end of the text"
	case value && open == '[':
		want = "expected a value or ']'"
	case value:
		want, key = "expected a key in double quotes or '}'", true
	case open == '[':
		want = "expected ',' or ']' after the value"
	default:
		want = "expected ',' or '}' after the value"
	}
	if len(rest) == 0 {
		return errorAt(src, off, "the text ends here, "+want, "")
	}
	return errorAt(src, off, want, hint(b[:off], rest, value, key))
}

// hint gives advice on the text rest, which cannot stand behind before, where a value or a key may.
func hint(before, rest []byte, value, key bool) string {
	r, _ := utf8.DecodeRune(rest)
	switch {
	case !value:
		return ""
	case bytes.HasSuffix(before, []byte("{")) && (bytes.HasPrefix(rest, []byte("env:")) || bytes.HasPrefix(rest, []byte("file:"))):
		return hintToken
	case !key && strings.ContainsRune("+-.0123456789", r):
		return hintNumber
	case strings.ContainsRune("'`‘’“”$_", r), r|0x20 >= 'a' && r|0x20 <= 'z':
		return hintQuotes
	}
	return ""
}

// state goes through b, the well-formed beginning of a document without comments. It returns the innermost bracket that
// is open, or 0, and what stands last: one of {[,: or k for a key, v for a value, 0 for nothing; and the offset of a
// string that b ends inside of, or -1.
func state(b []byte) (open, last byte, str int) {
	var stack []byte
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			stack, last = append(stack, c), c
		case '}', ']':
			stack, last = stack[:len(stack)-1], 'v'
		case ',', ':':
			last = c
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return open, last, i
			}
			i = end - 1
			if open == '{' && last != ':' {
				last = 'k'
				continue
			}
			last = 'v'
		default:
			last = 'v'
		}
		open = 0
		if len(stack) > 0 {
			open = stack[len(stack)-1]
		}
	}
	return open, last, -1
}

// stringFault says what is wrong inside the string that starts at i.
func stringFault(src string, b []byte, i int) *SyntaxError {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\n' || c == '\r':
			return errorAt(src, i, "the line ends inside a string", "")
		case c < ' ':
			return errorAt(src, i, "a control character in a string must be written as an escape", "")
		case c == '\\' && i+1 < len(b):
			if strings.IndexByte(`"\/bfnrtu`, b[i+1]) < 0 {
				return errorAt(src, i, "unknown escape in a string", hintEscape)
			}
			if b[i+1] == 'u' {
				for j := i + 2; j < min(i+6, len(b)); j++ {
					if strings.IndexByte("0123456789abcdefABCDEF", b[j]) < 0 {
						return errorAt(src, i, `expected four hexadecimal digits in a \u escape`, hintEscape)
					}
				}
			}
			i++
		}
	}
	return errorAt(src, len(b), "the text ends inside a string", "")
}

// errorAt makes the error for an offset of src.
func errorAt(src string, off int, msg, hint string) *SyntaxError {
	at := positionAt(src, off)
	return &SyntaxError{Line: at.Line, Column: at.Column, Msg: msg, Hint: hint}
}

// positionAt is where an offset of src is, for people.
func positionAt(src string, off int) Position {
	line, start := 1, 0
	for i := range off {
		if src[i] == '\n' || src[i] == '\r' && (i+1 == len(src) || src[i+1] != '\n') {
			line, start = line+1, i+1
		}
	}
	return Position{line, 1 + utf8.RuneCountInString(src[start:off])}
}

// kind names the type of a value.
func kind(v hujson.Value) string {
	switch v.Value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
