// Package configmerge puts a plugin into the configuration text that OpenCode reads, and takes it out again.
// It reads JSONC as OpenCode does and writes strict JSON on one line; all that is not ours stays as it was.
// It never resolves {env:…} or {file:…} tokens, reads no file or variable, and never quotes content in an error.
package configmerge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Schema is what "$schema" holds in a configuration that Merge makes from nothing: without it OpenCode 1.1.64 wrote a
// stray file into the project.
const Schema = "https://opencode.ai/config.json"

// Entry is our plugin's place in a configuration's plugin list.
type Entry struct {
	// URL is the text that Merge writes.
	URL string
	// Means reports whether a list entry's decoded text means the same plugin in another spelling. It may be nil; URL
	// itself always means the plugin.
	Means func(spec string) bool
}

// Merge returns content with our entry once, last in the plugin list. Where content holds nothing (it is empty, blank
// or an object without members) the result has "$schema" as well; otherwise nothing but the entry is added. Merging
// twice gives the same bytes as merging once.
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
	others, _ := c.others(e)
	list := "[" + strings.Join(append(others, quote(e.URL)), ",") + "]"
	if c.plugins > 0 {
		return checked(c.withList(list))
	}
	// A fixed path on strict JSON that does not have the key: the one case in which sjson has nothing to get wrong.
	text, err := sjson.SetRaw(c.text, "plugin", list)
	if err != nil {
		return "", errNotStrict
	}
	return checked(text)
}

// Remove returns content without our entries: as Merge's input was, in strict, compact JSON. It returns "" when nothing
// is left, which is also what "$schema" alone comes to where an entry of ours was dropped.
//
// An error is a [*SyntaxError], unless e itself is unusable.
func Remove(content string, e Entry) (string, error) {
	c, err := load(content, e)
	if err != nil {
		return "", err
	}
	others, dropped := c.others(e)
	switch {
	case dropped == 0:
	case len(others) == 0 && c.plugins == 1:
		c = examine(c.withoutList())
	default:
		// Of duplicate keys an emptied one stays: without it the one before would come to life.
		c = examine(c.withList("[" + strings.Join(others, ",") + "]"))
	}
	if c.members == 0 || c.members == 1 && c.schema && dropped > 0 {
		return "", nil
	}
	return checked(c.text)
}

var (
	errEntry     = errors.New("the plugin's URL is empty or not UTF-8")
	errNotStrict = errors.New("the configuration cannot be written as strict JSON")
)

// config is a configuration in strict, compact JSON, with what there is to know of its top level.
type config struct {
	text    string
	members int
	schema  bool // one of the members is "$schema" with our value
	plugins int  // how many keys read "plugin"
	// The last one's key and value. It is the one that counts, as in JSON.parse; gjson and sjson would take the first,
	// which is why neither is asked for a path that is there.
	key, list gjson.Result
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
			c.plugins++
			c.key, c.list = key, value
		case "$schema":
			c.schema = c.schema || value.Str == Schema
		}
		c.members++
		return true
	})
	return c
}

// others returns the entries of the plugin list that are not ours, each as it is written, and how many were ours.
func (c config) others(e Entry) (raw []string, dropped int) {
	c.list.ForEach(func(_, entry gjson.Result) bool {
		if e.is(entry) {
			dropped++
		} else {
			raw = append(raw, entry.Raw)
		}
		return true
	})
	return raw, dropped
}

// is reports whether an entry of the plugin list, "spec" or ["spec", options], is ours.
func (e Entry) is(entry gjson.Result) bool {
	if entry.IsArray() {
		entry = entry.Get("0")
	}
	return entry.Type == gjson.String && e.means(entry.Str)
}

func (e Entry) means(spec string) bool {
	return spec == e.URL || e.Means != nil && e.Means(spec)
}

func (c config) withList(list string) string {
	return c.text[:c.list.Index] + list + c.text[c.list.Index+len(c.list.Raw):]
}

func (c config) withoutList() string {
	before, after := c.text[:c.key.Index], c.text[c.list.Index+len(c.list.Raw):]
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
