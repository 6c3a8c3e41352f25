package configmerge

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A document is a configuration as its author wrote it, to be changed at a place and nowhere else.
type document struct {
	text     string // without its byte order mark
	top      *hujson.Object
	start    int // of the top level's bracket
	end      int // behind the bracket that closes it
	comments []span
	mask     []byte // the text, in which each byte of a comment is inBlock or inLine
}

// Both stand nowhere else in a text that can be read. Like blanks they are not above ' '.
const inBlock, inLine = 0, 1

// A span is a part of a text.
type span struct{ start, end int }

// A container is a list or an object, with its brackets, and what it holds: entries, or members from key to value.
type container struct {
	span
	items []span
	colon string // the blanks behind the colon of its key, or of its last member's
}

// An edit puts text in the place of a span.
type edit struct {
	span
	text string
}

// parse reads a text that [load] takes and that is not blank.
func parse(text string) (*document, error) {
	b, comments, _ := blank(text)
	v, err := hujson.Parse(b)
	if err != nil {
		return nil, errorAt(text, 0, "not readable as JSONC", "") // json.Valid took what hujson does not
	}
	top, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, errorAt(text, v.StartOffset, "the top level is "+kind(v)+", expected an object", "")
	}
	mask := []byte(text)
	for _, c := range comments {
		fill := byte(inBlock)
		if text[c.start+1] == '/' {
			fill = inLine
		}
		copy(mask[c.start:c.end], bytes.Repeat([]byte{fill}, c.end-c.start))
	}
	return &document{text, top, v.StartOffset, v.EndOffset, comments, mask}, nil
}

// member returns the index of the member with that name, or -1. Of duplicate keys the last one counts.
func (d *document) member(name string) int {
	for i, m := range slices.Backward(d.top.Members) {
		if m.Name.Value.(hujson.Literal).String() == name {
			return i
		}
	}
	return -1
}

// object is the top level.
func (d *document) object() container {
	c := container{span: span{d.start, d.end}, colon: " "}
	for _, m := range d.top.Members {
		c.items = append(c.items, span{m.Name.StartOffset, m.Value.EndOffset})
		c.colon = d.colon(m)
	}
	return c
}

// list is the list that is a member's value.
func (d *document) list(m hujson.ObjectMember) container {
	c := container{span: span{m.Value.StartOffset, m.Value.EndOffset}, colon: d.colon(m)}
	for _, element := range m.Value.Value.(*hujson.Array).Elements {
		c.items = append(c.items, span{element.StartOffset, element.EndOffset})
	}
	return c
}

// colon returns the blanks behind the colon of a member: one, or none.
func (d *document) colon(m hujson.ObjectMember) string {
	if d.mask[m.Value.StartOffset-1] == ':' {
		return ""
	}
	return " "
}

// A place is where another item of a container goes, behind the last one.
type place struct {
	at     int    // the item goes here, directly behind a token or a comment
	comma  int    // a comma goes here; -1 says that it goes behind the item, as a trailing one
	gap    string // goes before the item
	lines  bool   // the item is on a line of its own
	indent string // what that line begins with, its line end included
}

// behind returns the place for another item of c: behind the comments that follow the last one on its line.
func (d *document) behind(c container) (p place) {
	if len(c.items) == 0 {
		return d.inside(c)
	}
	last := c.items[len(c.items)-1]
	trailing := d.comma(last.end, c.end)
	at, lineComment := d.commentsOnLine(max(last.end, trailing+1))
	switch p.at = at; {
	case trailing >= 0:
		p.comma = -1
	case lineComment:
		p.comma = last.end // behind // it would be none
	default:
		p.comma = at
	}
	begins := d.beginsLine(last.start)
	p.indent = lineEnd(d.text, at) + d.indent(last.start)
	if !begins && d.lineStart(last.start) <= c.start {
		p.indent += d.unit()
	}
	switch p.lines = begins || lineComment; {
	case p.lines:
		p.gap = p.indent
	case len(c.items) == 1:
		p.gap = c.colon
	default:
		p.gap = d.text[d.blanksBefore(last.start):last.start]
	}
	return p
}

// inside returns the place for the first item of c: behind the comments in it.
func (d *document) inside(c container) (p place) {
	p.at = c.start + 1
	indent := d.indent(c.start) + d.unit()
	for _, comment := range d.comments {
		if c.start < comment.start && comment.end < c.end {
			p.at, p.gap = comment.end, " "
			if d.beginsLine(comment.start) {
				indent = d.indent(comment.start)
			}
		}
	}
	p.indent = lineEnd(d.text, p.at) + indent
	if p.lines = bytes.ContainsAny(d.mask[c.start:c.end], "\r\n\x01"); p.lines {
		p.gap = p.indent
	}
	return p
}

