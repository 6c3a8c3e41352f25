package configmerge

import (
	"strings"

	"github.com/tailscale/hujson"
)

// A Position is a place in a configuration's text, counted as in [SyntaxError]. The zero Position is of what is not there.
type Position struct{ Line, Column int }

// A Listing is what a configuration's plugin list holds.
type Listing struct {
	// Plugin is where the list starts that counts, and Plugins where the value of OpenCode 2's key does.
	Plugin, Plugins Position
	Entries         []ListEntry
}

// A ListEntry is one entry of a plugin list.
type ListEntry struct {
	Position
	// Spec is the decoded text that says which plugin is meant, or empty where there is none. It may hold a secret, such as
	// a token in a URL, and belongs in no message.
	Spec string
	// Options says that the entry is a list, ["spec", options].
	Options bool
	// Ours says that the entry means the plugin of the [Entry] that was asked for.
	Ours bool
}

// List returns what the plugin list of content holds, in its order. It reads content as [Merge] does, so that an error,
// which is a [*SyntaxError], is one that Merge would return as well.
func List(content string, e Entry) (Listing, error) {
	if _, err := load(content, e); err != nil {
		return Listing{}, err
	}
	src := strings.TrimPrefix(content, "\ufeff")
	if strings.TrimSpace(src) == "" {
		return Listing{}, nil
	}
	b, _ := blank(src)
	v, err := hujson.Parse(b)
	if err != nil {
		return Listing{}, errorAt(src, 0, "not readable as JSONC", "") // json.Valid took what hujson does not
	}
	var l Listing
	top, ok := v.Value.(*hujson.Object)
	if !ok {
		return l, nil
	}
	for _, m := range top.Members { // of duplicate keys the last one counts
		switch m.Name.Value.(hujson.Literal).String() {
		case "plugins":
			l.Plugins = positionAt(src, m.Value.StartOffset)
		case "plugin":
			list, ok := m.Value.Value.(*hujson.Array)
			if !ok {
				continue // shadowed by a later one
			}
			l.Plugin, l.Entries = positionAt(src, m.Value.StartOffset), nil
			for _, element := range list.Elements {
				entry := ListEntry{Position: positionAt(src, element.StartOffset)}
				entry.Spec, entry.Options = spec(element)
				entry.Ours = e.means(entry.Spec)
				l.Entries = append(l.Entries, entry)
			}
		}
	}
	return l, nil
}

// spec returns the text of an entry, "spec" or ["spec", options].
func spec(v hujson.Value) (text string, options bool) {
	if list, ok := v.Value.(*hujson.Array); ok {
		if options = true; len(list.Elements) == 0 {
			return "", options
		}
		v = list.Elements[0]
	}
	if literal, ok := v.Value.(hujson.Literal); ok && literal.Kind() == '"' {
		text = literal.String()
	}
	return text, options
}
