package shellenv

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// SafeJSON rewrites a strict, compact JSON text into an equal one that survives being
// split into words, globbed, joined again and parsed, as in an unquoted
// eval $(…), and readers that undo backslashes. Text that is not valid JSON in UTF-8
// is returned as it is. Rewriting twice is the same as rewriting once.
//
// Inside strings only ASCII letters, digits and _-./:+,@ stay. Every other character,
// and every short escape such as \" or \\, becomes \uXXXX. Left out of that list are:
// = and ~, which begin words that zsh and csh expand; %, which cmd expands; and # ! ^ *
// and all that some shell gives a meaning, quotes and blanks first.
//
// The tokens {env:NAME} and {file:PATH} stay as they are, because OpenCode replaces
// them in the raw text, before it parses it (its config/variable.ts). A token is one
// only if it ends within its string. What is in a token is therefore not safe: two
// blanks in a row, or a glob pattern, need quoted evaluation, and so does a comma in
// ksh93 and mksh.
//
// Between values there is one space after each { [ and comma, one before each } and ],
// and one between a colon and a [. So, when the text is split at its blanks (by an IFS
// that nobody has changed), no word holds a whole bracket or brace expression, which
// bash with nullglob drops, bash with failglob refuses, and ksh93 and mksh expand; and
// an opening bracket is a word by itself, as zsh with glob_subst calls it a bad pattern
// otherwise. No two spaces meet, so joining the words with one space gives the same text.
func SafeJSON(doc string) string {
	if !utf8.ValidString(doc) || !json.Valid([]byte(doc)) {
		return doc
	}
	out := make([]byte, 0, len(doc)+len(doc)/2)
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"':
			end := stringEnd(doc, i+1)
			out = append(out, '"')
			out = appendSafeString(out, doc[i+1:end])
			out = append(out, '"')
			i = end
		case '{':
			out = append(out, "{ "...)
		case '[':
			if len(out) > 0 && out[len(out)-1] == ':' {
				out = append(out, ' ')
			}
			out = append(out, "[ "...)
		case ',':
			out = append(out, ", "...)
		case '}', ']':
			if out[len(out)-1] != ' ' {
				out = append(out, ' ')
			}
			out = append(out, c)
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// stringEnd returns the index of the quote that ends the string whose text begins at i.
func stringEnd(doc string, i int) int {
	for doc[i] != '"' {
		if doc[i] == '\\' {
			i++
		}
		i++
	}
	return i
}

// shortEscapes are the characters that JSON's two-character escapes stand for.
var shortEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// appendSafeString appends the text between the quotes of a JSON string, made safe.
func appendSafeString(out []byte, text string) []byte {
	tokens := findTokens(text)
	for i := 0; i < len(text); {
		switch {
		case len(tokens) > 0 && tokens[0].start == i:
			out = append(out, text[i:tokens[0].end]...)
			i = tokens[0].end
			tokens = tokens[1:]
		case text[i] == '\\' && text[i+1] == 'u':
			out = append(out, text[i:i+6]...)
			i += 6
		case text[i] == '\\':
			out = appendSafeRune(out, shortEscapes[text[i+1]])
			i += 2
		default:
			r, n := utf8.DecodeRuneInString(text[i:])
			out = appendSafeRune(out, r)
			i += n
		}
	}
	return out
}

func appendSafeRune(out []byte, r rune) []byte {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return append(out, byte(r))
	case strings.ContainsRune("_-./:+,@", r):
		return append(out, byte(r))
	}
	for _, unit := range utf16.AppendRune(nil, r) {
		out = fmt.Appendf(out, `\u%04x`, unit)
	}
	return out
}

// token is the place of a substitution token within a string's raw text.
type token struct{ start, end int }

// findTokens finds what OpenCode replaces in the raw text of a string, in order. It
// replaces every {env:…} before any {file:…}, so the brace of one inside the other
// does not end the outer one.
func findTokens(text string) []token {
	text = text[:strings.LastIndexByte(text, '}')+1]
	var found []token
	file := -1  // where a {file: stands that has not ended yet
	inFile := 0 // how many of the tokens found are inside of it
	for i := 0; i < len(text); {
		rest := text[i:]
		switch n := envTokenLength(rest); {
		case n > 0:
			found = append(found, token{i, i + n})
			if file >= 0 {
				inFile++
			}
			i += n
			continue
		case text[i] == '}' && file >= 0 && i > file+len("{file:"):
			found = append(found[:len(found)-inFile], token{file, i + 1})
			file, inFile = -1, 0
		case text[i] == '}':
			file, inFile = -1, 0 // {file:} is no token
		case file < 0 && strings.HasPrefix(rest, "{file:"):
			file = i
		}
		i++
	}
	return found
}

// envTokenLength returns the length of the {env:…} at the beginning of text, or 0.
func envTokenLength(text string) int {
	const env = "{env:"
	if !strings.HasPrefix(text, env) {
		return 0
	}
	end := strings.IndexByte(text, '}')
	if end <= len(env) {
		return 0 // the name is empty, or the token does not end
	}
	return end + 1
}
