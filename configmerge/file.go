package configmerge

import (
	"strings"

	"github.com/tailscale/hujson"
)

// Insert returns the text of a configuration file with our entry in it, in the list that [Merge] would put it into. Every
// other byte stays. An entry of ours that is there stays in its place, in our spelling, and others of ours are dropped. A
// new one is written as its neighbours are, behind the last of them.
//
// Content "" stands for a file that is not there: see [InsertBlank] for one that is. Inserting twice gives the same bytes
// as inserting once. An error is a [*SyntaxError], unless e itself is unusable; what Merge refuses is refused here as well.
func Insert(content string, e Entry) (string, error) {
	c, err := load(content, e)
	if err != nil {
		return "", err
	}
	if content == "" {
		return newFile(e.written(false), "\n"), nil
	}
	mark, text := cutMark(content)
	if strings.TrimSpace(text) == "" {
		if odd := strings.TrimLeft(text, " \t\r\n"); odd != "" { // what is blank for Unicode is not for JSONC
			return "", errorAt(text, len(text)-len(odd), "expected an object", "")
		}
		return mark + newFile(e.written(true), lineEnd(text, 0)) + text, nil
	}
	text, err = insert(text, e, c.version2())
	if err != nil {
		return "", err
	}
	return mark + text, nil
}

// InsertBlank returns what a file of no bytes becomes. [Delete] leaves no bytes of it, but the file.
func InsertBlank(e Entry) (string, error) {
	if _, err := load("", e); err != nil {
		return "", err
	}
	return newFile(e.written(true), "\n"), nil
}

// Delete returns the text of a configuration file without our entries: what [Insert] was given. A list that Insert made
// goes as well, unless there is a comment in it by now. Whole says that the text is what Insert made where no file was, so
// that the file may go; it leaves "".
//
// An error is one that Merge would return.
func Delete(content string, e Entry) (text string, whole bool, err error) {
	if _, err := load(content, e); err != nil {
		return "", false, err
	}
	mark, text := cutMark(content)
	if strings.TrimSpace(text) == "" {
		return content, false, nil
	}
	d, err := parse(text)
	if err != nil {
		return "", false, err
	}
	if len(d.plugins(e, false).ours)+len(d.plugins(e, true).ours) == 0 {
		return content, false, nil
	}
	// What is there more than once, or in the wrong list, is put right first: then one entry is to be taken out.
	if content, err = Insert(content, e); err != nil {
		return "", false, err
	}
	c, err := load(content, e)
	if err != nil {
		return "", false, err
	}
	_, text = cutMark(content)
	if d, err = parse(text); err != nil {
		return "", false, err
	}
	list := d.plugins(e, c.version2())
	entry := list.items[list.ours[0]]
	raw := text[entry.start:entry.end]
	if rest, ok := strings.CutPrefix(text, newFile(raw, lineEnd(text, 0))); ok && strings.TrimSpace(rest) == "" {
		switch {
		case list.marked:
			return mark + rest, false, nil
		case mark+rest == "":
			return "", true, nil
		}
	}
	if object := d.object(); len(list.items) == 1 && !list.marked && c.removable() && !d.commented(object.items[list.member]) {
		return mark + d.without(object, list.member), false, nil
	}
	return mark + d.without(list.container, list.ours[0]), false, nil
}

// insert is Insert for a text that is not blank and has no byte order mark; version2 says that "plugins" is the list.
func insert(text string, e Entry, version2 bool) (string, error) {
	d, err := parse(text)
	if err != nil {
		return "", err
	}
	if d, err = d.drop(e, !version2, 0); err != nil {
		return "", err
	}
	marked := d.plugins(e, version2).marked
	if d, err = d.drop(e, version2, 1); err != nil {
		return "", err
	}
	list := d.plugins(e, version2)
	switch {
	case list.member < 0:
		return d.addList(e), nil
	case len(list.ours) == 0:
		return d.add(list.container, d.behind(list.container), e.written(len(list.items) == 0)), nil
	case list.spelled && list.marked == marked:
		return d.text, nil
	}
	return d.with(edit{list.items[list.ours[0]], e.written(marked)}), nil
}

// addList returns the text with a plugin list behind all other members. Where those have lines, the entry has one, too: a
// new file looks different (see newFile).
func (d *document) addList(e Entry) string {
	object := d.object()
	p := d.behind(object)
	entry, end := e.written(false), ""
	if p.lines {
		entry, end = p.indent+d.unit()+entry, p.indent
	}
	return d.add(object, p, `"plugin":`+object.colon+"["+entry+end+"]")
}

// newFile is a configuration with nothing but our entry. There are blanks around the entry, by which Delete tells the file
// from any other: Insert writes none there.
func newFile(entry, newline string) string {
	return strings.ReplaceAll("{\n  \"$schema\": "+quote(Schema)+",\n  \"plugin\": [ ", "\n", newline) + entry + " ]" + newline + "}" + newline
}

// plugins is a plugin list of the document, with our entries in it.
type plugins struct {
	container
	member  int // which one of the top level it is; -1 if there is none
	ours    []int
	marked  bool // one of ours is (see [Entry])
	spelled bool // the last of ours is the URL, without options
}

// plugins looks for our entries in "plugin", or in "plugins" for OpenCode 2.
func (d *document) plugins(e Entry, version2 bool) plugins {
	name := "plugin"
	if version2 {
		name = "plugins"
	}
	l := plugins{member: d.member(name)}
	if l.member < 0 {
		return l
	}
	m := d.top.Members[l.member]
	elements, ok := m.Value.Value.(*hujson.Array)
	if !ok { // "plugins" may be anything
		return plugins{member: -1}
	}
	l.container = d.list(m)
	for i, element := range elements.Elements {
		text, options := spec(element, version2)
		if text != nil && e.means(text.String()) {
			l.ours = append(l.ours, i)
			l.marked = l.marked || isMarked(string(text))
			l.spelled = !options && text.String() == e.URL
		}
	}
	return l
}

// drop returns the document without our entries in a list, but for so many.
func (d *document) drop(e Entry, version2 bool, keep int) (*document, error) {
	for {
		l := d.plugins(e, version2)
		n := len(l.ours)
		if n <= keep {
			return d, nil
		}
		var err error
		if d, err = parse(d.without(l.container, l.ours[n-1])); err != nil {
			return nil, err
		}
	}
}

// cutMark cuts the byte order mark off.
func cutMark(content string) (mark, text string) {
	text = strings.TrimPrefix(content, "\ufeff")
	return content[:len(content)-len(text)], text
}
