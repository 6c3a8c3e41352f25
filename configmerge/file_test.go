package configmerge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inserts are files as people have them, and what they become.
var inserts = []struct{ name, content, want string }{
	// On the line.
	{"minified", `{"model":"m","plugin":["a","b"],"x":[1,2]}`, `{"model":"m","plugin":["a","b",OURS],"x":[1,2]}`},
	{"minified, one entry", `{"plugin":["a"]}`, `{"plugin":["a",OURS]}`},
	{"one entry", "{\n  \"plugin\": [\"a\"]\n}\n", "{\n  \"plugin\": [\"a\", OURS]\n}\n"},
	{"as the last separator is", "{\"plugin\": [ \"a\",\t\"b\" ]}", "{\"plugin\": [ \"a\",\t\"b\",\tOURS ]}"},
	{"trailing comma", `{"plugin": ["a", "b",], }`, `{"plugin": ["a", "b", OURS,], }`},
	{"trailing comma and blanks", `{"plugin": ["a" , ]}`, `{"plugin": ["a" , OURS, ]}`},
	{"comments", `{"plugin": [/* 1 */ "a" /* 2 */, /* 3 */ "b" /* 4 */]}`, `{"plugin": [/* 1 */ "a" /* 2 */, /* 3 */ "b" /* 4 */, OURS]}`},
	{"comment behind the trailing comma", `{"plugin": ["a", /* b */ ]}`, `{"plugin": ["a", /* b */ OURS, ]}`},
	{"entries of every type", `{"plugin": ["{env:P}", ["file:///x", {"a": [1.0]}], null, 1e5]}`, `{"plugin": ["{env:P}", ["file:///x", {"a": [1.0]}], null, 1e5, OURS]}`},
	{"a list over lines, its end on the last", "{\n  \"plugin\": [\"a\",\n             \"b\"]\n}", "{\n  \"plugin\": [\"a\",\n             \"b\",\n             OURS]\n}"},

	// On a line of its own.
	{"lines", "{\n  \"plugin\": [\n    \"a\",\n    \"b\"\n  ]\n}\n", "{\n  \"plugin\": [\n    \"a\",\n    \"b\",\n    OURS\n  ]\n}\n"},
	{"tabs, trailing commas, no final newline", "{\n\t\"plugin\": [\n\t\t\"a\",\n\t],\n}", "{\n\t\"plugin\": [\n\t\t\"a\",\n\t\tOURS,\n\t],\n}"},
	{"CRLF", "{\r\n  \"plugin\": [\r\n    \"a\"\r\n  ]\r\n}\r\n", "{\r\n  \"plugin\": [\r\n    \"a\",\r\n    OURS\r\n  ]\r\n}\r\n"},
	{"lone CR", "{\r  \"plugin\": [\r    \"a\" // c\r  ]\r}\r", "{\r  \"plugin\": [\r    \"a\", // c\r    OURS\r  ]\r}\r"},
	{"byte order mark", "\ufeff{\n  \"plugin\": [\n    \"a\"\n  ]\n}\n", "\ufeff{\n  \"plugin\": [\n    \"a\",\n    OURS\n  ]\n}\n"},
	{"the line end of the neighbours", "{\n  \"plugin\": [\r\n    \"a\"\n  ]\n}\r\n", "{\n  \"plugin\": [\r\n    \"a\",\r\n    OURS\n  ]\n}\r\n"},
	{"behind the last one's comment", "{\n  \"plugin\": [\n    \"a\", // first\n    \"b\" // second  \n  ]\n}", "{\n  \"plugin\": [\n    \"a\", // first\n    \"b\", // second  \n    OURS\n  ]\n}"},
	{"behind the last one's comment, trailing comma", "{\n  \"plugin\": [\n    \"a\", // first\n    \"b\", // second, \"c\"]\n  ],\n}", "{\n  \"plugin\": [\n    \"a\", // first\n    \"b\", // second, \"c\"]\n    OURS,\n  ],\n}"},
	{"behind a block comment", "{\n  \"plugin\": [\n    \"b\" /* second,\n    and more */\n  ]\n}", "{\n  \"plugin\": [\n    \"b\" /* second,\n    and more */,\n    OURS\n  ]\n}"},
	{"behind two comments", "{\n  \"plugin\": [\n    \"b\" /* x */ // y\n  ]\n}", "{\n  \"plugin\": [\n    \"b\", /* x */ // y\n    OURS\n  ]\n}"},
	{"comments without blanks", "{\"plugin\": [\n  \"a\"/* x *//* y */// z\n]}", "{\"plugin\": [\n  \"a\",/* x *//* y */// z\n  OURS\n]}"},
	{"before plugins that are commented out", "{\n  \"plugin\": [\n    // \"x\",\n    \"a\",\n    // \"y\",\n  ]\n}", "{\n  \"plugin\": [\n    // \"x\",\n    \"a\",\n    OURS,\n    // \"y\",\n  ]\n}"},
	{"one line that ends in a comment", "{\n  \"plugin\": [\"a\", \"b\" // both\n  ]\n}", "{\n  \"plugin\": [\"a\", \"b\", // both\n    OURS\n  ]\n}"},
	{"the comma on the next line", "{\n  \"plugin\": [\n    \"a\"\n  , \"b\"\n  ]\n}", "{\n  \"plugin\": [\n    \"a\"\n  , \"b\", OURS\n  ]\n}"},
	{"blank lines", "{\n\n  \"plugin\": [\n\n    \"a\",\n\n    \"b\"\n\n  ]\n\n}\n\n", "{\n\n  \"plugin\": [\n\n    \"a\",\n\n    \"b\",\n    OURS\n\n  ]\n\n}\n\n"},
	{"without indentation", "{\n\"plugin\": [\n\"a\"\n]\n}", "{\n\"plugin\": [\n\"a\",\nOURS\n]\n}"},

	// An empty list.
	{"empty list", `{"model":"m","plugin":[]}`, `{"model":"m","plugin":[MARKED]}`},
	{"empty list with a blank", `{"plugin": [ ]}`, `{"plugin": [MARKED ]}`},
	{"empty list over lines", "{\n  \"plugin\": [\n  ],\n}", "{\n  \"plugin\": [\n    MARKED\n  ],\n}"},
	{"empty list over CRLF lines, tabs", "{\r\n\t\"plugin\": [\r\n\t]\r\n}", "{\r\n\t\"plugin\": [\r\n\t\tMARKED\r\n\t]\r\n}"},
	{"all plugins commented out", "{\n  \"plugin\": [\n    // \"x\",\n      // \"y\",\n  ]\n}", "{\n  \"plugin\": [\n    // \"x\",\n      // \"y\",\n      MARKED\n  ]\n}"},
	{"a comment behind the bracket", "{\n  \"plugin\": [ // none\n  ]\n}", "{\n  \"plugin\": [ // none\n    MARKED\n  ]\n}"},
	{"a block comment in the list", `{"plugin": [ /* none */ ]}`, `{"plugin": [ /* none */ MARKED ]}`},
	{"a block comment over lines", "{\n  \"plugin\": [\n    /* \"x\"\n     */\n  ]\n}", "{\n  \"plugin\": [\n    /* \"x\"\n     */\n    MARKED\n  ]\n}"},

	// A list that we make.
	{"no members", `{}`, `{"plugin": [OURS]}`},
	{"no members, over lines", "{\n}\n", "{\n  \"plugin\": [\n    OURS\n  ]\n}\n"},
	{"no members but comments", "// a\n{\n\t// \"model\": \"m\"\n}\n", "// a\n{\n\t// \"model\": \"m\"\n\t\"plugin\": [\n\t\tOURS\n\t]\n}\n"},
	{"what OpenCode writes", "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}", "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"plugin\": [\n    OURS\n  ]\n}"},
	{"minified, no list", `{"model":"m","x":{"plugin":[]}}`, `{"model":"m","x":{"plugin":[]},"plugin":[OURS]}`},
	{"one line, no list", `{ "model": "m", "x": 1 }`, `{ "model": "m", "x": 1, "plugin": [OURS] }`},
	{"tabs and a trailing comma, no list", "{\n\t\"model\": \"m\", // mine\n\t// \"plugin\": [\"x\"],\n}\n", "{\n\t\"model\": \"m\", // mine\n\t\"plugin\": [\n\t\tOURS\n\t],\n\t// \"plugin\": [\"x\"],\n}\n"},
	{"four blanks, CRLF, no list", "{\r\n    \"model\" :  \"m\"\r\n}\r\n", "{\r\n    \"model\" :  \"m\",\r\n    \"plugin\": [\r\n        OURS\r\n    ]\r\n}\r\n"},
	{"a member over lines", "{\n  \"mcp\": {\n    \"a\": {}\n  } // end\n}", "{\n  \"mcp\": {\n    \"a\": {}\n  }, // end\n  \"plugin\": [\n    OURS\n  ]\n}"},
	{"indented as a whole", "  {\n    \"a\": 1\n  }\n", "  {\n    \"a\": 1,\n    \"plugin\": [\n      OURS\n    ]\n  }\n"},

	{"a comment behind the end", "{\"a\": 1 // c\n}\n// d\n", "{\"a\": 1, // c\n  \"plugin\": [\n    OURS\n  ]\n}\n// d\n"},

	// Which list.
	{"OpenCode 2", "{\n  \"plugins\": [\n    \"a\", // c\n  ],\n  \"providers\": {},\n}", "{\n  \"plugins\": [\n    \"a\", // c\n    OURS,\n  ],\n  \"providers\": {},\n}"},
	{"OpenCode 2, empty", `{"plugins": []}`, `{"plugins": [MARKED]}`},
	{"both", `{"plugins":["b"],"plugin":["a"]}`, `{"plugins":["b"],"plugin":["a",OURS]}`},
	{"plugins beside a key of OpenCode 1", `{"plugins":["b"],"provider":{}}`, `{"plugins":["b"],"provider":{},"plugin":[OURS]}`},
	{"plugins that are no list", `{"plugins":{"x":["a"]}}`, `{"plugins":{"x":["a"]},"plugin":[OURS]}`},
	{"of duplicate keys the last", `{"plugin":[OURS],"a":1,"plu\u0067in":["b"],"b":2}`, `{"plugin":[OURS],"a":1,"plu\u0067in":["b",OURS],"b":2}`},
	{"of duplicate keys the last, empty", `{"plugin":null,"plugin":[]}`, `{"plugin":null,"plugin":[MARKED]}`},

	// Blank: the file is there.
	{"blank", " \n", newFile(oursMarked, "\n") + " \n"},
	{"blank, CRLF", "\r\n", newFile(oursMarked, "\r\n") + "\r\n"},
	{"byte order mark alone", "\ufeff", "\ufeff" + newFile(oursMarked, "\n")},

	{"as people have them", `// My configuration
{
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/claude-sonnet-4", /* the default */
  // Agents.
  "agent": {
    "review": { "prompt": "{file:./review.md}", "tools": { "plugin": ["x"], "write": false } },
  },
  "plugin": [
    // "opencode-old", – not any more, ]
    "opencode-helicone-session",
    ["file:///home/ü/plugins/notify.js", { "sound": false }], // with options
  ],
  "mcp": {
    // "github": { "type": "remote", "url": "https://x//y" },
    "mail": { "headers": { "Authorization": "Bearer {env:TOKEN}" }, "timeout": 1.50e4 },
  },
}
`, `// My configuration
{
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/claude-sonnet-4", /* the default */
  // Agents.
  "agent": {
    "review": { "prompt": "{file:./review.md}", "tools": { "plugin": ["x"], "write": false } },
  },
  "plugin": [
    // "opencode-old", – not any more, ]
    "opencode-helicone-session",
    ["file:///home/ü/plugins/notify.js", { "sound": false }], // with options
    OURS,
  ],
  "mcp": {
    // "github": { "type": "remote", "url": "https://x//y" },
    "mail": { "headers": { "Authorization": "Bearer {env:TOKEN}" }, "timeout": 1.50e4 },
  },
}
`},
}

