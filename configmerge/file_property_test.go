package configmerge

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawFile draws a document as a file: with blanks and comments anywhere, or as people and programs lay it out.
func drawFile(t *rapid.T, o object) string {
	if rapid.Bool().Draw(t, "anyhow") {
		return drawText(t, o)
	}
	unit := rapid.SampledFrom([]string{"", "  ", "    ", "\t"}).Draw(t, "unit")
	newline := rapid.SampledFrom([]string{"\n", "\n", "\r\n", "\r"}).Draw(t, "newline")
	prefix := rapid.SampledFrom([]string{"", "", "  "}).Draw(t, "prefix")
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(strictText(o)), prefix, unit); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(prefix+pretty.String(), "\n")
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(t, "byte order mark"))
	for i, line := range lines {
		b.WriteString(line)
		if i+1 == len(lines) {
			break
		}
		if next := strings.TrimLeft(lines[i+1], " \t"); strings.HasPrefix(next, "]") || strings.HasPrefix(next, "}") {
			if !strings.HasSuffix(line, "[") && !strings.HasSuffix(line, "{") && rapid.Bool().Draw(t, "trailing comma") {
				b.WriteString(",")
			}
		}
		switch blanks := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; rapid.IntRange(0, 9).Draw(t, "comment") {
		case 0:
			b.WriteString(" // sk-secret, [\" \t")
		case 1:
			b.WriteString(" /* sk-secret] */")
		case 2:
			b.WriteString(newline + blanks + "// \"sk-secret\",")
		case 3:
			b.WriteString(newline + blanks + "/* {" + newline + blanks + " */")
		case 4:
			b.WriteString(newline)
		}
		b.WriteString(newline)
	}
	b.WriteString(rapid.SampledFrom([]string{"", newline, newline + newline, " // sk-secret"}).Draw(t, "end"))
	return b.String()
}

// foreign returns the document without our entries.
func (o object) foreign() object {
	o = slices.Clone(o)
	for _, name := range []string{"plugin", "plugins"} {
		if place, _ := o.effective(name); place >= 0 {
			o[place].value, _, _ = split(o[place].value)
		}
	}
	return o
}

// inserted says what Insert has to make of a document that is not blank.
func (o object) inserted() object {
	name := "plugins"
	if place, _ := o.effective(name); place < 0 || o.version1() {
		name = "plugin"
	}
	left := o.foreign()
	place, _ := o.effective(name)
	if place < 0 {
		return append(left, member{"plugin", `"plugin"`, list{literal(ours)}})
	}
	kept, dropped, marked := split(o[place].value)
	text := literal(ours)
	if marked || len(kept)+dropped == 0 {
		text = oursMarked
	}
	at := slices.IndexFunc(o[place].value.(list), func(m model) bool { return m.(plugin).ours })
	if at < 0 {
		at = len(kept)
	}
	left[place].value = slices.Insert(kept, at, model(text))
	return left
}

func TestFileProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawDocument(t)
		content := drawFile(t, o)
		got := mustInsert(t, content)

		// What it says. An entry of ours keeps the escapes that it is written with.
		text, err := read(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", content, got, err)
		}
		if want := strictText(o.inserted()); unescaped(text) != unescaped(want) {
			t.Fatalf("%q became %q:\n got %s\nwant %s", content, got, text, want)
		}
		if again := mustInsert(t, got); again != got {
			t.Fatalf("%q: inserting twice:\n got %q\nwant %q", content, again, got)
		}

		// What is left of it.
		left, whole := mustDelete(t, content)
		back, backWhole := mustDelete(t, got)
		if back != left || backWhole != whole || whole {
			t.Fatalf("%q: inserted and deleted:\n got %q (%v)\nwant %q (%v)", content, back, backWhole, left, whole)
		}
		text, err = read(left)
		if err != nil {
			t.Fatalf("%q left %q: %v", content, left, err)
		}
		gone, err := Remove(content, entry)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{strictText(o.foreign()), gone} // a list of ours in which there is a comment stays
		if gone == "" {
			want = append(want, `{}`, `{"$schema":"`+Schema+`"}`)
		}
		if !slices.ContainsFunc(want, func(want string) bool { return unescaped(text) == unescaped(want) }) {
			t.Fatalf("%q left %q:\n got %s\nwant one of %s", content, left, text, want)
		}
	})
}

// unescaped returns a text in which our entry, but for the mark, and our schema are written without escapes.
func unescaped(text string) string {
	return anyString.ReplaceAllStringFunc(text, func(raw string) string {
		switch s := decodeString(literal(raw)); {
		case s == url && isMarked(raw):
			return oursMarked
		case s == url:
			return ours
		case s == Schema || s == "$schema":
			return `"` + s + `"`
		}
		return raw
	})
}

