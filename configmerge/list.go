package configmerge

import (
	"strings"

	"github.com/tailscale/hujson"
)

// A Position is a place in a configuration's text, counted as in [SyntaxError]. The zero Position is of what is not there.
type Position struct{ Line, Column int }

// A Listing is what a configuration's plugin lists hold.
type Listing struct {
	// Plugin is where the list starts, and Plugins where the one does that OpenCode 2 alone reads.
	Plugin, Plugins Position
	Entries         []ListEntry // of the first, then of the second
}

// A ListEntry is one entry of a plugin list.
type ListEntry struct {
	Position
	// Spec is the decoded text that says which plugin is meant, or empty where there is none. It may hold a secret, such as
	// a token in a URL, and belongs in no message.
	Spec string
	// Options says that the entry is a list, ["spec", options], or under "plugins" an object, {"package": "spec"}.
	Options bool
	// Version2 says that the entry stands under "plugins".
	Version2 bool
	// Ours says that the entry means the plugin of the [Entry] that was asked for.
	Ours bool
}

// List returns what the plugin lists of content hold, in their order. It reads content as [Merge] does, so that an error,
// which is a [*SyntaxError], is one that Merge would return as well.
func List(content string, e Entry) (Listing, error) {
	if _, err := load(content, e); err != nil {
		return Listing{}, err
	}
	src := strings.TrimPrefix(content, "\ufeff")
	if strings.TrimSpace(src) == "" {
		return Listing{}, nil
	}
	d, err := parse(src)
	if err != nil {
		return Listing{}, err
	}
	var l Listing
	var first, second []ListEntry
	for _, m := range d.top.Members { // of duplicate keys the last one counts
		elements := func(at *Position, version2 bool) (entries []ListEntry) {
			*at = positionAt(src, m.Value.StartOffset)
			list, ok := m.Value.Value.(*hujson.Array)
			if !ok {
				return nil // shadowed by a later one
			}
			for _, element := range list.Elements {
				entry := ListEntry{Position: positionAt(src, element.StartOffset), Version2: version2}
				text, options := spec(element, version2)
				if entry.Options = options; text != nil {
					entry.Spec = text.String()
					entry.Ours = e.means(entry.Spec)
				}
				entries = append(entries, entry)
			}
			return entries
		}
		switch m.Name.Value.(hujson.Literal).String() {
		case "plugin":
			first = elements(&l.Plugin, false)
		case "plugins":
			second = elements(&l.Plugins, true)
		}
	}
	l.Entries = append(first, second...)
	return l, nil
}

// spec returns the text of an entry as it is written, or nil: of "spec", ["spec", options], or under "plugins"
// {"package": "spec"}.
func spec(v hujson.Value, version2 bool) (text hujson.Literal, options bool) {
	switch value := v.Value.(type) {
	case *hujson.Array:
		if options = true; version2 || len(value.Elements) == 0 {
			return nil, options
		}
		v = value.Elements[0]
	case *hujson.Object:
		options = version2
		v = hujson.Value{}
		for _, m := range value.Members {
			if version2 && m.Name.Value.(hujson.Literal).String() == "package" {
				v = m.Value
			}
		}
	}
	if literal, ok := v.Value.(hujson.Literal); ok && literal.Kind() == '"' {
		text = literal
	}
	return text, options
}
