package configmerge

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadAsOpenCodeReads compares with what OpenCode's own parser made of the same texts: see the script beside the file.
func TestReadAsOpenCodeReads(t *testing.T) {
	file, err := os.ReadFile("testdata/jsonc-parser.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Text  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, v := range vectors {
		got, err := read(v.Text)
		// Only an object is a configuration; their parser takes the rest as well.
		want := decode(t, string(v.Value))
		if _, ok := want.(map[string]any); !ok {
			if err == nil {
				t.Errorf("%q: read as %s, but OpenCode refuses it", v.Text, got)
			}
			continue
		}
		var syntax *SyntaxError
		if errors.As(err, &syntax) && syntax.NotList {
			continue
		}
		accepted++
		if err != nil {
			t.Errorf("%q: %v, but OpenCode reads it", v.Text, err)
		} else if diff := cmp.Diff(want, decode(t, got)); diff != "" {
			t.Errorf("%q: not what OpenCode reads:\n%s", v.Text, diff)
		}
	}
	if len(vectors) < 400 || accepted < 100 || accepted > len(vectors)-100 {
		t.Errorf("%d of %d texts are valid: not a fair sample", accepted, len(vectors))
	}
}

func decode(t *testing.T, text string) (v any) {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}
