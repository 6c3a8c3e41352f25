package shellenv

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSafeJSON(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"empty object", `{}`, `{ }`},
		{"empty array", `[]`, `[ ]`},
		{"nested", `{"a":[[],{},[1,{"b":[]}]],"c":{}}`, `{ "a": [ [ ], { }, [ 1, { "b": [ ] } ] ], "c":{ } }`},
		{"scalars", `[1.0,-2e+10,12345678901234567890,true,false,null,""]`, `[ 1.0, -2e+10, 12345678901234567890, true, false, null, "" ]`},
		{"a scalar alone", `"a b"`, `"a\u0020b"`},
		{"blanks of the structure", "\t{ \"a\" :\r\n [ 1 ,2 ] }\n", `{ "a": [ 1, 2 ] }`},
		{"what stays", `"azAZ09_-./:+,@"`, `"azAZ09_-./:+,@"`},
		{"what does not", `"~=%#!^*?[a]{b,c}$` + "`'<>|&;()" + `"`,
			`"\u007e\u003d\u0025\u0023\u0021\u005e\u002a\u003f\u005ba\u005d\u007bb,c\u007d\u0024\u0060\u0027\u003c\u003e\u007c\u0026\u003b\u0028\u0029"`},
		{"keys too", `{"*.md":1}`, `{ "\u002a.md":1 }`},
		{"short escapes", `"\"\\\/\b\f\n\r\t"`, `"\u0022\u005c/\u0008\u000c\u000a\u000d\u0009"`},
		{"long escapes", `"\u0041\u00E9\ud83d\ude00\ud800"`, `"\u0041\u00E9\ud83d\ude00\ud800"`},
		{"outside ASCII", "\"é\u2028😀\x7f\"", `"\u00e9\u2028\ud83d\ude00\u007f"`},
		{"tokens", `{"k{env:A}":"x {env:HOME Y}z{file:./a b.txt}"}`, `{ "k{env:A}":"x\u0020{env:HOME Y}z{file:./a b.txt}" }`},
		{"token with escapes and more", `"{file:C:\\é\"*'}"`, `"{file:C:\\é\"*'}"`},
		{"token within a token", `"{file:{env:HOME}/.key}}"`, `"{file:{env:HOME}/.key}\u007d"`},
		{"two within one", `"{file:{env:A}{env:B}/{env:}c}"`, `"{file:{env:A}{env:B}/{env:}c\u007d"`},
		{"token within what is none", `"{file:{env:A}/x"`, `"\u007bfile:{env:A}/x"`},
		{"the first brace counts", `"{env:{env:A}}"`, `"{env:{env:A}\u007d"`},
		{"empty tokens", `"{env:}{file:}x}"`, `"\u007benv:\u007d\u007bfile:\u007dx\u007d"`},
		{"no tokens", `"{ENV:A}{env}{env A}\u007benv:A}{ env:A}"`, `"\u007bENV:A\u007d\u007benv\u007d\u007benv\u0020A\u007d\u007benv:A\u007d\u007b\u0020env:A\u007d"`},
		{"a token ends in its string", `["{env:A","}","{file:b","}"]`, `[ "\u007benv:A", "\u007d", "\u007bfile:b", "\u007d" ]`},
		{"not JSON", `{"a b":`, `{"a b":`},
		{"nothing", ``, ``},
		{"not UTF-8", "\"\xff *\"", "\"\xff *\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := SafeJSON(test.doc)
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if again := SafeJSON(got); again != got {
				t.Errorf("again %s\nonce  %s", again, got)
			}
		})
	}
}

func TestSafeJSONOfConfigurations(t *testing.T) {
	for _, config := range configurations(t) {
		checkSafe(t, config)
	}
}

func TestSafeJSONOfAnyDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkSafe(t, anyJSON(pieces).Draw(t, "doc"))
	})
}

