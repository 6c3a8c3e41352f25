package configmerge

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The model of a document: what it says, and how each of its literals is spelled.
type (
	model interface {
		// strict writes the model as strict, compact JSON.
		strict(b *strings.Builder)
		// jsonc writes the model as JSONC with random white space, comments and trailing commas.
		jsonc(t *rapid.T, b *strings.Builder)
	}
	literal string // as spelled
	list    []model
	object  []member
	member  struct {
		key   string  // decoded
		name  literal // as spelled
		value model
	}
	plugin struct {
		model
		ours, marked bool
	}
)

func (l literal) strict(b *strings.Builder) { b.WriteString(string(l)) }

func (l list) strict(b *strings.Builder) {
	b.WriteByte('[')
	for i, value := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		value.strict(b)
	}
	b.WriteByte(']')
}

func (o object) strict(b *strings.Builder) {
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		m.name.strict(b)
		b.WriteByte(':')
		m.value.strict(b)
	}
	b.WriteByte('}')
}

func strictText(m model) string {
	var b strings.Builder
	m.strict(&b)
	return b.String()
}

var (
	genSpace = rapid.SampledFrom([]string{
		"", "", "", "", " ", "  ", "\t", "\n", "\r\n", "\r", "// sk-secret é\n", "// ,]}\"\r\n", "//\r", "// \u2028\n",
		"/* sk-secret */", "/* \"{[ // \n */", "/*/,*/", "/***/",
	})
	genTail  = rapid.SampledFrom([]string{"", "\n", "\r\n", "// c", "//", "/* c */", "\t"})
	genWords = rapid.SampledFrom([]string{
		`"a"`, `"file:///home/u/other/mcp-reconnect/"`, `"file:///data/a b/mcp-reconnect"`, `"{env:KEY}"`, `"{file:./x}"`,
		`"\u0026 & \/ /"`, `"x,]"`, `"/* no */"`, `"http://h//p"`, `"é漢😀` + "\u2028\u2029\x7f" + `"`, `"\ud800"`, `"\\"`, `"\""`, `""`,
		`"plugin"`, `"sk-secret"`,
		"null", "true", "false", "0", "-0", "1.0", "1e400", "12345678901234567890", "-1.50E-07",
	})
	genKeys = rapid.SampledFrom([]string{
		"a", "b", "$schema", "model", "provider", "providers", "tools", "a.b", "plugin.x", "@pretty", "plu*", "", "-1", "é", "Plugin", "sk-secret", "\u2028", "\\", `"`,
	})
)

func space(t *rapid.T, b *strings.Builder) {
	b.WriteString(genSpace.Draw(t, "space"))
}

func (l literal) jsonc(_ *rapid.T, b *strings.Builder) { b.WriteString(string(l)) }

func (l list) jsonc(t *rapid.T, b *strings.Builder) {
	b.WriteByte('[')
	for i, value := range l {
		space(t, b)
		value.jsonc(t, b)
		comma(t, b, i == len(l)-1)
	}
	space(t, b)
	b.WriteByte(']')
}

func (o object) jsonc(t *rapid.T, b *strings.Builder) {
	b.WriteByte('{')
	for i, m := range o {
		space(t, b)
		m.name.jsonc(t, b)
		space(t, b)
		b.WriteByte(':')
		space(t, b)
		m.value.jsonc(t, b)
		comma(t, b, i == len(o)-1)
	}
	space(t, b)
	b.WriteByte('}')
}

func comma(t *rapid.T, b *strings.Builder, last bool) {
	space(t, b)
	if !last || rapid.Bool().Draw(t, "trailing comma") {
		b.WriteByte(',')
	}
}