var anyString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// TestInverse: uninstall gives back every byte, whatever the file was, and what people wrote behind our entry.
func TestInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawDocument(t).foreign()
		content := drawFile(t, o)
		got := mustInsert(t, content)
		if back, whole := mustDelete(t, got); back != content || whole {
			t.Fatalf("%q became %q, and comes back as %q, the whole file: %v", content, got, back, whole)
		}

		// Somebody adds an entry, or a comment, on either side of ours.
		before := rapid.SampledFrom([]string{"", `"before",`, `"before" , `, "/* c */", "// c\n", "\"before\", // c\r\n\t", "// c\r"}).Draw(t, "before")
		behind := rapid.SampledFrom([]string{"", `,"behind"`, ` , "behind"`, "// c\n", "/* c */", ", // c\n\"behind\"", "\n// c\r,/* d */\r\"behind\"", ",\n  \"behind\""}).Draw(t, "behind")
		if before+behind == "" {
			return // as above
		}
		at := max(strings.Index(got, ours), strings.Index(got, oursMarked))
		if strings.Count(got, ours)+strings.Count(got, oursMarked) > 1 {
			return // it also stands where it means nothing, as in a list that a later one shadows
		}
		end := at + strings.Index(got[at+1:], `"`) + 2
		edited := got[:at] + before + got[at:end] + behind + got[end:]
		text, err := read(edited)
		if err != nil {
			t.Fatalf("%q is no fair edit: %v", edited, err)
		}
		left, _ := mustDelete(t, edited)
		leftText, err := read(left)
		if err != nil {
			t.Fatalf("%q left %q: %v", edited, left, err)
		}
		for _, part := range []string{before, behind} {
			for _, piece := range []string{`"before"`, `"behind"`, "// c", "/* c */", "/* d */"} {
				if strings.Contains(part, piece) && !strings.Contains(left, piece) {
					t.Fatalf("%q left %q without %q", edited, left, piece)
				}
			}
		}
		withoutList, err := Remove(text, entry)
		if err != nil {
			t.Fatal(err)
		}
		wantText := strings.NewReplacer(ours+",", "", ","+ours, "", ours, "", oursMarked+",", "", ","+oursMarked, "", oursMarked, "").Replace(text)
		if leftText != wantText && leftText != withoutList {
			t.Fatalf("%q left %q:\n got %s\nwant %s\n  or %s", edited, left, leftText, wantText, withoutList)
		}
	})
}

// checkFile checks what holds for any content at all; mergeErr is what Merge says of it.
func checkFile(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, content string, mergeErr error) {
	got, err := Insert(content, entry)
	left, _, err2 := Delete(content, entry)
	if mergeErr != nil {
		if err == nil || err.Error() != mergeErr.Error() || err2 == nil || err2.Error() != mergeErr.Error() || got+left != "" {
			t.Errorf("%q: Merge: %v; Insert: %q, %v; Delete: %q, %v", content, mergeErr, got, err, left, err2)
		}
		return
	}
	if err2 != nil {
		t.Errorf("%q: Merge reads it, but Delete: %v", content, err2)
	}
	if err != nil {
		checkError(t, content, err)
		if strings.TrimSpace(strings.TrimPrefix(content, "\ufeff")) != "" || left != content {
			t.Errorf("%q: Merge reads it, but Insert: %v", content, err)
		}
		return
	}
	text, err := read(got)
	if err != nil {
		t.Fatalf("%q became %q: %v", content, got, err)
	}
	config := decodeNumbers(t, text).(map[string]any)
	if n := countOurs(config, "plugin") + countOurs(config, "plugins"); n != 1 {
		t.Errorf("%q: ours stands there %d times: %q", content, n, got)
	}
	if again := mustInsert(t, got); again != got {
		t.Errorf("%q: inserting twice: %q, want %q", content, again, got)
	}
	if back, _ := mustDelete(t, got); back != left {
		t.Errorf("%q: inserted and deleted: %q, want %q", content, back, left)
	}
	if again := mustInsert(t, left); left != "" {
		if back, whole := mustDelete(t, again); back != left || whole {
			t.Errorf("%q: inserted and deleted: %q (%v), want what it was", left, back, whole)
		}
	}
	text, err = read(left)
	if err != nil {
		t.Fatalf("%q left %q: %v", content, left, err)
	}
	config = decodeNumbers(t, text).(map[string]any)
	if n := countOurs(config, "plugin") + countOurs(config, "plugins"); n != 0 {
		t.Errorf("%q: ours still stands there %d times: %q", content, n, left)
	}
	var wantConfig map[string]any
	if removed, err := Remove(content, entry); err == nil && removed != "" {
		wantConfig = decodeNumbers(t, removed).(map[string]any)
		for _, config := range []map[string]any{config, wantConfig} { // a list of ours may stay: see TestFileProperties
			if l, ok := config["plugin"].([]any); ok && len(l) == 0 {
				delete(config, "plugin")
			}
		}
		if diff := cmp.Diff(wantConfig, config); diff != "" {
			t.Errorf("%q left %q: -want +got:\n%s", content, left, diff)
		}
	}
}