func TestInsert(t *testing.T) {
	for _, test := range inserts {
		t.Run(test.name, func(t *testing.T) {
			content, want := spelled.Replace(test.content), spelled.Replace(test.want)
			got := mustInsert(t, content)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := mustInsert(t, got); again != got {
				t.Errorf("inserting twice: %q", again)
			}
			back, whole := mustDelete(t, got)
			if diff := cmp.Diff(content, back); diff != "" || whole {
				t.Errorf("taken out again (the whole file: %v), -want +got:\n%s", whole, diff)
			}
		})
	}
}

func TestInsertWhereOursIs(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"there", `{"plugin": [OURS , "a"]}`, `{"plugin": [OURS , "a"]}`},
		{"marked", `{"plugin": [ "a", MARKED ]}`, `{"plugin": [ "a", MARKED ]}`},
		{"with escapes", `{"plugin":["file:\/\/\/data\/a%20b\/mcp-reconnect/"]}`, `{"plugin":["file:\/\/\/data\/a%20b\/mcp-reconnect/"]}`},
		{"in another spelling", `{"plugin": [/* x */ "/data/a b/mcp-reconnect" /* y */, "a"]}`, `{"plugin": [/* x */ OURS /* y */, "a"]}`},
		{"in another spelling, marked", `{"plugin": ["\u002fdata/a b/mcp-reconnect"]}`, `{"plugin": [MARKED]}`},
		{"with options", "{\"plugin\": [\n  [OURS, {\"x\": 1}], // c\n  \"a\"]}", "{\"plugin\": [\n  OURS, // c\n  \"a\"]}"},
		{"as an object of OpenCode 2", `{"plugins": [{"package": "x", "package": OURS}]}`, `{"plugins": [OURS]}`},
		{"twice", "{\"plugin\": [OURS, \"a\", \"/data/a b/mcp-reconnect\" /* c */, \"b\", OURS, OURS,]}", `{"plugin": [OURS, "a", /* c */ "b",]}`},
		{"twice, at the end", "{\"plugin\": [OURS, // c\n OURS\n]}", "{\"plugin\": [OURS // c\n]}"},
		{"twice, marked", `{"plugin": [OURS, MARKED]}`, `{"plugin": [MARKED]}`},
		{"in both lists", `{"plugins": [OURS, "a"], "plugin": [OURS]}`, `{"plugins": ["a"], "plugin": [OURS]}`},
		{"first of three", `{"plugins": [OURS,	"a", "b"], "tools": {}}`, `{"plugins": ["a", "b"], "tools": {}, "plugin": [OURS]}`},
		{"in the wrong list", `{"plugins": [OURS], "tools": {}}`, `{"plugins": [], "tools": {}, "plugin": [OURS]}`},
		{"for OpenCode 2", `{"plugins": ["a", OURS], "providers": {}}`, `{"plugins": ["a", OURS], "providers": {}}`},
	} {
		content, want := spelled.Replace(test.content), spelled.Replace(test.want)
		got := mustInsert(t, content)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
		if again := mustInsert(t, got); again != got {
			t.Errorf("%s: inserting twice: %q", test.name, again)
		}
	}
}