// spell writes s as a JSON string, some of its characters as escapes.
func spell(t *rapid.T, s string) literal {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case rapid.IntRange(0, 9).Draw(t, "escape") == 0 && r <= 0xffff:
			const hex = "0123456789aBcDeF"
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hex[r>>shift&15])
			}
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			b.WriteString(`\u00`)
			b.WriteByte('0' + byte(r>>4))
			b.WriteByte("0123456789abcdef"[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return literal(b.String())
}

func drawValue(t *rapid.T, depth int) model {
	switch n := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case depth < 3 && n == 0:
		l := list{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			l = append(l, drawValue(t, depth+1))
		}
		return l
	case depth < 3 && n == 1:
		o := object{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			key := rapid.OneOf(genKeys, rapid.SampledFrom([]string{"plugin", "plugins"})).Draw(t, "key")
			o = append(o, member{key, spell(t, key), drawValue(t, depth+1)})
		}
		return o
	}
	return literal(genWords.Draw(t, "literal"))
}

// drawPlugin draws an entry of the list of that name.
func drawPlugin(t *rapid.T, name string) plugin {
	spec := spell(t, rapid.SampledFrom(append([]string{url}, spellings...)).Draw(t, "spelling"))
	marked := strings.HasPrefix(string(spec), `"\u`)
	named := func(key string, value model) member { return member{key, spell(t, key), value} }
	switch rapid.IntRange(0, 6).Draw(t, "entry") {
	case 0:
		return plugin{spec, true, marked}
	case 1:
		return plugin{list{spec, drawValue(t, 2)}, name == "plugin", marked}
	case 2:
		return plugin{list{list{spec}, spec}, false, false}
	case 3:
		return plugin{list{literal(`"a"`), spec}, false, false}
	case 4:
		return plugin{object{named("options", drawValue(t, 2)), named("package", literal(`"a"`)), named("package", spec)}, name == "plugins", marked}
	case 5:
		return plugin{object{named("package", spec), named("package", literal(`"a"`))}, false, false}
	}
	return plugin{drawValue(t, 1), false, false}
}

// drawDocument draws a configuration: any members, and in most of them one or more plugin lists. Before the last of
// those of a name a key that reads the same may hold anything.
func drawDocument(t *rapid.T) object {
	o := object{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		key := genKeys.Draw(t, "key")
		value := drawValue(t, 0)
		if key == "$schema" && rapid.Bool().Draw(t, "our schema") {
			value = spell(t, Schema)
		}
		o = append(o, member{key, spell(t, key), value})
	}
	for _, name := range []string{"plugin", "plugins"} {
		for i, n := 0, rapid.SampledFrom([]int{0, 0, 1, 1, 1, 2, 3}).Draw(t, name+" keys"); i < n; i++ {
			var value model = drawValue(t, 0)
			if _, isList := value.(list); isList || i == n-1 && name == "plugin" || rapid.IntRange(0, 3).Draw(t, "is a list") > 0 {
				l := list{}
				for range rapid.IntRange(0, 5).Draw(t, "entries") {
					l = append(l, drawPlugin(t, name))
				}
				value = l
			}
			// Where they stand among the other members does not matter, as long as the list stays the last of its key.
			from := 0
			for j, m := range o {
				if m.key == name {
					from = j + 1
				}
			}
			o = slices.Insert(o, rapid.IntRange(from, len(o)).Draw(t, "place"), member{name, spell(t, name), value})
		}
	}
	return o
}

func drawText(t *rapid.T, o object) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"", "", "", "\ufeff"}).Draw(t, "byte order mark"))
	space(t, &b)
	o.jsonc(t, &b)
	space(t, &b)
	b.WriteString(genTail.Draw(t, "tail"))
	return b.String()
}

// effective returns the place of the member that is the list of that name, or -1, and how many keys read the same. Other
// values of "plugins" are none of ours.
func (o object) effective(name string) (place, keys int) {
	place = -1
	for i, m := range o {
		if m.key == name {
			place = i
			keys++
		}
	}
	if place >= 0 {
		if _, ok := o[place].value.(list); !ok {
			return -1, keys
		}
	}
	return place, keys
}

// keeps reports whether an empty "plugin" is to stay, as the one key by which the document is OpenCode 1's.
func (o object) keeps() bool {
	place, _ := o.effective("plugins")
	return place >= 0 && !slices.ContainsFunc(o, func(m member) bool { return m.key == "provider" || m.key == "tools" })
}

