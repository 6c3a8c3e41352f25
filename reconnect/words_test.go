package reconnect

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// A verdict is what becomes of an error: what is told of it, and what it says, with the
// groups of the pattern that fits.
type verdict struct {
	Told string              `json:"told"`
	Says map[string][]string `json:"says"` // by kind
}

func judge(text string) verdict {
	v := verdict{harmless(text), map[string][]string{}}
	for kind := range shared().Errors {
		if match := says(text, kind); match != nil {
			v.Says[kind] = match
		}
	}
	return v
}

// rendered is the plugin as a module that exports judge, too.
func rendered(t testing.TB) string {
	t.Helper()
	js, err := plugin.Render(plugin.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	return string(js) + `
		export function judge(text) {
			if (text === "…compiled") return { told: String(expressions.size), says: {} }
			const said = {}
			for (const kind of Object.keys(SHARED.errors)) {
				const match = says(text, kind)
				if (match) said[kind] = [...match].map((group) => group ?? "")
			}
			return { told: harmless(text), says: said }
		}
	`
}

// inGoja returns judge as the rendered plugin has it in the environment, which is JSON.
func inGoja(t testing.TB, environment string) func(rapid.TB, string) verdict {
	t.Helper()
	result := api.Transform(rendered(t), api.TransformOptions{Format: api.FormatCommonJS, Define: map[string]string{"import.meta.url": `""`}})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors[0].Text)
	}
	vm := goja.New()
	if _, err := vm.RunString("var module = {exports: {}}, process = {env: " + environment + "}, require = () => ({});" + string(result.Code)); err != nil {
		t.Fatal(err)
	}
	value, err := vm.RunString("(text) => JSON.stringify(module.exports.judge(text))")
	if err != nil {
		t.Fatal(err)
	}
	judge, _ := goja.AssertFunction(value)
	return func(t rapid.TB, text string) (v verdict) {
		t.Helper()
		answer, err := judge(goja.Undefined(), vm.ToValue(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(answer.String()), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// runtimes are the programs that run a module, with their arguments before its name: the
// plugin's own is the Bun that is inside of OpenCode.
var runtimes = map[string]func(t *testing.T) *exec.Cmd{
	"Node": func(t *testing.T) *exec.Cmd { return exec.Command(testenv.Program(t, "node")) },
	"Bun": func(t *testing.T) *exec.Cmd {
		cmd := exec.Command(testenv.OpenCode(t, testenv.OpenCodeVersion()), "run")
		cmd.Env = []string{"BUN_BE_BUN=1"}
		return cmd
	},
}

// judgeIn judges the texts in a runtime, whose environment holds no secrets.
func judgeIn(t *testing.T, runtime string, texts []string) []verdict {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	write("plugin.mjs", []byte(rendered(t)))
	write("texts.json", input)
	write("main.mjs", []byte(`
		import * as fs from "node:fs"
		import { judge } from "./plugin.mjs"
		const texts = JSON.parse(fs.readFileSync("texts.json", "utf8"))
		fs.writeFileSync("verdicts.json", JSON.stringify(texts.map(judge)))
	`))
	program := runtimes[runtime](t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a pattern that goes back and forth takes longer than that
	defer cancel()
	cmd := exec.CommandContext(ctx, program.Path, append(program.Args[1:], "main.mjs")...)
	cmd.Dir = dir
	cmd.Env = append(program.Env, "HOME="+dir, "PATH="+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", runtime, err, out)
	}
	output, err := os.ReadFile(filepath.Join(dir, "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []verdict
	if err := json.Unmarshal(output, &verdicts); err != nil || len(verdicts) != len(texts) {
		t.Fatalf("%s: %d verdicts of %d: %v", runtime, len(verdicts), len(texts), err)
	}
	return verdicts
}

// vectors are errors with what is told of them, and with what they say.
func vectors(t testing.TB) (v struct {
	Readable []string // is told as it is
	Told     []struct{ Said, Told string }
	Says     []struct {
		Said string
		Says []string
		Tool string
	}
}) {
	t.Helper()
	text, err := os.ReadFile("../template/testdata/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, text := range v.Readable {
		v.Told = append(v.Told, struct{ Said, Told string }{text, text})
	}
	return v
}

// TestWordsAreTheSameEverywhere runs one set of vectors through both engines, and the
// plugin's in what it is tested in, in Node, and in the Bun of OpenCode.
func TestWordsAreTheSameEverywhere(t *testing.T) {
	vectors := vectors(t)
	var texts []string
	for _, v := range vectors.Told {
		texts = append(texts, v.Said)
	}
	for _, v := range vectors.Says {
		texts = append(texts, v.Said)
	}
	compare := func(t *testing.T, verdicts []verdict) {
		for n, v := range vectors.Told {
			if got := verdicts[n].Told; got != v.Told {
				t.Errorf("%.300q\n is told as %q\n      want %q", v.Said, got, v.Told)
			}
		}
		for n, v := range vectors.Says {
			said := verdicts[len(vectors.Told)+n].Says
			got := slices.Sorted(maps.Keys(said))
			slices.Sort(v.Says)
			tool := strings.Join(said["outdated"][min(1, len(said["outdated"])):], "")
			if !slices.Equal(got, v.Says) || tool != v.Tool {
				t.Errorf("%q says %q of tool %q, want %q of %q", v.Said, got, tool, v.Says, v.Tool)
			}
		}
	}
	t.Run("reconnect", func(t *testing.T) {
		var verdicts []verdict
		for _, text := range texts {
			verdicts = append(verdicts, judge(text))
		}
		compare(t, verdicts)
	})
	t.Run("goja", func(t *testing.T) {
		judge := inGoja(t, "{}")
		var verdicts []verdict
		for _, text := range texts {
			verdicts = append(verdicts, judge(t, text))
		}
		compare(t, verdicts)
	})
	for runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) { compare(t, judgeIn(t, runtime, texts)) })
	}
}

// errorTexts are what errors are made of, and what breaks patterns.
var errorTexts = rapid.Custom(func(t *rapid.T) string {
	pieces := []*rapid.Generator[string]{
		rapid.SampledFrom([]string{"token", "API_KEY", "apiKey", "passwd", "Password", "PASSPHRASE", "authorization", "Cookie", "set-cookie", "x-auth", "bearer", "Basic", "digest",
			"--token", "-p", "—secret", "-u", "--user", "/token", "PAſſWORD", "TO\u212aEN", "Author", "keyboard", "user", "path", "not found", "BEGIN RSA PRIVATE KEY-----", "<password>", "</password>"}),
		rapid.SampledFrom([]string{"=", ":", "=>", ":=", "==", "＝", "：", "%3D", "%3a", `\u003d`, `\\u003a`, "&#61;", ",", ";", "&", "?", "#", "@", "%40", "/", "//", "://", `:\/\/`, "%3A%2F%2F", "&#x2F;", "@tcp(", ")", "[", "]", "{", "}", "<", ">", "-", "--", "."}),
		rapid.SampledFrom([]string{`"`, `\"`, `\\\"`, "'", "`", "“", "”", "‘", "’", "«", "»", "&quot;", "&#39;", `\u0022`, `\u0027`, `\`, `\\`, "''", "*", "%22"}),
		rapid.SampledFrom([]string{" ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u2028", "\u3000", "\u0085", "\u2800", "\u200b", "\ufeff", "\u00ad", "\u202e", "\ufe0f", "\u2060", "\x00", "\x1b[31m", "\x1b[2J", "\x1f"}),
		rapid.SampledFrom([]string{"https://", "postgres://ann:hunter2@host/db", "hunter2", "hun'ter2", `hun"ter2`, "example.com", "8443", "a1b2c3d4e5f6a7b8c9d0e1f2", "ghp_short1", "é🙂", "ſ", "\u212a", "İ", "ß", "Ǆ", "ς", "x", "7"}),
		rapid.SampledFrom([]string{"spawn ", "ENOENT", "EAGAIN", "enomem", "EACCES", "Executable not found", "Not connected", "MCP error -32602: Tool ", " not found", "Unknown tool: ", "Error POSTing to endpoint", "session not found"}),
		rapid.StringN(0, 6, -1),
		rapid.Map(rapid.IntRange(1, 300), func(n int) string { return strings.Repeat("word ", n) }),
	}
	return strings.ToValidUTF8(strings.Join(rapid.SliceOfN(rapid.OneOf(pieces...), 1, 30).Draw(t, "pieces"), ""), "?")
})

func TestBothEnginesSayTheSameOfAnyError(t *testing.T) {
	inPlugin := inGoja(t, "{}")
	rapid.Check(t, func(t *rapid.T) {
		text := errorTexts.Draw(t, "error")
		if diff := cmp.Diff(judge(text), inPlugin(t, text)); diff != "" {
			t.Fatalf("%q (-reconnect +plugin):\n%s", text, diff)
		}
	})
}

// TestRuntimesSayTheSameOfAnyError: none of them reads a pattern in a way of its own.
func TestRuntimesSayTheSameOfAnyError(t *testing.T) {
	var texts []string
	for seed := range 2000 {
		texts = append(texts, errorTexts.Example(seed))
	}
	texts = append(texts, hostile...)
	var want []verdict
	for _, text := range texts {
		want = append(want, judge(text))
	}
	for runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			for n, got := range judgeIn(t, runtime, texts) {
				if diff := cmp.Diff(want[n], got); diff != "" {
					t.Errorf("%.2000q (-reconnect +%s):\n%s", texts[n], runtime, diff)
				}
			}
		})
	}
}

// hostile are long texts that make patterns go back and forth.
var hostile = func() (texts []string) {
	for _, piece := range []string{
		"-", "a", "a1", "word ", "é🙂", "key", "key ", "key=", "key:", "key\"", "--key ", "key'", "token\u00a0", "\u200b", "key\u200b", "://", "a://", "a://b:c@", "a://b:c ", "a:", "a:b@", "@", "<key ", "<key>",
		"authorization:", "authorization ", "bearer ", "bearer:", "basic", "-----BEGIN KEY-----", "\\", "\\\"", "key=\\\"", "key=\"\\", "key='", "key=''", "&quot;", "key=&quot;", "&", `\u0022`, `key=\u0022`, "[", "key=[", "{", "key={",
		"spawn ", "spawn", "ENOENT ", "EAGAIN", "Error POSTing to endpoint", "MCP error -32602: Tool ", "Unknown tool: ", "\x1b[", "\x1b[1;", "\x00", "\n", "\ufeff", "-u a:", "%3a%2f%2f", "provided ", "key provided ", "x-key\",", "“", "=",
	} {
		texts = append(texts, strings.Repeat(piece, 200_000/len(piece)), strings.Repeat(piece, 200_000/len(piece))+"!", strings.Repeat(piece, 900/len(piece)), "key=\""+strings.Repeat(piece, 800/len(piece))+"\x01")
	}
	return texts
}()

// TestSecretsAreNeverTold quotes secrets of any characters in every way that quotes them
// in full.
func TestSecretsAreNeverTold(t *testing.T) {
	name := rapid.SampledFrom([]string{"token", "API_KEY", "x-api-key", "GITHUB_TOKEN", "Password", "dbPasswd", "passphrase", "client_secret", "authToken", "credentials", "PAſſWORD", "to\u212aen", "authorization", "Cookie"})
	blank := rapid.SampledFrom([]string{" ", "", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b", " \ufeff", "\u2800", "\u0085", "\x00", "     \n "})
	without := func(t *rapid.T, chars string) string {
		any := rapid.StringN(0, 20, -1).Draw(t, "any") + rapid.StringOfN(rapid.RuneFrom([]rune("\"'`\\,;&<>[]{}()@:/?#%=+-. \u00a0\u2003\u200b\ufeff\n\x00é🙂7")), 0, 20, -1).Draw(t, "more")
		return "hunter2" + strings.Map(func(r rune) rune {
			if strings.ContainsRune(chars, r) {
				return -1
			}
			return r
		}, any) + "swordfish"
	}
	const blanks, quotes = " \t\n\v\f\r\x00", "\"'`"
	ways := map[string]func(t *rapid.T) string{
		"URL":        func(t *rapid.T) string { return "db://ann:" + without(t, blanks+"\"`<>") + "@host/db" },
		"URL's user": func(t *rapid.T) string { return "db://" + without(t, blanks+"\"`<>?#") + "@host/db" },
		"URL's query": func(t *rapid.T) string {
			return "https://" + rapid.SampledFrom([]string{"", "ann@", "ann:hunter2@"}).Draw(t, "user") + "host/mcp?x=" + without(t, blanks+"\"`<>'")
		},
		"header": func(t *rapid.T) string { return name.Draw(t, "name") + ":" + without(t, blanks+quotes+",;&") },
		"Authorization": func(t *rapid.T) string {
			return "Authorization:" + blank.Draw(t, "blank") + "scheme " + without(t, "\n"+quotes)
		},
		"bearer": func(t *rapid.T) string { return "bearer " + blank.Draw(t, "blank") + without(t, blanks+quotes+",;&") },
		"=": func(t *rapid.T) string {
			return name.Draw(t, "name") + blank.Draw(t, "blank") + "=" + blank.Draw(t, "blank") + without(t, blanks+quotes+",;&")
		},
		"flag": func(t *rapid.T) string {
			return "x --" + name.Draw(t, "name") + " " + blank.Draw(t, "blank") + without(t, blanks+quotes+",;&")
		},
		"quotes": func(t *rapid.T) string {
			quote := rapid.SampledFrom([]string{"''", "\"\"", "``", "“”", "‘’", "«»"}).Draw(t, "quotes")
			open, size := utf8.DecodeRuneInString(quote)
			return name.Draw(t, "name") + blank.Draw(t, "blank") + "=" + blank.Draw(t, "blank") + string(open) + without(t, quote+"\\") + quote[size:]
		},
		"JSON": func(t *rapid.T) string {
			text := marshal(map[string]string{name.Draw(t, "name"): without(t, ""), "z": "z"})
			for range rapid.IntRange(0, 2).Draw(t, "levels") {
				text = marshal(text)
			}
			return text
		},
		"list":    func(t *rapid.T) string { return marshal([]string{"--" + name.Draw(t, "name"), without(t, "")}) },
		"headers": func(t *rapid.T) string { return marshal(map[string][]string{name.Draw(t, "name"): {without(t, "]")}}) },
		"XML":     func(t *rapid.T) string { return "<password>" + without(t, "<") + "</password>" },
		"HTML": func(t *rapid.T) string {
			return html.EscapeString(marshal(map[string]string{name.Draw(t, "name"): without(t, "\\")}))
		},
	}
	for way, quoted := range ways {
		t.Run(way, rapid.MakeCheck(func(t *rapid.T) {
			before := rapid.SampledFrom([]string{"", "refused: ", "{", "(", "\n"}).Draw(t, "before")
			if rapid.Bool().Draw(t, "late") { // it may be cut in the midst of the secret
				before = "key=" + strings.Repeat("x", rapid.IntRange(900, 1000).Draw(t, "length")) + " "
			}
			text := before + quoted(t) + rapid.SampledFrom([]string{"", " refused", "\n", "\"", "'"}).Draw(t, "after")
			if told := harmless(text); strings.Contains(told, "hunter2") || strings.Contains(told, "swordfish") {
				t.Fatalf("%q is told as %q", text, told)
			}
		}))
	}
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestVariablesOfOpenCodeAreNeverTold: the plugin knows what is secret in its own process.
func TestVariablesOfOpenCodeAreNeverTold(t *testing.T) {
	judge := inGoja(t, `{"API_KEY": "swordfish", "OTHER_TOKEN": "swordfish99", "MCP_AUTHORIZATION": "open sesame", "DB_PASS": "a$&b[c", "A_PASS": "short", "PWD": "/home/ann",
		"OLDPWD": "/home/bob", "GIT_AUTHOR_NAME": "Ann Smith", "XAUTHORITY": "/home/ann/.X", "EMPTY_TOKEN": ""}`)
	for said, want := range map[string]string{
		"invalid token swordfish":                 "invalid token …",
		"swordfish99 and swordfish":               "… and …", // the longer one begins as the other does
		"say open sesame":                         "say …",
		"a$&b[c is wrong":                         "… is wrong",
		"in short, no":                            "in short, no",
		"spawn /home/ann/x ENOENT":                "spawn /home/ann/x ENOENT",
		"spawn /home/bob/x ENOENT":                "spawn /home/bob/x ENOENT",
		"Ann Smith, /home/ann/.X":                 "Ann Smith, /home/ann/.X",
		strings.Repeat("x ", 496) + "swordfish99": strings.Repeat("x ", 100),
	} {
		if got := judge(t, said).Told; got != want {
			t.Errorf("%q is told as %q, want %q", said, got, want)
		}
	}
}

// TestPatternsMeanTheSameInEveryEngine forbids what RE2, V8 and JavaScriptCore read in
// ways of their own. With the flags iu, JavaScriptCore takes neither U+017F for an s nor
// U+212A for a k where they meet a class, and takes them for none in its complement.
func TestPatternsMeanTheSameInEveryEngine(t *testing.T) {
	patterns := map[string]bool{shared().Cut: true, shared().Variable: true}
	for _, s := range shared().Secrets {
		patterns[s.Pattern] = true
		for _, pattern := range s.When {
			patterns[pattern] = true
		}
		if strings.Contains(s.Instead, "$") && (s.When != nil || regexp.MustCompile(`\$[^1-9]|\$.[A-Za-z0-9_]`).MatchString(s.Instead)) {
			t.Errorf("%s: %q is not the same in Go and in JavaScript", s.What, s.Instead)
		}
	}
	for _, kind := range shared().Errors {
		for _, pattern := range kind {
			patterns[pattern] = true
		}
	}
	var cased []rune // letters that have another case
	for r := range rune(unicode.MaxRune) {
		if unicode.SimpleFold(r) != r {
			cased = append(cased, r)
		}
	}
	class := regexp.MustCompile(`\[(\^?)((?:[^\]\\]|\\.)+)\]`)
	repeated := regexp.MustCompile(`\{([A-Za-z]+)\}(?:[?*+]|\{[0-9])`)
	check := func(pattern string) {
		for _, match := range repeated.FindAllStringSubmatch(class.ReplaceAllString(pattern, "x"), -1) {
			if !strings.HasPrefix(string(shared().Parts[match[1]]), "(?:") {
				t.Errorf("%s: only the end of %s is repeated: make it a list", pattern, match[1])
			}
		}
	}
	for _, part := range shared().Parts {
		check(string(part))
	}
	for pattern := range patterns {
		check(pattern)
		text := spelledOut(pattern)
		bare := class.ReplaceAllString(text, "x")
		if bad := regexp.MustCompile(`\\[A-Za-mo-z0-9]`).FindString(text); bad != "" {
			t.Errorf("%s: what %s means differs: write it out", pattern, bad)
		}
		if bad := regexp.MustCompile(`\(\?[^:]|(?:^|[^\\])\.|[*+?}]\+`).FindString(bare); bad != "" {
			t.Errorf("%s: %s is not the same everywhere", pattern, bad)
		}
		if expression(pattern).MatchString("") {
			t.Errorf("%s: it matches nothing at all, which is replaced more often in JavaScript", pattern)
		}
		for _, c := range class.FindAllStringSubmatch(text, -1) {
			in := regexp.MustCompile("[" + c[2] + "]")
			for _, r := range cased {
				if !in.MatchString(string(r)) {
					continue
				}
				if c[1] != "" {
					t.Errorf("%s: %q in a complement", pattern, r)
					break
				}
				if other := unicode.SimpleFold(r); r < utf8.RuneSelf && other >= utf8.RuneSelf && !in.MatchString(string(other)) {
					t.Errorf("%s: %q without %q", pattern, r, other)
				}
			}
		}
	}
}

// TestNoPatternIsCompiledBeforeItIsNeeded: OpenCode starts with each plugin.
func TestNoPatternIsCompiledBeforeItIsNeeded(t *testing.T) {
	judge := inGoja(t, "{}")
	if v := judge(t, "…compiled"); v.Told != "0" {
		t.Errorf("%s patterns are compiled at the start", v.Told)
	}
}

// TestSharedDataIsComplete: no phase goes unexplained.
func TestSharedDataIsComplete(t *testing.T) {
	for _, phase := range []string{waiting, trying, parked, dormant, up, aside, "skipped", "dead", "outdated"} {
		if shared().Phases[phase] == "" {
			t.Errorf("what does %s mean?", phase)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(template.Shared()))
	var constants struct{ Constants map[string]int }
	if err := decoder.Decode(&constants); err != nil {
		t.Fatal(err)
	}
	for name, value := range constants.Constants {
		if value <= 0 {
			t.Errorf("%s is %d", name, value)
		}
	}
	if c := shared().Constants; c.LookGap != time.Second || c.WakeGap != time.Minute || c.ReadLimit != 3*time.Minute || c.MissingTries != 3 || c.ErrorLength != 200 || c.Examined == 0 || c.Classified == 0 {
		t.Errorf("%+v", c)
	}
}
