package shellenv

import (
	"encoding/json"
	"strings"
	"testing"
)

// nastyValues are texts that some shell, file format or reader is known to trip over.
func nastyValues() []string {
	values := []string{
		// Blank, and blanks where they get lost.
		"", " ", "  ", "\t", " a", "a ", "  a  b   c  ", "\ta\t", "a \t b",
		// Quotes of all kinds.
		`'a'`, `"a"`, "`a`", `''`, `""`, `'"'"'`, `it's`, `"it's"`, `'\''`, `\'`, `\"`, `'''`, `"""`, `a'b"c`, "$'a'",
		"\u2018a\u2019", "\u201aa\u201b", "\u201ca\u201d\u201e", "\u00aba\u00bb", "\uff07\uff02", "\u00b4",
		// Backslashes.
		`\`, `\\`, `\\\`, `a\`, `a\b`, `a\\b`, `\n`, `\t\r\0\x41\u0041`, `C:\Users\José\AppData`, `\\server\share\`, `a\ b`, `\$HOME`,
		// Expansion.
		`$HOME`, `${HOME}`, `$(id)`, `$((1+1))`, "`id`", `$$`, `$?`, `$1`, `$@`, `$`, `a$`, `$env:PATH`, `$(Get-Date)`, `%PATH%`, `%%`, `%1`, `^%PATH^%`, `!PATH!`, `%s%n`, `{env:HOME}`, `{file:~/x}`,
		// History.
		`!!`, `!x`, `!$`, `!`, `a!`, `! a`, `!=`, `!(a)`, `^a^b^`, `\!`, `\\!`, `'!'`,
		// Globs and braces, and tildes.
		`*`, `?`, `[a]`, `[!a]`, `a*`, `**/*`, `.*`, `{a,b}`, `{1..3}`, `{}`, `{`, `}`, `[`, `]`, `[[`, `@(a|b)`, `+(a)`, `~`, `~/x`, `~root`, `a:~`, `=ls`, `a=~`,
		// Operators, comments, options and assignments.
		`a;b`, `a&b`, `a&&b`, `a|b`, `<a>`, `>&2`, `2>&1`, `(a)`, `#`, `# a`, `a # b`, `a#b`, `;`, `-n`, `-e`, `--`, `-`, `=`, `a=b`, `A=b`, `export A=b`, `:`, `@`, `+`, `,`, `\;`,
		// Lines.
		"\n", "\n\n", "a\nb", "\na", "a\n", "a\n\n\nb\n", "a\\\nb", "a\n2>&1\nb", "a\nEOF\nb", "EOF", "a\nghadelimiter_x\nb", "a\nA=b\nc", "A<<EOF", "a\n# b\nc", "it's\na line", "$a\n'b'", "\"a\"\n\\n", "';\necho a\n'",
		"\r", "a\rb", "a\r\nb", "a\r\n", "a\r", "a\nb\r",
		// Control characters and terminal escapes.
		"\x01", "\a\b\v\f", "\x1b[31mred\x1b[0m", "\x1b]0;title\a", "\x7f", "\x1a", "\x04",
		// Unicode.
		"é", "e\u0301", "ß", "日本語", "😀", "👩\u200d💻", "🇩🇪", "\u202eabc", "שלום", "العربية", "a\u2028b\u2029c", "a\u0085b", "\u00a0", "\ufeff", "a\ufeffb", "\ufffd", "\ufdd0", "\uffff", "\U0010ffff", "\u3000a\u3000",
		// Other people's syntax.
		`{"a":"b"}`, `<a href='x'>&amp;</a>`, "</script>", "${{ secrets.X }}", "::set-env name=A::b", `'; DROP TABLE a; --`, "%{a}", "{{.A}}", "REM a", "/* a */", "//",
		strings.Repeat("long é' \"x\\ $y ", 100*1024/16),
	}
	for c := ' '; c <= '~'; c++ {
		values = append(values, string(c))
	}
	return values
}

