// Package configmerge puts a plugin into the configuration text that OpenCode reads, and takes it out again.
// It reads JSONC as OpenCode does. Of a variable's text it makes strict JSON on one line; in a file's text no byte changes
// that is not ours.
// It never resolves {env:…} or {file:…} tokens, reads no file or variable, and never quotes content in an error.
package configmerge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Schema is what "$schema" holds in a configuration that Merge makes from nothing: without it OpenCode 1.1.64 wrote a
// stray file into the project.
const Schema = "https://opencode.ai/config.json"

// Entry is our plugin's place in a configuration's plugin list. In a list that was there and was empty it is written with
// its first letter as an escape, "\u0066ile:///…", which means the same to every reader. By this mark the list stays when
// the entry is taken out; one that holds our entry alone, without the mark, goes with it.
type Entry struct {
	// URL is the text that is written.
	URL string
	// Means reports whether a list entry's decoded text means the same plugin in another spelling. It may be nil; URL
	// itself always means the plugin.
	Means func(spec string) bool
}

// Merge returns content with our entry once, last in the plugin list. Where content holds nothing (it is empty, blank
// or an object without members) the result has "$schema" as well; otherwise nothing but the entry is added. Merging
// twice gives the same bytes as merging once.
//
// The list is "plugin", which every OpenCode reads, but "plugins" where content has such a list and no key of OpenCode 1
// (see version1): an early OpenCode 2 would take "plugin" for a sign that all of content is for OpenCode 1, and drop
// what is not. An entry of ours under "plugins" is dropped where one stands under "plugin": OpenCode 2 reads both.
//
// An error is a [*SyntaxError], unless e itself is unusable.
func Merge(content string, e Entry) (string, error) {
	c, err := load(content, e)
	if err != nil {
		return "", err
	}
	if c.members == 0 {
		return `{"$schema":` + quote(Schema) + `,"plugin":[` + quote(e.URL) + `]}`, nil
	}
	if c.version2() {
		return checked(c.plugins.replace(c.text, c.plugins.entries(e, pluginsSpec).with(e)))
	}
	if there := c.plugins.entries(e, pluginsSpec); there.ours > 0 {
		c = examine(c.plugins.replace(c.text, there.others))
	}
	if c.plugin.keys > 0 {
		return checked(c.plugin.replace(c.text, c.plugin.entries(e, pluginSpec).with(e)))
	}
	// A fixed path on strict JSON that does not have the key: the one case in which sjson has nothing to get wrong.
	text, err := sjson.SetRaw(c.text, "plugin", "["+quote(e.URL)+"]")
	if err != nil {
		return "", errNotStrict
	}
	return checked(text)
}

// Remove returns content without our entries: as Merge's input was, in strict, compact JSON. It returns "" when nothing
// is left, which is also what "$schema" alone comes to where an entry of ours was dropped. A "plugin" that is left empty
// goes, because we made it, unless the entry is marked (see [Entry]). "plugins" stays, and so does "plugin" beside it if
// no other key of OpenCode 1 is there: both were there before us.
//
// An error is a [*SyntaxError], unless e itself is unusable.
func Remove(content string, e Entry) (string, error) {
	c, err := load(content, e)
	if err != nil {
		return "", err
	}
	if there := c.plugins.entries(e, pluginsSpec); there.ours > 0 {
		c = examine(c.plugins.replace(c.text, there.others))
	}
	there := c.plugin.entries(e, pluginSpec)
	switch {
	case there.ours == 0:
	case len(there.others) == 0 && !there.marked && c.removable():
		c = examine(c.plugin.remove(c.text))
	default:
		c = examine(c.plugin.replace(c.text, there.others))
	}
	if c.members == 0 || c.members == 1 && c.schema && there.ours > 0 {
		return "", nil
	}
	return checked(c.text)
}

var (
	errEntry     = errors.New("the plugin's URL is empty or not UTF-8")
	errNotStrict = errors.New("the configuration cannot be written as strict JSON")
)

// version1 are the keys of OpenCode 1 by one of which an early OpenCode 2 took a configuration for one of OpenCode 1 and
// dropped "plugins", "providers" and all else that is not (isV1 in its packages/core/src/v1/config/migrate.ts). From
// 2.0.26 on it reads both. A key that is missing here costs nothing: the entry then goes to "plugins", which OpenCode 2
// would have dropped anyway. One too many would cost the rest of the configuration.
var version1 = map[string]bool{
	"agent": true, "attachment": true, "autoshare": true, "command": true, "disabled_providers": true,
	"enabled_providers": true, "layout": true, "logLevel": true, "mode": true, "permission": true, "plugin": true,
	"provider": true, "reference": true, "server": true, "small_model": true, "snapshot": true, "tools": true,
}

// config is a configuration in strict, compact JSON, with what there is to know of its top level.
type config struct {
	text            string
	members         int
	schema          bool       // one of the members is "$schema" with our value
	version1        bool       // one of the members is a key of OpenCode 1
	decided         bool       // and not only "plugin" is
	plugin, plugins pluginList // OpenCode 1's, and OpenCode 2's if it is a list
}

