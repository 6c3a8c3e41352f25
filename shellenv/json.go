package shellenv

import (
	"fmt"
	"strings"
)

// jsonObject writes one JSON object of names and values, on one line; unset is null.
// Only what JSON demands is escaped: encoding/json would rewrite U+2028 and U+2029
// whatever it is told.
func jsonObject(names []string, env Env) (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		if value := env[name]; value == nil {
			b.WriteString("null")
		} else {
			writeJSONString(&b, *value)
		}
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func writeJSONString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}
