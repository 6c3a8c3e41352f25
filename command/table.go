package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
)

// A table has lines of cells. For a terminal they stand in columns with a heading; for
// a program they are separated by tabs, without a heading, and no cell is empty.
type table struct {
	heading []string
	lines   [][]string
}

func (t *table) add(cells ...string) {
	for n, cell := range cells {
		if cells[n] = oneline.Text(cell); cell == "" {
			cells[n] = "-"
		}
	}
	t.lines = append(t.lines, cells)
}

// columns writes the table for people; what it is too wide for is cut off.
func (t *table) columns(width int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{t.heading}, t.lines...) {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	var cut strings.Builder
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, " \n")
		if runes := []rune(line); width > 0 && len(runes) > width {
			line = string(runes[:width-1]) + "…"
		}
		cut.WriteString(line + "\n")
	}
	return cut.String()
}

// tabbed writes the table for programs.
func (t *table) tabbed() string {
	var b strings.Builder
	for _, cells := range t.lines {
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	return b.String()
}

// away is a length of time for people: to the second, or coarser.
func away(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// jsonTime is a time as RFC 3339 in UTC, or null.
type jsonTime time.Time

func (t jsonTime) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(rfc3339(time.Time(t)))
}

// rfc3339 is "" for the zero time.
func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