func TestDelete(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"not there", "{ \"plugin\": [ \"a\", ], // c\n}", "{ \"plugin\": [ \"a\", ], // c\n}"},
		{"nothing", "", ""},
		{"blank for Unicode", "\u00a0", "\u00a0"},
		{"in a shadowed list", `{"plugin":[OURS],"plugin":["a"]}`, `{"plugin":[OURS],"plugin":["a"]}`},
		{"alone", `{"a": 1, "plugin": [OURS]}`, `{"a": 1}`},
		{"alone, in another spelling", `{"a": 1, "plugin": [["/data/a b/mcp-reconnect", {}],]}`, `{"a": 1}`},
		{"alone, marked", `{"plugin": [MARKED, ], "a": 1}`, `{"plugin": [ ], "a": 1}`},
		{"alone, and of duplicate keys the last", `{"plugin":["a"],"plugin":[OURS]}`, `{"plugin":["a"],"plugin":[]}`},
		{"alone, and the one key of OpenCode 1", `{"plugins":["b"],"plugin":[OURS]}`, `{"plugins":["b"],"plugin":[]}`},
		{"alone for OpenCode 2", `{"plugins":[OURS]}`, `{"plugins":[]}`},
		{"every one", "{\n  \"plugins\": [OURS],\n  \"plugin\": [OURS, \"a\", // c\n    [OURS], \"b\"]\n}", "{\n  \"plugins\": [],\n  \"plugin\": [\"a\", // c\n    \"b\"]\n}"},
		{"all that is left of a schema", "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"plugin\": [\n    OURS\n  ]\n}\n", "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n"},

		// What people write around it.
		{"an entry behind ours", "{\n  \"plugin\": [\n    OURS,\n    \"b\"\n  ]\n}", "{\n  \"plugin\": [\n    \"b\"\n  ]\n}"},
		{"an entry behind ours on its line", "{\n  \"plugin\": [\n    \"a\", // c\n    OURS, \"b\"\n  ]\n}", "{\n  \"plugin\": [\n    \"a\", // c\n    \"b\"\n  ]\n}"},
		{"a key behind our list", "{\n  \"a\": 1, // c\n  \"plugin\": [\n    OURS\n  ],\n  \"b\": 2\n}", "{\n  \"a\": 1, // c\n  \"b\": 2\n}"},
		{"a key behind our list on its line", "{ // c\n  \"plugin\": [OURS], \"b\": 2\n}", "{ // c\n  \"b\": 2\n}"},
		{"a comment behind ours", "{\n  \"plugin\": [\n    \"a\", // c\n    OURS // d\n  ]\n}", "{\n  \"plugin\": [\n    \"a\" // c\n     // d\n  ]\n}"},
		{"a comment before our comma", "{\n  \"plugin\": [\n    OURS // d\n    , /* e */ \"b\"]\n}", "{\n  \"plugin\": [ // d\n     /* e */ \"b\"]\n}"},
		{"a comment in our list", "{\n  \"a\": 1,\n  \"plugin\": [\n    // \"b\",\n    OURS\n  ]\n}", "{\n  \"a\": 1,\n  \"plugin\": [\n    // \"b\",\n  ]\n}"},
		{"a comment behind our key", `{"plugin" /* c */: [OURS]}`, `{"plugin" /* c */: []}`},
		{"a comma of its own in our list", `{"plugin": [OURS,],}`, `{}`},
	} {
		content, want := spelled.Replace(test.content), spelled.Replace(test.want)
		got, whole := mustDelete(t, content)
		if diff := cmp.Diff(want, got); diff != "" || whole {
			t.Errorf("%s (the whole file: %v): -want +got:\n%s", test.name, whole, diff)
		}
		if again, _ := mustDelete(t, got); again != got {
			t.Errorf("%s: deleting twice: %q", test.name, again)
		}
	}
}