// merged says what Merge has to make of a document, and removed what Remove has to.
func (o object) merged() object {
	if len(o) == 0 {
		return object{{"$schema", `"$schema"`, literal(`"` + Schema + `"`)}, {"plugin", `"plugin"`, list{literal(ours)}}}
	}
	o = slices.Clone(o)
	place, _ := o.effective("plugin")
	place2, _ := o.effective("plugins")
	if place2 >= 0 {
		if !o.version1() {
			o[place2].value = with(o[place2].value)
			return o
		}
		o[place2].value, _, _ = split(o[place2].value)
	}
	if place < 0 {
		return append(o, member{"plugin", `"plugin"`, list{literal(ours)}})
	}
	o[place].value = with(o[place].value)
	return o
}

// with returns a list with our entry last, marked if the list was empty or held marked ones of ours alone.
func with(value model) list {
	kept, dropped, marked := split(value)
	if len(kept) == 0 && (dropped == 0 || marked) {
		return list{literal(oursMarked)}
	}
	return append(kept, literal(ours))
}

// version1 reports whether OpenCode 2 may take the document for one of OpenCode 1.
func (o object) version1() bool {
	return slices.ContainsFunc(o, func(m member) bool { return m.key == "plugin" || m.key == "provider" || m.key == "tools" })
}

func (o object) removed() object {
	o = slices.Clone(o)
	if place, _ := o.effective("plugins"); place >= 0 {
		o[place].value, _, _ = split(o[place].value)
	}
	ours := false
	if place, keys := o.effective("plugin"); place >= 0 {
		kept, dropped, marked := split(o[place].value)
		o[place].value = kept
		ours = dropped > 0
		if len(kept) == 0 && ours && !marked && keys == 1 && !o.keeps() {
			o = slices.Delete(o, place, place+1)
		}
	}
	if ours && len(o) == 1 && o[0].key == "$schema" && decodeString(o[0].value) == Schema {
		return nil
	}
	return o
}

func split(value model) (kept list, dropped int, marked bool) {
	kept = list{}
	for _, entry := range value.(list) {
		if p, ok := entry.(plugin); ok && p.ours {
			dropped++
			marked = marked || p.marked
		} else {
			kept = append(kept, entry)
		}
	}
	return kept, dropped, marked
}

func decodeString(m model) (s string) {
	if json.Unmarshal([]byte(strictText(m)), &s) != nil {
		return ""
	}
	return s
}

// decodeNumbers reads JSON as encoding/json does: the last of duplicate keys counts. Numbers stay as they are written.
func decodeNumbers(t interface{ Fatalf(string, ...any) }, text string) (v any) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

func TestMergeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawDocument(t)
		content := drawText(t, o)
		got, err := Merge(content, entry)
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}

		// As JSON: read the strict spelling, drop ours, append ours, with nothing but encoding/json.
		want := decodeNumbers(t, strictText(o)).(map[string]any)
		for _, name := range []string{"plugin", "plugins"} {
			if place, _ := o.effective(name); place >= 0 {
				entries := []any{}
				for i, value := range want[name].([]any) {
					if !o[place].value.(list)[i].(plugin).ours {
						entries = append(entries, value)
					}
				}
				want[name] = entries
			}
		}
		addTo(want)
		if diff := cmp.Diff(want, decodeNumbers(t, got)); diff != "" {
			t.Fatalf("%q: as JSON, -want +got:\n%s", content, diff)
		}

		// As text: order, number literals and escapes are those of the document.
		if want := strictText(o.merged()); got != want {
			t.Fatalf("%q:\n got %s\nwant %s", content, got, want)
		}
		if again, err := Merge(got, entry); again != got || err != nil {
			t.Fatalf("%q: merging twice:\n got %s, %v\nwant %s", content, again, err, got)
		}
	})
}

// addTo adds our entry, and "$schema" where there is nothing, to what encoding/json read.
func addTo(config map[string]any) {
	if len(config) == 0 {
		config["$schema"] = Schema
	}
	name := "plugin"
	if _, ok := config["plugins"].([]any); ok && !slices.ContainsFunc(slices.Collect(maps.Keys(config)), func(key string) bool { return version1[key] }) {
		name = "plugins"
	}
	entries, _ := config[name].([]any)
	config[name] = append(entries, url)
}

func TestRemoveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawDocument(t)
		content := drawText(t, o)
		got, err := Remove(content, entry)
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		want := ""
		if left := o.removed(); len(left) > 0 {
			want = strictText(left)
		}
		if got != want {
			t.Fatalf("%q:\n got %s\nwant %s", content, got, want)
		}
		if again, err := Remove(got, entry); again != got || err != nil {
			t.Fatalf("%q: removing twice:\n got %s, %v\nwant %s", content, again, err, got)
		}

		// Removing undoes merging, but for "$schema" alone: merged, it looks as if nothing had been there.
		merged, err := Merge(content, entry)
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		back, err := Remove(merged, entry)
		if err != nil {
			t.Fatalf("%q: %v", merged, err)
		}
		if left := o.removed(); len(left) == 1 && left[0].key == "$schema" && decodeString(left[0].value) == Schema {
			want = ""
		}
		if back != want {
			t.Fatalf("%q: merged and removed:\n got %s\nwant %s", content, back, want)
		}
	})
}

// TestDamage cuts or damages a valid document. It is read after all or refused with a position in it, and nothing of it
// is quoted.
func TestDamage(t *testing.T) {
	pieces := []string{
		"{", "}", "[", "]", ":", ",", `"`, `'`, `\`, "/", "//", "/*", "*/", "\n", "\r", "\t", " ", "\x00", "\x1f", "\xff", "\xc3",
		"\ufeff", "\u00a0", "0", "-", "+", ".", "e", "a", "null", "sk-secret", `"sk-secret"`, "{env:sk-secret}", `\u12`, "é", "",
	}
	rapid.Check(t, func(t *rapid.T) {
		content := drawText(t, drawDocument(t))
		at := rapid.IntRange(0, len(content)).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			content = content[:at]
		case 1:
			content = content[:at] + rapid.SampledFrom(pieces).Draw(t, "piece") + content[at:]
		case 2:
			end := min(len(content), at+rapid.IntRange(1, 3).Draw(t, "length"))
			content = content[:at] + rapid.SampledFrom(pieces).Draw(t, "piece") + content[end:]
		}
		checkAny(t, content)
	})
}

// checkAny checks what holds for any content at all.
func checkAny(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, content string) {
	got, err := Merge(content, entry)
	left, err2 := Remove(content, entry)
	checkFile(t, content, err)
	if err != nil {
		checkError(t, content, err)
		if got != "" || left != "" || err2 == nil || err2.Error() != err.Error() {
			t.Errorf("%q: Merge: %q, %v; Remove: %q, %v", content, got, err, left, err2)
		}
		return
	}
	if err2 != nil {
		t.Errorf("%q: Merge reads it, but Remove: %v", content, err2)
	}
	if !json.Valid([]byte(got)) || left != "" && !json.Valid([]byte(left)) || !utf8.ValidString(got) {
		t.Fatalf("%q: not JSON: %s or %s", content, got, left)
	}
	if strings.ContainsAny(got+left, "\r\n") {
		t.Errorf("%q: more than one line: %q or %q", content, got, left)
	}
	if again, err := Merge(got, entry); again != got || err != nil {
		t.Errorf("%q: merging twice:\n got %s, %v\nwant %s", content, again, err, got)
	}
	if again, err := Remove(left, entry); again != left || err != nil {
		t.Errorf("%q: removing twice:\n got %s, %v\nwant %s", content, again, err, left)
	}
	config := decodeNumbers(t, got).(map[string]any)
	first, second := countOurs(config, "plugin"), countOurs(config, "plugins")
	if last := func(name string) bool { l, _ := config[name].([]any); return len(l) > 0 && l[len(l)-1] == url }; first+second != 1 ||
		first == 1 && !last("plugin") || second == 1 && !last("plugins") {
		t.Errorf("%q: ours stands there %d and %d times: %s", content, first, second, got)
	}
	if left != "" {
		config, _ := decodeNumbers(t, left).(map[string]any)
		if n := countOurs(config, "plugin") + countOurs(config, "plugins"); n != 0 {
			t.Errorf("%q: ours still stands there %d times: %s", content, n, left)
		}
	}
}

// countOurs counts our entries in the list of that name.
func countOurs(config map[string]any, name string) (n int) {
	entries, _ := config[name].([]any)
	for _, value := range entries {
		if isOurs(value, name) {
			n++
		}
	}
	return n
}

func isOurs(value any, name string) bool {
	switch entry := value.(type) {
	case []any:
		if name == "plugin" && len(entry) > 0 {
			value = entry[0]
		}
	case map[string]any:
		if name == "plugins" {
			value = entry["package"]
		}
	}
	spec, ok := value.(string)
	return ok && (spec == url || slices.Contains(spellings, spec))
}

func FuzzMerge(f *testing.F) {
	for _, fault := range faults {
		if len(fault.content) < 1000 {
			f.Add(fault.content)
		}
	}
	for _, content := range []string{
		"", "{}", "\ufeff", `{"plugin":[` + ours + `,"a",["/data/a b/mcp-reconnect",{"x":1}],null,[["x"]],{}]}`,
		`{"plugins":["a",{"package":` + ours + `}],"providers":{"p":{}}}`, `{"plugins":[` + ours + `],"plugin":["a"]}`, `{"plugins":[],"tools":{}}`,
		"{ // c\r\n \"plu\\u0067in\": [\"a\",], /* d */ \"plugin\": [],\n}", `{"plugin":["a"],"plugin":[` + ours + `]}`,
		`{"x":12345678901234567890,"y":1e400,"z":1.0,"a.b":"{env:KEY}","":"{file:./x}","@pretty":"\ud83d\ude00"}`,
		realistic(1 << 10),
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		checkAny(t, content)

		// Strict JSON without duplicate keys: encoding/json alone says what has to come out.
		if !utf8.ValidString(content) || !json.Valid([]byte(content)) || duplicateKeys(content) || deeper(content, maxDepth) {
			return
		}
		want, ok := decodeNumbers(t, content).(map[string]any)
		if !ok {
			return
		}
		_, there := want["plugin"]
		_, there2 := want["plugins"]
		for _, name := range []string{"plugin", "plugins"} {
			value, ok := want[name]
			if !ok {
				continue
			}
			entries, ok := value.([]any)
			if !ok && name == "plugins" {
				continue
			}
			if !ok {
				return
			}
			want[name] = slices.DeleteFunc(entries, func(value any) bool { return isOurs(value, name) })
		}
		addTo(want)
		got, err := Merge(content, entry)
		if err != nil {
			t.Fatalf("%q is valid JSON, but: %v", content, err)
		}
		if diff := cmp.Diff(want, decodeNumbers(t, got)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", content, diff)
		}
		// Where the list is new, the text before it is the one that was there, without its white space.
		if len(want) > 1 && !there && !there2 && content != "" {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(content)); err != nil {
				t.Fatal(err)
			}
			if before := strings.TrimSuffix(compact.String(), "}"); len(before) > 1 && got != before+`,"plugin":[`+ours+`]}` {
				t.Errorf("%q became %q", content, got)
			}
		}
	})
}

// duplicateKeys reports whether an object in strict JSON has a key twice.
func duplicateKeys(text string) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	type level struct {
		keys  map[string]bool // nil in a list
		value bool            // a value is next
	}
	stack := []*level{{}}
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		top := stack[len(stack)-1]
		if key, ok := token.(string); ok && top.keys != nil && !top.value {
			if top.keys[key] {
				return true
			}
			top.keys[key], top.value = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, &level{keys: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, &level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if token != json.Delim('{') && token != json.Delim('[') {
			stack[len(stack)-1].value = false
		}
	}
}

// deeper reports whether strict JSON has more than so many levels.
func deeper(text string, levels int) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	for depth := 0; ; {
		token, err := dec.Token()
		switch {
		case err != nil:
			return false
		case token == json.Delim('{') || token == json.Delim('['):
			if depth++; depth > levels {
				return true
			}
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}
