package configmerge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	url  = "file:///data/a%20b/mcp-reconnect/"
	ours = `"` + url + `"`
	// oursMarked is our entry in a list that was there and was empty.
	oursMarked = `"\u0066ile:///data/a%20b/mcp-reconnect/"`
)

// spellings are other texts that mean the same plugin. Which they are is for the caller to say, here as in the command.
var spellings = []string{
	"/data/a b/mcp-reconnect",
	"file:///data/a%20b/mcp-reconnect",
	"file:///data/%61%20b/mcp-reconnect/",
	"file:///data/a%20b/mcp-reconnect/plugin.js",
}

// spelled writes our entry out in tables of tests.
var spelled = strings.NewReplacer("OURS", ours, "MARKED", oursMarked)

var entry = Entry{URL: url, Means: func(spec string) bool { return slices.Contains(spellings, spec) }}

func TestMerge(t *testing.T) {
	tests := []struct{ name, content, want string }{
		// Nothing there.
		{"empty", "", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"blank", " \t\r\n ", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"byte order mark alone", "\ufeff", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"byte order mark and blank", "\ufeff \n", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"no members", "{}", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"no members but comments", "// a\n{ /* b */ // c\n}\n// d", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},

		// Something there: nothing but the entry is added (B4, B8).
		{"no plugin key", `{"model":"m"}`, `{"model":"m","plugin":[OURS]}`},
		{"schema alone", `{"$schema":"https://opencode.ai/config.json"}`, `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`},
		{"empty list", `{"plugin":[]}`, `{"plugin":[MARKED]}`},
		{"empty list, merged before", `{"plugin":[MARKED]}`, `{"plugin":[MARKED]}`},
		{"empty list, merged before in another spelling", `{"plugin":[["\u002fdata/a b/mcp-reconnect",{}],OURS]}`, `{"plugin":[MARKED]}`},
		{"a marked entry is no longer alone", `{"plugin":[MARKED,"a"]}`, `{"plugin":["a",OURS]}`},
		{"list", `{"plugin":["a"],"model":"m"}`, `{"plugin":["a",OURS],"model":"m"}`},

		// JSONC (B9, F8).
		{"comments and trailing commas", "{ // c\n \"plugin\": [\"a\",], }", `{"plugin":["a",OURS]}`},
		{"byte order mark", "\ufeff{\"a\":1}", `{"a":1,"plugin":[OURS]}`},
		{"CRLF", "{\r\n  \"a\": 1, // c\r\n  \"b\": 2\r\n}\r\n", `{"a":1,"b":2,"plugin":[OURS]}`},
		{"lone CR ends a comment", "{\"a\":1, // c\r\"b\":2\n}", `{"a":1,"b":2,"plugin":[OURS]}`},
		{"comment ends with the text", `{"a":1} // c`, `{"a":1,"plugin":[OURS]}`},
		{"line separator in a comment", "{\"a\":1} // c\u2028", `{"a":1,"plugin":[OURS]}`},
		{"comment between any two tokens", "/*1*/{/*2*/\"plugin\"/*3*/:/*4*/[/*5*/\"a\"/*6*/,/*7*/]/*8*/,/*9*/}/*10*/", `{"plugin":["a",OURS]}`},
		{"quotes and brackets in comments", "{ // \"[{\n/* \"]} // */ \"a\":1}", `{"a":1,"plugin":[OURS]}`},
		{"strings that look like comments", `{"a":"x,]","b":"/* no */","c":"http://h//p","d":"\"// \\",}`, `{"a":"x,]","b":"/* no */","c":"http://h//p","d":"\"// \\","plugin":[OURS]}`},

		// Ours stands once and last; the spelling does not matter (B12).
		{"ours already", `{"plugin":[OURS]}`, `{"plugin":[OURS]}`},
		{"ours moves to the end", `{"plugin":[OURS,"a"]}`, `{"plugin":["a",OURS]}`},
		{"ours twice", `{"plugin":[OURS,"a",OURS,"b"]}`, `{"plugin":["a","b",OURS]}`},
		{"ours with options", `{"plugin":["a",[OURS,{"x":1}],[OURS]]}`, `{"plugin":["a",OURS]}`},
		{"ours with escapes", `{"plugin":["file:\/\/\/data\/a%20b\/mcp-reconnec\u0074\/"]}`, `{"plugin":[OURS]}`},
		{"ours as a path", `{"plugin":["/data/a b/mcp-reconnect","a"]}`, `{"plugin":["a",OURS]}`},
		{"ours with another encoding", `{"plugin":["file:///data/%61%20b/mcp-reconnect/","a"]}`, `{"plugin":["a",OURS]}`},
		{"our file", `{"plugin":[["file:///data/a%20b/mcp-reconnect/plugin.js",{}],"a"]}`, `{"plugin":["a",OURS]}`},
		{"equal after a merge of two lists", `{"plugin":["a","a"]}`, `{"plugin":["a","a",OURS]}`},

		// What is not ours survives byte for byte (B13, B14).
		{"the same base name", `{"plugin":["file:///home/u/other/mcp-reconnect/"]}`, `{"plugin":["file:///home/u/other/mcp-reconnect/",OURS]}`},
		{"every type", `{"plugin":[null,true,0,-0,1e5,"",[],["x"],["x",{}],[[OURS],1],{},{"package":OURS}]}`, `{"plugin":[null,true,0,-0,1e5,"",[],["x"],["x",{}],[[OURS],1],{},{"package":OURS},OURS]}`},
		{"ours in the wrong place", `{"plugin":[["x",OURS],[[OURS]],{"x":OURS}]}`, `{"plugin":[["x",OURS],[[OURS]],{"x":OURS},OURS]}`},
		{"ours under another key", `{"Plugin":[OURS],"x":{"plugin":[OURS]}}`, `{"Plugin":[OURS],"x":{"plugin":[OURS]},"plugin":[OURS]}`},
		{"what is an entry in the other list", `{"plugin":[{"package":OURS}],"plugins":[[OURS,{}]]}`, `{"plugin":[{"package":OURS},OURS],"plugins":[[OURS,{}]]}`},
		{"long numbers", `{"x":12345678901234567890,"y":1e400,"z":1.0,"n":-0}`, `{"x":12345678901234567890,"y":1e400,"z":1.0,"n":-0,"plugin":[OURS]}`},
		{"tokens", `{"k":"{env:KEY}","f":"{file:./x y}","plugin":["{env:P}"]}`, `{"k":"{env:KEY}","f":"{file:./x y}","plugin":["{env:P}",OURS]}`},
		{"escapes as written", `{"a":"\u0026 & \u003c < \/ / \u00e9 é \u2028 ` + "\u2028" + ` \ud83d\ude00 😀 \ud800 \u0000"}`, `{"a":"\u0026 & \u003c < \/ / \u00e9 é \u2028 ` + "\u2028" + ` \ud83d\ude00 😀 \ud800 \u0000","plugin":[OURS]}`},
		{"key order", `{"z":1,"a":{"y":1,"b":2},"m":3}`, `{"z":1,"a":{"y":1,"b":2},"m":3,"plugin":[OURS]}`},
		{"keys that are path syntax", `{"a.b":1,"plugin.x":2,"plugin.-1":2,"@pretty":3,"plu*":4,"plug?n":5,"":6,"-1":7,":plugin":8,"#":9,"a|b":10,"\\plugin":11,"!":12}`,
			`{"a.b":1,"plugin.x":2,"plugin.-1":2,"@pretty":3,"plu*":4,"plug?n":5,"":6,"-1":7,":plugin":8,"#":9,"a|b":10,"\\plugin":11,"!":12,"plugin":[OURS]}`},
		{"keys that differ a little", `{"Plugin":1,"plugin ":2,"plugin\u0000":3,"plugin\ud800":4,"plugin\ud800\u0061":5}`, `{"Plugin":1,"plugin ":2,"plugin\u0000":3,"plugin\ud800":4,"plugin\ud800\u0061":5,"plugin":[OURS]}`},

		// OpenCode 2's list (B15, B16).
		{"version 2", `{"plugins":["a"],"providers":{"p":{}}}`, `{"plugins":["a",OURS],"providers":{"p":{}}}`},
		{"version 2, empty", `{"plugins":[]}`, `{"plugins":[MARKED]}`},
		{"version 2, ours in every form", `{"plugins":[OURS,{"package":OURS,"options":{}},"-x",{"package":"a"},{"package":"/data/a b/mcp-reconnect"},{}]}`,
			`{"plugins":["-x",{"package":"a"},{},OURS]}`},
		{"version 2, of duplicate keys the last counts", `{"plugins":["a"],"plu\u0067ins":["b",{"package":OURS,"package":"c"}]}`,
			`{"plugins":["a"],"plu\u0067ins":["b",{"package":OURS,"package":"c"},OURS]}`},
		{"both", `{"plugin":["a"],"plugins":["b"]}`, `{"plugin":["a",OURS],"plugins":["b"]}`},
		{"both, ours in either", `{"plugins":["b",OURS],"plugin":[OURS,"a"]}`, `{"plugins":["b"],"plugin":["a",OURS]}`},
		{"both, ours under plugins alone", `{"plugin":[],"plugins":[{"package":OURS}]}`, `{"plugin":[MARKED],"plugins":[]}`},
		{"plugins beside another key of version 1", `{"plugins":["a",OURS],"provider":{}}`, `{"plugins":["a"],"provider":{},"plugin":[OURS]}`},
		{"plugins that are no list", `{"plugins":{"x":1},"model":"m"}`, `{"plugins":{"x":1},"model":"m","plugin":[OURS]}`},
		{"plugins that are no list, beside plugin", `{"plugins":null,"plugin":["a"]}`, `{"plugins":null,"plugin":["a",OURS]}`},
		{"plugins that are a list no more", `{"plugins":[OURS],"plugins":"x"}`, `{"plugins":[OURS],"plugins":"x","plugin":[OURS]}`},
		{"plugins beside a key of version 1 further down", `{"plugins":[],"x":{"provider":{}}}`, `{"plugins":[MARKED],"x":{"provider":{}}}`},
		{"keys of version 2 without plugins", `{"providers":{}}`, `{"providers":{},"plugin":[OURS]}`},

		// Of duplicate keys the last one counts; keys are compared decoded.
		{"key with an escape", `{"plu\u0067in":["a"]}`, `{"plu\u0067in":["a",OURS]}`},
		{"key all in escapes", `{"\u0070\u006c\u0075\u0067\u0069\u006e":["a"]}`, `{"\u0070\u006c\u0075\u0067\u0069\u006e":["a",OURS]}`},
		{"duplicates", `{"plugin":["a",OURS],"x":1,"plugin":["b"]}`, `{"plugin":["a",OURS],"x":1,"plugin":["b",OURS]}`},
		{"duplicates in two spellings", `{"plugin":["a"],"plu\u0067in":["b",OURS,"c"]}`, `{"plugin":["a"],"plu\u0067in":["b","c",OURS]}`},
		{"duplicates of which only the last is a list", `{"plugin":null,"plugin":"x","plugin":[]}`, `{"plugin":null,"plugin":"x","plugin":[MARKED]}`},
		{"other duplicates", `{"a":1,"a":2,"b":{"c":1,"c":2}}`, `{"a":1,"a":2,"b":{"c":1,"c":2},"plugin":[OURS]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			content, want := spelled.Replace(test.content), spelled.Replace(test.want)
			got, err := Merge(content, entry)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := Merge(got, entry)
			if again != got || err != nil {
				t.Errorf("merging twice: %s, %v", again, err)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"empty", "", ""},
		{"blank", "\ufeff \n", ""},
		{"no members", "{ /* c */ }", ""},
		{"what Merge makes from nothing", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS]}`, ""},
		{"schema alone, which was never ours", `{"$schema":"https://opencode.ai/config.json"}`, `{"$schema":"https://opencode.ai/config.json"}`},
		{"schema alone, in another spelling", `{"$schema":"https:\/\/opencode.ai/config.json","plugin":[OURS]}`, ""},
		{"another schema", `{"$schema":"https://example.com/","plugin":[OURS]}`, `{"$schema":"https://example.com/"}`},
		{"ours alone", `{"plugin":[OURS]}`, ""},
		{"ours at the start", `{"plugin":[OURS],"a":1}`, `{"a":1}`},
		{"ours in the middle", `{"a":1,"plugin":[OURS],"b":2}`, `{"a":1,"b":2}`},
		{"ours at the end", `{"a":1,"plugin":[OURS]}`, `{"a":1}`},
		{"key with an escape", `{"a":1,"plu\u0067in":[OURS],"b":"\","}`, `{"a":1,"b":"\","}`},
		{"ours among others", `{"plugin":[OURS,"a",["/data/a b/mcp-reconnect",{}],"b",OURS]}`, `{"plugin":["a","b"]}`},
		{"not there", "{ \"plugin\": [ \"a\", ], // c\n}", `{"plugin":["a"]}`},
		{"empty list that was empty before", `{"plugin":[]}`, `{"plugin":[]}`},
		{"empty list with a marked entry", `{"model":"m","plugin":[MARKED]}`, `{"model":"m","plugin":[]}`},
		{"nothing but an empty list", `{"plugin":[MARKED]}`, `{"plugin":[]}`},
		{"schema and an empty list", `{"$schema":"https://opencode.ai/config.json","plugin":[OURS,MARKED]}`, `{"$schema":"https://opencode.ai/config.json","plugin":[]}`},
		{"a marked entry among others", `{"plugin":[MARKED,"a"]}`, `{"plugin":["a"]}`},
		{"no list", `{"a":1.0}`, `{"a":1.0}`},
		{"duplicate stays shadowed", `{"plugin":["a"],"plugin":[OURS]}`, `{"plugin":["a"],"plugin":[]}`},
		{"ours in a shadowed duplicate", `{"plugin":[OURS],"plugin":["a"]}`, `{"plugin":[OURS],"plugin":["a"]}`},
		{"under another key", `{"Plugin":[OURS]}`, `{"Plugin":[OURS]}`},
		{"version 2", `{"plugins":["a",OURS,{"package":OURS}],"providers":{}}`, `{"plugins":["a"],"providers":{}}`},
		{"version 2, alone", `{"plugins":[OURS]}`, `{"plugins":[]}`},
		{"both, where plugin alone makes it OpenCode 1's", `{"plugins":[OURS,"b"],"plugin":[OURS]}`, `{"plugins":["b"],"plugin":[]}`},
		{"both, where another key does, too", `{"plugins":[OURS,"b"],"plugin":[OURS],"tools":{}}`, `{"plugins":["b"],"tools":{}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			content, want := spelled.Replace(test.content), spelled.Replace(test.want)
			got, err := Remove(content, entry)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := Remove(got, entry)
			if again != got || err != nil {
				t.Errorf("removing twice: %s, %v", again, err)
			}
		})
	}
}

func TestEntry(t *testing.T) {
	for url, want := range map[string]string{
		"file:///a&b/<c>":       `{"a":1,"plugin":["file:///a&b/<c>"]}`,
		"file:///é/漢/":          `{"a":1,"plugin":["file:///é/漢/"]}`,
		`file:///a"b\c/`:        `{"a":1,"plugin":["file:///a\"b\\c/"]}`,
		"file:///a\n\u2028\x7f": `{"a":1,"plugin":["file:///a\n\u2028` + "\x7f" + `"]}`,
	} {
		e := Entry{URL: url} // without Means
		if got, err := Remove(`{"plugin":["a"]}`, e); got != `{"plugin":["a"]}` || err != nil {
			t.Errorf("%q: %s, %v", url, got, err)
		}
		got, err := Merge(`{"a":1}`, e)
		if got != want || err != nil {
			t.Errorf("%q: got %s, %v; want %s", url, got, err, want)
		}
		if again, err := Merge(got, e); again != got || err != nil {
			t.Errorf("%q: merging twice: %s, %v", url, again, err)
		}
		if got, err = Remove(got, e); got != `{"a":1}` || err != nil {
			t.Errorf("%q: removed: %s, %v", url, got, err)
		}
	}

	// Means is asked for texts alone, decoded.
	var asked []string
	e := Entry{URL: url, Means: func(spec string) bool { asked = append(asked, spec); return true }}
	got, err := Merge(`{"plugin":[null,1,{},[],[null,"a"],"\u00e9","",["b"],`+ours+`]}`, e)
	if want := `{"plugin":[null,1,{},[],[null,"a"],` + ours + `]}`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if diff := cmp.Diff([]string{"é", "", "b"}, asked); diff != "" {
		t.Errorf("Means was asked, -want +got:\n%s", diff)
	}

	for _, url := range []string{"", "file:///\xff/"} {
		if got, err := Merge(`{"plugin":[""]}`, Entry{URL: url}); got != "" || !errors.Is(err, errEntry) {
			t.Errorf("Merge with URL %q: %q, %v", url, got, err)
		}
		if got, err := Remove(`{"plugin":[""]}`, Entry{URL: url}); got != "" || !errors.Is(err, errEntry) {
			t.Errorf("Remove with URL %q: %q, %v", url, got, err)
		}
	}
}

// TestLarge holds documents that a step of quadratic cost, or one call for each level, would not survive. Each is to
// take tenths of a second at the very most; the limit leaves room for a slow machine and the race detector.
func TestLarge(t *testing.T) {
	const n = 100_000
	repeat := func(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text, n), ",") }
	for name, content := range map[string]string{
		"entries":           `{"plugin":[` + repeat(`"file:///x",`, n) + `]}`,
		"entries of ours":   `{"plugin":[` + repeat(`"/data/a b/mcp-reconnect",`, n) + `]}`,
		"tuples":            `{"plugin":[` + repeat(`["x",{"a":[1]}],`, n) + `]}`,
		"one wide tuple":    `{"plugin":[[` + repeat(`"x",`, n) + `]]}`,
		"keys":              `{` + repeat(`"key":[1],`, n) + `}`,
		"plugin keys":       `{` + repeat(`"plugi\u006e":["a"],`, n) + `}`,
		"white space":       strings.Repeat(" \n", 5*n) + `{"a":1}` + strings.Repeat("\r\n", 5*n),
		"line comments":     strings.Repeat("// c\n", 2*n) + `{"a":1}`,
		"block comments":    `{"a":1` + strings.Repeat("/**/", 2*n) + `}`,
		"one long comment":  `{"a":1/*` + strings.Repeat("* /", 5*n) + `*/}`,
		"one long string":   `{"a":"` + strings.Repeat("x", 10*n) + `"}`,
		"backslashes":       `{"a":"` + strings.Repeat(`\\`, 5*n) + `"}`,
		"quotes":            `{"a":"` + strings.Repeat(`\"`, 5*n) + `"}`,
		"nested":            `{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`,
		"nested, many":      `{"a":[` + repeat(strings.Repeat("[", 100)+strings.Repeat("]", 100)+",", n/20) + `]}`,
		"too deep":          strings.Repeat("[", 100*n),
		"too deep, objects": strings.Repeat(`{"a":`, 20*n),
		"closing brackets":  strings.Repeat("]", 100*n),
		"open comments":     `{"a":1}` + strings.Repeat("/*", 5*n),
		"open string":       `{"a":"` + strings.Repeat("x", 10*n),
		"newlines, fault":   strings.Repeat("\n", 10*n) + "x",
		"not UTF-8":         `{"a":"` + strings.Repeat("é", 5*n) + "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Merge(content, entry)
			var syntax *SyntaxError
			if err != nil && !errors.As(err, &syntax) {
				t.Error(err)
			}
			if err == nil && strings.Count(got, ours) != 1 {
				t.Error("our entry does not stand there once")
			}
			if back, err := Remove(got, entry); err != nil || strings.Contains(back, ours) {
				t.Errorf("Remove: %v", err)
			}
			if name == "entries of ours" {
				return // a file that holds so many is nobody's
			}
			file, fileErr := Insert(content, entry)
			if fmt.Sprint(fileErr) != fmt.Sprint(err) {
				t.Errorf("Insert: %v, want %v", fileErr, err)
			}
			if back, _, err := Delete(file, entry); err != nil || fileErr == nil && back != content {
				t.Errorf("Delete: %v", err)
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"32KiB", 32 << 10}, {"1MiB", 1 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			content := realistic(size.bytes)
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Merge(content, entry); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// realistic returns a commented configuration of about the given size.
func realistic(size int) string {
	const head = `{
  // The project's configuration.
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/claude-sonnet-4", /* the default */
  "plugin": [
    "opencode-helicone-session",
    ["file:///home/u/plugins/notify.js", { "sound": false }], // with options
    "file:///data/%61%20b/mcp-reconnect/",
  ],
  "mcp": {
`
	const server = `    // A server of the build machine.
    "server": {
      "type": "remote", "url": "https://mcp.example.com/v1//x", "enabled": true, "timeout": 15000,
      "headers": { "Authorization": "Bearer {env:MCP_TOKEN}", "X-Note": "quotes \"\u00e9\" & commas ,]" },
    },
`
	var b bytes.Buffer
	b.WriteString(head)
	for b.Len()+len(server) < size {
		b.WriteString(server)
	}
	b.WriteString("  },\n}\n")
	return b.String()
}