// add returns the text with another item in c.
func (d *document) add(c container, p place, item string) string {
	switch {
	case len(c.items) == 0:
		return d.with(edit{span{p.at, p.at}, p.gap + item})
	case p.comma < 0:
		return d.with(edit{span{p.at, p.at}, p.gap + item + ","})
	}
	return d.with(edit{span{p.comma, p.comma}, ","}, edit{span{p.at, p.at}, p.gap + item})
}

// without returns the text without an item of c, the blanks before it, and one comma: the one behind it, or that before
// it if there is none.
func (d *document) without(c container, index int) string {
	item, next := c.items[index], c.end
	if index+1 < len(c.items) {
		next = c.items[index+1].start
	}
	cut := edit{span: span{d.blanksBefore(item.start), item.end}}
	comma := d.comma(item.end, next)
	if comma == item.end {
		cut.end++
	}
	if rest := d.text[cut.end]; d.mask[cut.start-1] == inLine && rest != '\r' && rest != '\n' {
		cut.start = item.start // without its line end the comment would take in what follows
	}
	if cut.start == item.start && comma == item.end && index+1 < len(c.items) { // what follows takes its place
		rest := d.text[cut.end:]
		cut.end += len(rest) - len(strings.TrimLeft(rest, " \t"))
	}
	switch {
	case comma > item.end:
		return d.with(cut, edit{span: span{comma, comma + 1}})
	case comma < 0 && index > 0:
		comma = d.comma(c.items[index-1].end, item.start)
		return d.with(edit{span: span{comma, comma + 1}}, cut)
	}
	return d.with(cut)
}

// with returns the text with edits, which are in order.
func (d *document) with(edits ...edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(d.text[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(d.text[at:])
	return b.String()
}

// commented reports whether a comment is in a part of the text.
func (d *document) commented(s span) bool {
	return bytes.ContainsAny(d.mask[s.start:s.end], "\x00\x01")
}

// comma returns the offset of the comma between two items, or between the last item and the end, or -1.
func (d *document) comma(from, to int) int {
	if i := bytes.IndexByte(d.mask[from:to], ','); i >= 0 {
		return from + i
	}
	return -1
}

// blanksBefore returns where the blanks begin that end at an offset.
func (d *document) blanksBefore(offset int) int {
	for strings.IndexByte(" \t\r\n", d.mask[offset-1]) >= 0 {
		offset--
	}
	return offset
}

// commentsOnLine returns the end of the comments that follow an offset on its line, with nothing but blanks between, and
// whether the last of them ends the line.
func (d *document) commentsOnLine(offset int) (end int, line bool) {
	end = offset
	for _, c := range d.comments {
		if c.start < end {
			continue
		}
		if strings.Trim(d.text[end:c.start], " \t") != "" {
			break
		}
		end, line = c.end, d.mask[c.start] == inLine
	}
	return end, line
}

// beginsLine reports whether no other token is before an offset on its line.
func (d *document) beginsLine(offset int) bool {
	start := offset
	for start > 0 && d.mask[start-1] <= ' ' && d.text[start-1] != '\n' && d.text[start-1] != '\r' {
		start--
	}
	return start == 0 || d.mask[start-1] <= ' '
}

// lineStart returns where the line of an offset begins.
func (d *document) lineStart(offset int) int {
	return strings.LastIndexAny(d.text[:offset], "\r\n") + 1
}

// indent returns the blanks that the line of an offset begins with.
func (d *document) indent(offset int) string {
	line := d.text[d.lineStart(offset):offset]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// unit returns by how much a level is indented: the members of the top level say so, or the comments.
func (d *document) unit() string {
	for _, m := range d.top.Members {
		if d.beginsLine(m.Name.StartOffset) {
			return strings.TrimPrefix(d.indent(m.Name.StartOffset), d.indent(d.start))
		}
	}
	for _, c := range d.comments {
		before := strings.TrimRight(d.text[:c.start], " \t")
		if d.start < c.start && c.end < d.end && (strings.HasSuffix(before, "\n") || strings.HasSuffix(before, "\r")) {
			return strings.TrimPrefix(d.indent(c.start), d.indent(d.start))
		}
	}
	return "  "
}

// lineEnd returns the line end that is nearest before an offset, else the first one, else \n.
func lineEnd(text string, offset int) string {
	i := strings.LastIndexAny(text[:offset], "\r\n")
	if i < 0 {
		i = strings.IndexAny(text, "\r\n")
	}
	switch {
	case i < 0:
		return "\n"
	case text[i] == '\n' && i > 0 && text[i-1] == '\r' || strings.HasPrefix(text[i:], "\r\n"):
		return "\r\n"
	}
	return text[i : i+1]
}
