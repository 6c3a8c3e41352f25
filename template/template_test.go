package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"pgregory.net/rapid"

	"github.com/dop251/goja"
	"github.com/mcp-reconnect/mcp-reconnect/template"
)

var hosts = map[string]template.Host{"OpenCode 1": template.OpenCode1, "OpenCode 2": template.OpenCode2}

func render(t rapid.TB, host template.Host, data template.Data) string {
	t.Helper()
	renderings, err := template.Render(data, host)
	if err != nil {
		t.Fatal(err)
	}
	return string(renderings[0].Bytes())
}

// parse fails the test unless the text is an ES module, and returns it as CommonJS.
func parse(t rapid.TB, js string) string {
	t.Helper()
	result := api.Transform(js, api.TransformOptions{
		Format: api.FormatCommonJS, LogLevel: api.LogLevelSilent,
		Define: map[string]string{"import.meta.url": `""`}, // CommonJS has none
	})
	for _, m := range append(result.Errors, result.Warnings...) {
		t.Fatalf("line %d: %s\n%s", m.Location.Line, m.Text, m.Location.LineText)
	}
	return string(result.Code)
}

type settings struct {
	Only  []string `json:"only"`
	Skip  []string `json:"skip"`
	Start string   `json:"start"`
}

var hostile = []string{
	`"`, `'`, "`", `\`, `\\"`, "${process.exit(1)}", "`${1}`", "</script><script>", "<!--", "\u2028", "\u2029", "\r\n",
	`"]; globalThis.pwned = true; //`, `*/ globalThis.pwned = true /*`, "\x00", "{{.Version}}", "é漢🙂", `\u0022`, `$&`,
}

func TestSettingsCannotLeaveTheirStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := settings{Only: []string{}, Skip: []string{}, Start: "use"}
		for range rapid.IntRange(0, 3).Draw(t, "patterns") {
			parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(hostile), rapid.String())).Draw(t, "pattern")
			value.Only = append(value.Only, strings.ToValidUTF8(strings.Join(parts, ""), "?"))
		}
		js := render(t, hosts[rapid.SampledFrom([]string{"OpenCode 1", "OpenCode 2"}).Draw(t, "host")], template.Data{Version: "1.2.3", Settings: value})
		if strings.ContainsAny(js, "\u2028\u2029") || strings.Contains(js, "</script") || strings.Contains(js, "<!--") {
			t.Fatal("the rendering holds what ends a line or a script element")
		}
		// What the script sees is what was given, and nothing else happened.
		vm := goja.New()
		source := parse(t, js+"\nexport const settings = JSON.stringify(SETTINGS)")
		if _, err := vm.RunString("var module = {exports: {}}, require = () => ({});" + source); err != nil {
			t.Fatal(err)
		}
		if vm.Get("pwned") != nil {
			t.Fatal("a pattern was run")
		}
		got, err := vm.RunString("module.exports.settings")
		if err != nil {
			t.Fatal(err)
		}
		var back settings
		if err := json.Unmarshal([]byte(got.String()), &back); err != nil {
			t.Fatal(err)
		}
		if len(back.Only) != len(value.Only) {
			t.Fatalf("got %q, want %q", back.Only, value.Only)
		}
		for i := range back.Only {
			if back.Only[i] != value.Only[i] {
				t.Fatalf("got %q, want %q", back.Only[i], value.Only[i])
			}
		}
	})
}

func TestRenderingIsAModuleWithOneDefaultExport(t *testing.T) {
	for name, export := range map[string]string{
		"OpenCode 1": "export default async function ",
		"OpenCode 2": `export default { id: "mcp-reconnect", setup }`,
	} {
		js := render(t, hosts[name], template.Data{Version: "1.2.3", Settings: settings{Only: []string{}, Skip: []string{}}})
		exports := 0
		for line := range strings.Lines(js) {
			if strings.HasPrefix(line, "export ") {
				exports++
				if !strings.HasPrefix(line, export) {
					t.Errorf("%s: exported besides the plugin: %s", name, line)
				}
			}
			if strings.HasPrefix(line, "import ") && !strings.Contains(line, `"node:`) {
				t.Errorf("%s: imports more than Node's built-ins: %s", name, line)
			}
		}
		if exports != 1 {
			t.Errorf("%s: %d exports, want 1", name, exports)
		}
		parse(t, js)
	}
}

// TestOneCoreForEveryHost: the renderings differ in the adapter at their end alone.
func TestOneCoreForEveryHost(t *testing.T) {
	cores := map[string]bool{}
	for name, host := range hosts {
		core, adapter, found := strings.Cut(render(t, host, template.Data{Version: "1.2.3", Settings: settings{}}), "// ---- "+name+" ---")
		if !found || strings.Contains(adapter, "// ---- ") {
			t.Errorf("%s: its adapter is not at the end", name)
		}
		cores[core] = true
	}
	if len(cores) != 1 {
		t.Error("the renderings differ in more than their adapters")
	}
}

func TestFirstLineIsTheMarkerWithTheVersion(t *testing.T) {
	for name, host := range hosts {
		js := render(t, host, template.Data{Version: "1.2.3-rc.1+b", Settings: settings{Only: []string{}, Skip: []string{}}})
		first, _, _ := strings.Cut(js, "\n")
		if first != template.Marker+"1.2.3-rc.1+b. DO NOT EDIT." {
			t.Errorf("%s: first line: %s", name, first)
		}
	}
}

func TestSameDataGivesTheSameBytes(t *testing.T) {
	data := template.Data{Version: "1.2.3", Settings: settings{Only: []string{"a"}}}
	for name, host := range hosts {
		first := render(t, host, data)
		if second := render(t, host, data); second != first {
			t.Errorf("%s: two renderings differ", name)
		}
	}
}

func TestMalformedVersionIsRefused(t *testing.T) {
	for _, version := range []string{"", "1\n2", "1 2", "1\u2028alert()", "*/"} {
		if _, err := template.Render(template.Data{Version: version}, template.OpenCode1); err == nil {
			t.Errorf("version %q was rendered", version)
		}
	}
}
