package reconnect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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

var (
	partName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([A-Za-z]+)\}`) })
	word        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w-]{1,40}$`) }) // what a state may be
	expressions sync.Map                                                                               // pattern -> *regexp.Regexp
)

// expression compiles a pattern of shared.json at its first use. It ignores case, as the
// flags iu of JavaScript do.
func expression(pattern string) *regexp.Regexp {
	if e, ok := expressions.Load(pattern); ok {
		return e.(*regexp.Regexp)
	}
	e := regexp.MustCompile("(?i)" + spelledOut(pattern))
	expressions.Store(pattern, e)
	return e
}

// spelledOut is a pattern with its parts in their places.
func spelledOut(pattern string) string {
	return partName().ReplaceAllStringFunc(pattern, func(name string) string {
		part, ok := shared().Parts[strings.Trim(name, "{}")]
		if !ok {
			panic("shared.json has no part " + name)
		}
		return spelledOut(string(part))
	})
}

// first returns the first characters of a text.
func first(length int, text string) string {
	for at := range text {
		if length == 0 {
			return text[:at]
		}
		length--
	}
	return text
}

// NoticesDeaths reports whether a version of OpenCode notices by itself that a local server
// is gone (rule 20).
func NoticesDeaths(version string) bool {
	var v [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return false
	}
	least := shared().NoticesDeaths
	return slices.Compare(v[:], least[:]) >= 0
}

// says reports whether an error is one of a kind of shared.json: nil, or what the
// pattern that fits and its groups are.
func says(text, kind string) []string {
	text = first(shared().Constants.Classified, text)
	for _, pattern := range shared().Errors[kind] {
		if match := expression(pattern).FindStringSubmatch(text); match != nil {
			return match
		}
	}
	return nil
}

// Harmless returns an error without what may be a secret in it, at most 200 characters.
func Harmless(text string) string { return harmless(text) }

// harmless is an error without what may be a secret in it: errors quote addresses,
// headers and command lines. It is cut before it is looked at: a server may say whatever
// it likes. The values of OpenCode's variables are not known here.
func harmless(text string) string {
	if head := first(shared().Constants.Examined, text); head != text {
		text = expression(shared().Cut).ReplaceAllString(head, "") + "…"
	}
	for _, s := range shared().Secrets {
		if s.When == nil {
			text = expression(s.Pattern).ReplaceAllString(text, s.Instead)
			continue
		}
		text = expression(s.Pattern).ReplaceAllStringFunc(text, func(match string) string {
			for _, pattern := range s.When {
				if !expression(pattern).MatchString(match) {
					return match
				}
			}
			return s.Instead
		})
	}
	return first(shared().Constants.ErrorLength, text)
}