// OpenCode must read from the rewritten text what it reads from the original, after it
// has put values in the place of the tokens of the raw text.
func TestSafeJSONKeepsWhatTokensBecome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := anyJSON(append(tokenPieces, plainPieces...)).Draw(t, "doc")
		if diff := cmp.Diff(jsonTokens(t, substitute(doc)), jsonTokens(t, substitute(SafeJSON(doc)))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// substitute does what OpenCode's config/variable.ts does with inline content, with an
// environment in which every variable has a value, and a file system likewise.
func substitute(doc string) string {
	quote := func(s string) string {
		text, _ := json.Marshal(s)
		return string(text[1 : len(text)-1])
	}
	doc = regexp.MustCompile(`\{env:[^}]+\}`).ReplaceAllStringFunc(doc, func(token string) string {
		return quote("<env " + token[5:len(token)-1] + ">")
	})
	return regexp.MustCompile(`\{file:[^}]+\}`).ReplaceAllStringFunc(doc, func(token string) string {
		return quote("<file " + token[6:len(token)-1] + ">")
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkSafe checks everything that SafeJSON promises of any one document.
func checkSafe(t failer, doc string) {
	t.Helper()
	safe := SafeJSON(doc)
	if diff := cmp.Diff(jsonTokens(t, doc), jsonTokens(t, safe)); diff != "" {
		t.Fatalf("another value: %s", diff)
	}
	if again := SafeJSON(safe); again != safe {
		t.Fatalf("once  %.300q\nagain %.300q", safe, again)
	}
	// Whatever is left once strings are gone is structure; of strings, tokens may stay.
	str := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	safeStr := regexp.MustCompile(`^"(?:[A-Za-z0-9_\-./:+,@]|\\u[0-9A-Fa-f]{4})*"$`)
	env := regexp.MustCompile(`\{env:[^}]+\}`)
	file := regexp.MustCompile(`\{file:[^}]+\}`)
	originals, rewritten := str.FindAllString(doc, -1), str.FindAllString(safe, -1)
	for i, s := range rewritten {
		rest := file.ReplaceAllString(env.ReplaceAllString(s, "E"), "F")
		if !safeStr.MatchString(rest) {
			t.Fatalf("unsafe: %.300q", s)
		}
		if diff := cmp.Diff(env.FindAllString(originals[i], -1), env.FindAllString(s, -1)); diff != "" {
			t.Fatalf("other tokens: %s", diff)
		}
		// The brace of a token within does not end a file's.
		within := func(s string) []string { return file.FindAllString(env.ReplaceAllString(s, "E"), -1) }
		if diff := cmp.Diff(within(originals[i]), within(s)); diff != "" {
			t.Fatalf("other tokens: %s", diff)
		}
	}
	structure := str.ReplaceAllString(safe, "s")
	if strings.Join(strings.Fields(structure), " ") != structure {
		t.Fatalf("blanks are not single: %.300q", structure)
	}
	for word := range strings.SplitSeq(structure, " ") {
		if strings.Contains(word, "[") && word != "[" || strings.Contains(word, "]") && strings.Trim(word, "],") != "" ||
			strings.Contains(word, "{") && strings.Contains(word, "}") {
			t.Fatalf("a pattern: %q", word)
		}
	}
}

// jsonTokens returns the tokens of a JSON text: its value, and with it the order of keys,
// duplicate ones and how numbers are written.
func jsonTokens(t failer, doc string) []json.Token {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(doc))
	decoder.UseNumber()
	var list []json.Token
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("%v in %.300q", err, doc)
		}
		list = append(list, token)
	}
}

// What the strings of random documents are made of, as it stands between the quotes.
var (
	plainPieces = []string{
		"a", "Z0", " ", "  ", "*", "?", "[a]", "(", "'", "`", "$x", "~", "=", "%", "!", "#", "/", ",", ":", "é", "日本", "😀", "\u2028", "\x7f",
		`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0041`, `\u00E9`, `\ud83d\ude00`, `\ud800`, `\u007b`, `\u0000`, `\u005c`, `\u0022`,
	}
	tokenPieces = []string{
		"{env:A}", "{env:A B}", "{file:x}", "{file:./a b/*.md}", "{file:{env:HOME}/x}", "{file:~/é'}", `{file:C:\\a\"}`, "{file:{env:A}{env:B}}",
	}
	pieces = append([]string{
		"{", "}", "{env:", "{file:", "{env:}", "{file:}", "{ env:A}", "}}", "{{", "env:", `{\\env:A}`,
	}, append(tokenPieces, plainPieces...)...)
)

// anyJSON generates strict, compact JSON texts with strings made of the pieces.
func anyJSON(pieces []string) *rapid.Generator[string] {
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8), func(parts []string) string {
		return `"` + strings.Join(parts, "") + `"`
	})
	scalar := rapid.OneOf(text, rapid.SampledFrom([]string{"null", "true", "false", "0", "-1.50", "1e+7", "12345678901234567890"}))
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		if depth == 0 {
			return scalar
		}
		item := value(depth - 1)
		return rapid.OneOf(
			scalar,
			rapid.Map(rapid.SliceOfN(item, 0, 3), func(items []string) string { return "[" + strings.Join(items, ",") + "]" }),
			rapid.Custom(func(t *rapid.T) string {
				var members []string
				for range rapid.IntRange(0, 3).Draw(t, "members") {
					members = append(members, text.Draw(t, "key")+":"+item.Draw(t, "value"))
				}
				return "{" + strings.Join(members, ",") + "}"
			}),
		)
	}
	return value(3)
}

// Braces that open nothing, or never close, must not make it slow: a value may have
// 128 KiB, and these are twice as long.
func TestSafeJSONIsLinear(t *testing.T) {
	for _, piece := range []string{"{env:", "{file:", "{file:{env:A}", "{env:}", "{", "}", `\"`} {
		doc := `"` + strings.Repeat(piece, 1<<18/len(piece)) + `"`
		safe := SafeJSON(doc) // were it quadratic, the test would not end in time
		if !json.Valid([]byte(safe)) {
			t.Errorf("%s: not JSON any more", piece)
		}
	}
}