// TestFileOfOurs: a file that we made goes, and one that was there stays, however little was in it.
func TestFileOfOurs(t *testing.T) {
	made := mustInsert(t, "")
	want := "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"plugin\": [ " + ours + " ]\n}\n"
	if made != want {
		t.Errorf("no file becomes %q, want %q", made, want)
	}
	blank, err := InsertBlank(entry)
	if want := strings.Replace(want, ours, oursMarked, 1); blank != want || err != nil {
		t.Errorf("an empty file becomes %q, %v, want %q", blank, err, want)
	}
	if _, err := InsertBlank(Entry{}); !errors.Is(err, errEntry) {
		t.Errorf("without a URL: %v", err)
	}
	for _, content := range []string{made, blank} {
		if got := mustInsert(t, content); got != content {
			t.Errorf("%q: inserting twice: %q", content, got)
		}
	}
	elsewhere := strings.ReplaceAll(made, url, spellings[1])
	for content, whole := range map[string]bool{
		made:                                   true,
		strings.ReplaceAll(made, "\n", "\r\n"): true, // Git may do that
		elsewhere:                              true,
		blank:                                  false,
		strings.ReplaceAll(elsewhere, `"f`, `"\u0066`): false,
	} {
		if got, gotWhole := mustDelete(t, content); got != "" || gotWhole != whole {
			t.Errorf("%q becomes %q, the whole file: %v", content, got, gotWhole)
		}
	}
	for _, content := range []string{"\ufeff" + made, made + "\n", " " + made, made + "// c", blank + "// c", strings.Replace(made, "\n  ", "\n\t", 1), strings.Replace(made, "  ", "  \"a\": 1,", 1)} {
		if got, whole := mustDelete(t, content); got == "" || whole {
			t.Errorf("%q becomes %q, the whole file: %v", content, got, whole)
		}
	}
	// Whatever else there is without an entry of ours becomes something else.
	for _, list := range []string{"[]", "[ ]", "[  ]", "[\n  ]", "[\n]"} {
		with := strings.Replace(made, "[ "+ours+" ]", list, 1)
		without := strings.Replace(made, ",\n  \"plugin\": [ "+ours+" ]", "", 1)
		for _, content := range []string{with, without, with + "\n", "\ufeff" + with} {
			if got := mustInsert(t, content); slices.Contains([]string{made, blank}, got) {
				t.Errorf("%q becomes what a new file is", content)
			}
			if got, whole := mustDelete(t, mustInsert(t, content)); got != content || whole {
				t.Errorf("%q comes back as %q, the whole file: %v", content, got, whole)
			}
		}
	}
}

