package reconnect

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// shared is what this engine shares with the plugin's: template/shared.json, parsed when
// it is first needed, not at every start of a program that only merges.
var shared = sync.OnceValue(func() (s struct {
	Constants struct {
		LookGap      time.Duration // events are looked at once in this time, however many there are (rule 10)
		WakeGap      time.Duration // a parked server is woken once in this time (rule 13)
		ReadLimit    time.Duration // a status read that takes longer is given up (rule 16)
		MissingTries int           // for a command that does not exist (rule 15)
		MostCalls    int           // running ones that are remembered (rule 20)
		Classified   int           // of an error, before it is found out what it says, in characters
		Examined     int           // of an error, before what may be a secret is taken out
		ErrorLength  int           // of an error that is told
	}
	NoticesDeaths [3]int              // the version from which OpenCode notices by itself that a local server is gone
	Phases        map[string]string   // with what each means
	Reasons       map[string]string   // why a connected server was restarted, for the log
	Errors        map[string][]string // patterns of each kind
	Parts         map[string]part     // of patterns, where they stand as {name}
	Cut           string              // the pattern of what goes from the end of an error that is cut
	Variable      string              // the pattern of a variable's name whose value is secret
	Secrets       []struct {
		What    string
		Pattern string
		When    []string // patterns that what matches has to match, too
		Instead string   // as for Regexp.Expand; with When, as it is
	}
}) {
	if err := json.Unmarshal(template.Shared(), &s); err != nil {
		panic(err) // it is a part of the program
	}
	for _, ms := range []*time.Duration{&s.Constants.LookGap, &s.Constants.WakeGap, &s.Constants.ReadLimit} {
		*ms *= time.Millisecond
	}
	return s
})

// A part of patterns is a pattern; in the file it may be a list, which stands for any of it.
type part string

func (p *part) UnmarshalJSON(text []byte) error {
	var any []string
	if text[0] != '[' {
		return json.Unmarshal(text, (*string)(p))
	}
	err := json.Unmarshal(text, &any)
	*p = part("(?:" + strings.Join(any, "|") + ")")
	return err
}
