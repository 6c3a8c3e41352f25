package reconnect

import (
	"regexp"
	"strings"
	"sync"
)

// compiled compiles a pattern at its first use, not at every start of a program that
// only merges.
func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var (
	overloaded = compiled(`\b(EAGAIN|EMFILE|ENFILE|ENOMEM)\b`)
	missing    = compiled(`\b(ENOENT|EACCES)\b.*spawn|spawn.*\b(ENOENT|EACCES)\b|Executable not found`)
)

// concerns reports whether the policy's patterns leave the server to the engine.
func (e *Engine) concerns(name string) bool {
	matches := func(patterns []string) bool {
		for _, pattern := range patterns {
			if matches(pattern, name) {
				return true
			}
		}
		return false
	}
	return (len(e.policy.Only) == 0 || matches(e.policy.Only)) && !matches(e.policy.Skip)
}

// matches reports whether a pattern, in which * stands for any text and ? for any
// character, is the name. It goes back to the last * alone, so that no pattern takes long.
func matches(pattern, name string) bool {
	ps, ns := []rune(pattern), []rune(name)
	p, n, star, from := 0, 0, -1, 0
	for n < len(ns) {
		switch {
		case p < len(ps) && ps[p] == '*':
			star, from = p, n
			p++
		case p < len(ps) && (ps[p] == '?' || ps[p] == ns[n]):
			p, n = p+1, n+1
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(string(ps[p:]), "*") == ""
}

const (
	errorLength = 200   // of an error that is told, in characters
	examined    = 1_000 // of an error, before what may be a secret is taken out
)

const (
	secret = "key|token|secret|passw?(?:or)?d?|passphrase|pwd|auth|authorization|credentials?|cookie"
	value  = "(?:\\\\?\"[^\"\\\\]*\\\\?\"?|'[^']*'?|[^\\s\"'`,;&]+)"
)

// secrets are what harmless takes out, and what stands there instead, as in template/state.js.
var secrets = []struct {
	pattern func() *regexp.Regexp
	instead string
}{
	{compiled(`[\x{0}-\x{1f}\x{7f}-\x{9f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}]+`), " "}, // a terminal may show it
	{compiled("(\\w://)[^\\s\"'`]*@"), "${1}…@"},
	{compiled("(\\w://[^\\s?#\"'`]*[?#])[^\\s\"'`]+"), "${1}…"},
	{compiled(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[=:]\s*["']?)[^"'\n]+`), "${1}${2}…"},
	{compiled("(?i)\\b(bearer|basic)\\s+[^\\s\"'`,]+"), "${1} …"},
	{compiled(`(?i)((?:^|[^a-z])[\w-]{0,40}?(?:` + secret + `)[\w-]{0,20}\\?["']?\s{0,3}[=:]\s{0,3})` + value), "${1}…"},
	{compiled(`(?i)(--?[\w-]{0,40}?(?:` + secret + `)\s{1,3})` + value), "${1}…"},
}

var (
	lastWord  = compiled(`\S{0,200}$`)
	long      = compiled(`[\w+=-]{20,}`)
	twoDigits = compiled(`\d.*\d`)
	letter    = compiled(`[A-Za-z]`)
	word      = compiled(`^[\w-]{1,40}$`) // what a state may be
)

// harmless is an error without what may be a secret in it: errors quote addresses,
// headers and command lines. The values of OpenCode's variables are not known here.
func harmless(text string) string {
	if runes := []rune(text); len(runes) > examined {
		text = lastWord().ReplaceAllString(string(runes[:examined]), "…")
	}
	for _, s := range secrets {
		text = s.pattern().ReplaceAllString(text, s.instead)
	}
	text = long().ReplaceAllStringFunc(text, func(word string) string {
		if twoDigits().MatchString(word) && letter().MatchString(word) {
			return "…"
		}
		return word
	})
	if runes := []rune(text); len(runes) > errorLength {
		text = string(runes[:errorLength])
	}
	return text
}
