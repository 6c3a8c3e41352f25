package configmerge

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestList(t *testing.T) {
	e := Entry{URL: "file:///ours", Means: func(spec string) bool { return spec == "/ours" }}
	at := func(line, column int) Position { return Position{line, column} }
	for _, tt := range []struct {
		name, content string
		want          Listing
	}{
		{"nothing", " \n", Listing{}},
		{"no list", `{"a":1}`, Listing{}},
		{"an empty list", `{"plugin":[]}`, Listing{Plugin: at(1, 11)}},
		{"all kinds of entries, in JSONC", "\ufeff{ // [\"x\"]\r\n\t\"plu\\u0067in\": [\"é\", \"file:///ours\",\r/* , */ [\"/ours\", {}], 1, [], [2], {\"file:///ours\":1},],\n}", Listing{
			Plugin: at(2, 17),
			Entries: []ListEntry{
				{Position: at(2, 18), Spec: "é"},
				{Position: at(2, 23), Spec: "file:///ours", Ours: true},
				{Position: at(3, 9), Spec: "/ours", Options: true, Ours: true},
				{Position: at(3, 24)},
				{Position: at(3, 27), Options: true},
				{Position: at(3, 31), Options: true},
				{Position: at(3, 36)},
			},
		}},
		{"of duplicate keys the last counts", `{"plugin":["file:///ours"],"plugins":[],"plugin":["a"]}`, Listing{
			Plugin: at(1, 50), Plugins: at(1, 38), Entries: []ListEntry{{Position: at(1, 51), Spec: "a"}},
		}},
		{"the second list", `{"plugins":["a",{"package":"b","package":"/ours"},["/ours"],{}],"plugin":[{"package":"c"}]}`, Listing{
			Plugin: at(1, 74), Plugins: at(1, 12), Entries: []ListEntry{
				{Position: at(1, 75)},
				{Position: at(1, 13), Spec: "a", Version2: true},
				{Position: at(1, 17), Spec: "/ours", Options: true, Version2: true, Ours: true},
				{Position: at(1, 51), Options: true, Version2: true},
				{Position: at(1, 61), Options: true, Version2: true},
			},
		}},
		{"a shadowed one may be anything", `{"plugins":0,"plugin":{},"plugins":[],"plugin":["a"]}`, Listing{Plugin: at(1, 48), Plugins: at(1, 36), Entries: []ListEntry{{Position: at(1, 49), Spec: "a"}}}},
		{"only the top level counts", `{"a":{"plugin":["file:///ours"],"plugins":1}}`, Listing{}},
	} {
		got, err := List(tt.content, e)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tt.name, err, diff)
		}
	}
}

func TestListRefusesWhatMergeRefuses(t *testing.T) {
	e := Entry{URL: "file:///ours"}
	for content, notList := range map[string]bool{`{"plugin":`: false, `[]`: false, `{"plugin":"x"}`: true, `{"plugin":null}`: true, `{"plugin":{},}`: true} {
		_, err := List(content, e)
		_, mergeErr := Merge(content, e)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != mergeErr.Error() || syntax.NotList != notList {
			t.Errorf("%s: %#v, and Merge: %v", content, err, mergeErr)
		}
	}
}

// TestListFindsWhatMergeWrote also holds the two readers of a plugin list together.
func TestListFindsWhatMergeWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]string{`"a"`, `"file:///ours"`, `["file:///ours",{}]`, `[]`, `{}`, `null`, `["a"]`})
		list := rapid.SliceOf(spec).Draw(t, "list")
		content := `{"` + rapid.SampledFrom([]string{"plugin", "plugins"}).Draw(t, "key") + `":[`
		for n, entry := range list {
			if n > 0 {
				content += " ,\n"
			}
			content += entry
		}
		e := Entry{URL: "file:///ours"}
		merged, err := Merge(content+`],}`, e)
		if err != nil {
			t.Fatal(err)
		}
		l, err := List(merged, e)
		if err != nil {
			t.Fatal(err)
		}
		ours := 0
		for _, entry := range l.Entries {
			if entry.Ours {
				ours++
			}
		}
		if ours != 1 || !l.Entries[len(l.Entries)-1].Ours {
			t.Fatalf("%s: %+v", merged, l)
		}
	})
}