// A pluginList is a plugin list at the top level.
type pluginList struct {
	keys int // how many read its name
	// The last one's key and value. It is the one that counts, as in JSON.parse; gjson and sjson would take the first,
	// which is why neither is asked for a path that is there.
	key, value gjson.Result
}

// load reads content for Merge and Remove.
func load(content string, e Entry) (config, error) {
	if e.URL == "" || !utf8.ValidString(e.URL) {
		return config{}, errEntry
	}
	text, err := read(content)
	if err == nil {
		text, err = checked(text)
	}
	if err != nil {
		return config{}, err
	}
	return examine(text), nil
}

// examine looks through the top level of strict, compact JSON.
func examine(text string) config {
	c := config{text: text}
	gjson.Parse(text).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "plugin":
			c.plugin = pluginList{c.plugin.keys + 1, key, value}
		case "plugins":
			c.plugins = pluginList{c.plugins.keys + 1, key, value}
		case "$schema":
			c.schema = c.schema || value.Str == Schema
		}
		c.version1 = c.version1 || version1[key.Str]
		c.decided = c.decided || version1[key.Str] && key.Str != "plugin"
		c.members++
		return true
	})
	if !c.plugins.value.IsArray() { // OpenCode 1 takes no notice of it: it is somebody else's
		c.plugins = pluginList{}
	}
	return c
}

// version2 reports whether our entry belongs into "plugins".
func (c config) version2() bool { return c.plugins.keys > 0 && !c.version1 }

// removable reports whether "plugin" may go with the last of its entries: whether we can have made it. Of duplicate keys
// an emptied one stays: without it the one before would come to life.
func (c config) removable() bool {
	return c.plugin.keys == 1 && (c.plugins.keys == 0 || c.decided)
}

// entries is what a plugin list holds.
type entries struct {
	others []string // each as it is written
	ours   int
	marked bool // one of ours is (see [Entry])
}

// entries looks through the list; spec finds the text of an entry that says which plugin it means.
func (l pluginList) entries(e Entry, spec func(gjson.Result) gjson.Result) (found entries) {
	l.value.ForEach(func(_, entry gjson.Result) bool {
		if text := spec(entry); text.Type == gjson.String && e.means(text.Str) {
			found.ours++
			found.marked = found.marked || isMarked(text.Raw)
		} else {
			found.others = append(found.others, entry.Raw)
		}
		return true
	})
	return found
}

// with returns the list with our entry once, last. An empty list is marked, and stays so.
func (f entries) with(e Entry) []string {
	return append(f.others, e.written(len(f.others) == 0 && (f.ours == 0 || f.marked)))
}

// pluginSpec returns the text of an entry of "plugin": "spec" or ["spec", options].
func pluginSpec(entry gjson.Result) gjson.Result {
	if entry.IsArray() {
		return entry.Get("0")
	}
	return entry
}

// pluginsSpec returns the text of an entry of "plugins": "spec" or {"package": "spec", "options": …}.
func pluginsSpec(entry gjson.Result) gjson.Result {
	if !entry.IsObject() {
		return entry
	}
	var spec gjson.Result
	entry.ForEach(func(key, value gjson.Result) bool { // of duplicate keys the last one counts
		if key.Str == "package" {
			spec = value
		}
		return true
	})
	return spec
}

func (e Entry) means(spec string) bool {
	return spec == e.URL || e.Means != nil && e.Means(spec)
}

// written is our entry as JSON. A program that writes the JSON anew loses the mark; then the list goes.
func (e Entry) written(marked bool) string {
	if !marked {
		return quote(e.URL)
	}
	_, size := utf8.DecodeRuneInString(e.URL)
	var escape strings.Builder
	for _, unit := range utf16.Encode([]rune(e.URL[:size])) {
		fmt.Fprintf(&escape, `\u%04x`, unit)
	}
	return `"` + escape.String() + quote(e.URL[size:])[1:]
}

// isMarked reports whether the text of an entry, as it is written, is marked.
func isMarked(raw string) bool { return strings.HasPrefix(raw, `"\u`) }

// replace returns the text with other entries in the list.
func (l pluginList) replace(text string, entries []string) string {
	return text[:l.value.Index] + "[" + strings.Join(entries, ",") + "]" + text[l.value.Index+len(l.value.Raw):]
}

// remove returns the text without the list.
func (l pluginList) remove(text string) string {
	before, after := text[:l.key.Index], text[l.value.Index+len(l.value.Raw):]
	if shorter, ok := strings.CutSuffix(before, ","); ok {
		return shorter + after
	}
	return before + strings.TrimPrefix(after, ",")
}

// quote writes s as JSON. sjson and json.Marshal would write & as \u0026.
func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// checked passes strict JSON on. Both libraries are asked, first and last: sjson corrupts in silence what is not strict,
// and each of the two validators has passed text that the other refused.
func checked(text string) (string, error) {
	if !gjson.Valid(text) || !json.Valid([]byte(text)) {
		return "", errNotStrict
	}
	return text, nil
}