func TestNastyValuesAreMany(t *testing.T) {
	seen := map[string]bool{}
	for _, value := range nastyValues() {
		seen[value] = true
	}
	if len(seen) < 200 {
		t.Errorf("%d different values, want 200 at least", len(seen))
	}
}

// configurations are merged configurations as mcp-reconnect has them, strict and
// compact, from what people write, and one with every nasty value as text and as key.
func configurations(t testing.TB) []string {
	t.Helper()
	type object map[string]any
	nasty := object{}
	for _, value := range nastyValues() {
		if len(value) < 1024 {
			nasty["k"+value] = []any{value, object{value: nil}}
		}
	}
	all, err := json.Marshal(object{"mcp": nasty})
	if err != nil {
		t.Fatal(err)
	}
	configs := []string{
		`{}`,
		`{"plugin":["file:///home/ann/.local/share/mcp-reconnect"]}`,
		`{"$schema":"https://opencode.ai/config.json","plugin":["file:///C:/Users/Jos%C3%A9/AppData/Local/mcp-reconnect"]}`,
		`{"$schema":"https://opencode.ai/config.json","model":"anthropic/claude-sonnet-4-5","provider":{"anthropic":{"options":{"apiKey":"{env:ANTHROPIC_API_KEY}","baseURL":"https://proxy.example/v1?a=1&b=2#frag"}},"fake":{"npm":"@ai-sdk/openai-compatible","options":{"apiKey":"{file:~/.config/keys/my key.txt}"},"models":{"m":{"name":"M (50% off!)","limit":{"context":200000,"output":8192},"cost":{"input":0.15,"output":1e-7,"cache_read":12345678901234567890}}}}},"plugin":["opencode-helicone-session@1.2.3",["./plugin.ts",{"deep":[[[]],[{}],[[1,2],[3,-4.5e+10]]]}],"file:///tmp/a%20b/%23%C3%BC"]}`,
		`{"mcp":{"files":{"type":"local","command":["npx","-y","@modelcontextprotocol/server-filesystem","/home/ann/My Documents","~/notes","*.md","$HOME/{a,b}"],"environment":{"TOKEN":"{env:FILES_TOKEN}","PATTERN":"^[a-z]+(\\.[0-9]{1,3})?$","WIN":"C:\\Program Files\\nodejs\\node.exe","EMPTY":""},"enabled":true,"timeout":30000},"search":{"type":"remote","url":"https://mcp.example.com/sse?key=ab%2Fcd&x=[1]","headers":{"Authorization":"Bearer {env:SEARCH_TOKEN}","X-Path":"{file:{env:HOME}/.token}"},"oauth":false}},"plugin":["file:///srv/x"]}`,
		`{"agent":{"review":{"description":"Reviews code – thoroughly","prompt":"You are a reviewer.\n\n# Rules\n1. Don't say \"LGTM\" unless it's true!\n2. Use ` + "`git diff HEAD~1`" + ` and $(git log --oneline | head -5).\n\t* Never run rm -rf ~/* or touch C:\\\\.\r\n3. “Smart quotes” and ‘these’ are fine; so is 日本語, עברית and 👩‍💻.\n\n\n    indented   with   blanks\n!!! {env:NOT CLOSED and {file: neither\n","tools":{"bash":false,"mcp_*":true,"edit":{"*.md":"ask","**":"deny"}},"temperature":0.1}},"instructions":["docs/**/*.md","{a,b}.txt","[!x]?.md","~/AGENTS.md"],"plugin":[]}`,
		`{"permission":{"bash":{"*":"ask","git *":"allow","rm -rf *":"deny","echo ?":"allow","[ -f x ] && y || z":"ask"}},"keybinds":{"leader":"ctrl+x","app_exit":"<leader>q"},"theme":"\u00fc\ud83d\ude00\/x","a\\b":{"":null,"plu\u0067in":[true,false,null]},"plugin":["file:///a","\t\u0000\u001b[0m\u007f\u2028"]}`,
		string(all),
	}
	for i, config := range configs {
		if !json.Valid([]byte(config)) {
			t.Fatalf("configuration %d is not JSON", i)
		}
	}
	return configs
}