func TestFileFaults(t *testing.T) {
	for _, test := range faults {
		name := test.content[:min(len(test.content), 40)]
		got, err := Insert(test.content, entry)
		text, whole, err2 := Delete(test.content, entry)
		for function, err := range map[string]error{"Insert": err, "Delete": err2} {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || err.Error() != test.want || syntax.Hint != test.hint || got+text != "" || whole {
				t.Errorf("%s(%q): %v, want %s", function, name, err, test.want)
			}
		}
	}
	// Blank for Merge, since nothing is lost there; what becomes of a file has to be read again.
	_, err := Insert("\ufeff\n \u00a0", entry)
	if want := "line 2, column 2: expected an object"; err == nil || err.Error() != want {
		t.Errorf("blanks of Unicode: %v, want %s", err, want)
	}
	for _, e := range []Entry{{}, {URL: "file:///\xff/"}} {
		_, err := Insert("", e)
		_, _, err2 := Delete("{}", e)
		if !errors.Is(err, errEntry) || !errors.Is(err2, errEntry) {
			t.Errorf("%q: %v, %v", e.URL, err, err2)
		}
	}
}

func mustInsert(t interface{ Fatalf(string, ...any) }, content string) string {
	got, err := Insert(content, entry)
	if err != nil {
		t.Fatalf("Insert(%q): %v", content, err)
	}
	return got
}

func mustDelete(t interface{ Fatalf(string, ...any) }, content string) (string, bool) {
	text, whole, err := Delete(content, entry)
	if err != nil {
		t.Fatalf("Delete(%q): %v", content, err)
	}
	return text, whole
}
