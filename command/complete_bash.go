package command

import "strings"

// answerBash takes the line up to the cursor, of which bash's own split into words is
// of no use (it splits at = and : too, and keeps quotes), and the end of it that bash
// will replace. That is the last word from the last = or : in it on, or from an open
// quote on; so a candidate is cut to what belongs there, and quoted as is right there.
func answerBash(args []string, commands []subcommand) string {
	if len(args) != 2 {
		return ""
	}
	line := readBash(args[0])
	if len(line.words) < 2 {
		return ""
	}
	if line.redirection {
		return completion{kind: "files"}.print(nil)
	}
	word := line.words[len(line.words)-1]
	kept := readBash(strings.TrimSuffix(line.last, args[1])) // by bash
	return completionOf(line.words[1:], commands).beginning(word).print(func(c candidate) string {
		return quoteBash(strings.TrimPrefix(c.word, kept.words[0]), kept.quote)
	})
}

// bashLine is a line, or a part of one, up to the cursor.
type bashLine struct {
	words       []string // without quotes; the last one is at the cursor
	last        string   // the last one as it was typed
	quote       string   // that is open at the cursor: "", ', " or $'
	redirection bool     // the last word is what a < or > is followed by
}

// readBash splits a line as bash does, but expands nothing. The line begins with a
// word: bash passes it from the command's name on.
func readBash(line string) bashLine {
	var l bashLine
	var word strings.Builder
	start, target := 0, false // of the word; it is what a redirection is followed by
	end := func(at, next int) {
		if at > start && !target {
			l.words = append(l.words, word.String())
		}
		target = target && at == start
		word.Reset()
		start = next
	}
	for n := 0; n < len(line); n++ {
		c := line[n]
		escaped := c == '\\' && l.quote != "'" && n+1 < len(line) &&
			(l.quote != `"` || strings.IndexByte("$`\"\\", line[n+1]) >= 0)
		switch {
		case escaped:
			n++
			word.WriteByte(line[n])
		case c == '\\' && l.quote == "" && n+1 == len(line):
			// what it escapes is yet to be typed
		case l.quote != "" && c == l.quote[len(l.quote)-1]:
			l.quote = ""
		case l.quote != "":
			word.WriteByte(c)
		case c == '\'' || c == '"':
			l.quote = string(c)
		case c == '$' && n+1 < len(line) && line[n+1] == '\'':
			l.quote = "$'"
			n++
		case c == ' ' || c == '\t' || c == '\n':
			end(n, n+1)
		case c == '<' || c == '>':
			if strings.Trim(line[start:n], "0123456789&") == "" {
				start, target = n, false // as in 2>file, where 2 is no word
			}
			end(n, n+1)
			target = true
		default:
			word.WriteByte(c)
		}
	}
	l.words = append(l.words, word.String())
	l.last = line[start:]
	l.redirection = target
	return l
}

// quoteBash quotes text for a place where the given quote is open. That stays open,
// for bash to close it, unless text so quoted ends in a quote: bash takes it for closed.
func quoteBash(text, open string) string {
	var b strings.Builder
	for _, r := range text {
		special := r < 0x80 && !strings.ContainsRune(plainCharacters, r)
		switch {
		case open == "'" && r == '\'':
			b.WriteString(`'\''`)
		case open == "$'" && (r == '\'' || r == '\\'), open == `"` && strings.ContainsRune("$`\"\\", r), open == "" && special:
			b.WriteString(`\` + string(r))
		case open == `"` && r == '!': // which a backslash would not hide there
			b.WriteString(`"\!"`)
		default:
			b.WriteRune(r)
		}
	}
	quoted := b.String()
	if open != "" && strings.HasSuffix(quoted, open[len(open)-1:]) {
		quoted += open[len(open)-1:]
	}
	return quoted
}
