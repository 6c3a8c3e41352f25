package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Policy says how the plugin reconnects. The settings and their defaults are
// those of docs/engine.md; Settings describes each one, with its range.
type Policy struct {
	FirstDelay     time.Duration // from a failure to the next try, at least
	InitialDelay   time.Duration // from the first start of a server to the next, at least; doubles with each try that counts
	MaxDelay       time.Duration // where the doubling ends
	Jitter         float64       // every delay is multiplied by a random factor in [1-Jitter, 1+Jitter]
	MaxAttempts    int           // tries that count, from which a server is parked
	StableAfter    time.Duration // a connection that lasts so long takes back every try; each sixth of it, one
	ProbeInterval  time.Duration // between the tries of a parked server
	PollInterval   time.Duration // between two reads of an instance's status
	IdleAfter      time.Duration // without a prompt for so long: no polls, no probes
	ConnectTimeout time.Duration // after it a pending connect gives its slot back
	Concurrency    int           // connects in flight at once in the whole process
	RestartDead    string        // on or off: restart a connected server whose connection a call proved dead
	HoldPrompt     time.Duration // a prompt waits at most so long for servers that may be back soon
	Start          string        // what starts an instance: auto, use, load or mcp
	Only           []string      // patterns of the servers to act on; none means all
	Skip           []string      // patterns of the servers to leave alone
	Notify         string        // none or toast
	Log            string        // info, warn or none
}

// DefaultPolicy returns the defaults of docs/engine.md.
func DefaultPolicy() Policy {
	return Policy{
		FirstDelay:     100 * time.Millisecond,
		InitialDelay:   time.Second,
		MaxDelay:       30 * time.Second,
		Jitter:         0.2,
		MaxAttempts:    10,
		StableAfter:    time.Minute,
		ProbeInterval:  5 * time.Minute,
		PollInterval:   30 * time.Second,
		IdleAfter:      30 * time.Minute,
		ConnectTimeout: 15 * time.Second,
		Concurrency:    4,
		RestartDead:    "on",
		HoldPrompt:     2 * time.Second,
		Start:          "auto",
		Notify:         "none",
		Log:            "info",
	}
}

// A Setting is one field of Policy as people spell it: on the command line, in
// a variable, in the rendered plugin.
type Setting struct {
	Name    string   // the flag's name, e.g. "first-delay"
	Usage   string   // one line for people
	Kind    string   // what stands for the value in help: DURATION, NUMBER, NAME or PATTERN
	Values  string   // what may be given, e.g. "1ms to 1h"; also part of error messages
	Choices []string // the values, where they can be listed
	Many    bool     // may be given several times

	set   func(p *Policy, value string) error
	get   func(p *Policy) string
	check func(p *Policy) error
}

// Set parses value into its field of p. The error gives the allowed values.
func (s Setting) Set(p *Policy, value string) error { return s.set(p, value) }

// Get returns the setting's value in p, as Set would take it.
func (s Setting) Get(p Policy) string { return s.get(&p) }

// Settings lists every setting in the order of the table in docs/engine.md.
func Settings() []Setting { return slices.Clone(settings) }

var settings = []Setting{
	duration("first-delay", "from a failure to the next try, at least", time.Millisecond, time.Hour,
		func(p *Policy) *time.Duration { return &p.FirstDelay }),
	duration("initial-delay", "least time between two starts of a server; it doubles with each try", 10*time.Millisecond, time.Hour,
		func(p *Policy) *time.Duration { return &p.InitialDelay }),
	duration("max-delay", "where the doubling ends", 10*time.Millisecond, 24*time.Hour,
		func(p *Policy) *time.Duration { return &p.MaxDelay }),
	number("jitter", "random part of every delay", 0, 1, parseFraction,
		func(p *Policy) *float64 { return &p.Jitter }),
	number("max-attempts", "so many tries park a server", 1, 1000, strconv.Atoi,
		func(p *Policy) *int { return &p.MaxAttempts }),
	duration("stable-after", "after this time connected all tries are forgotten, and one after each sixth of it", 0, 24*time.Hour,
		func(p *Policy) *time.Duration { return &p.StableAfter }),
	duration("probe-interval", "between the tries of a parked server, while in use", time.Second, 24*time.Hour,
		func(p *Policy) *time.Duration { return &p.ProbeInterval }),
	duration("poll-interval", "between two reads of the status, while in use", time.Second, 24*time.Hour,
		func(p *Policy) *time.Duration { return &p.PollInterval }),
	duration("idle-after", "without a prompt for so long: no polls, no probes", time.Second, 7*24*time.Hour,
		func(p *Policy) *time.Duration { return &p.IdleAfter }),
	duration("connect-timeout", "after it a pending connect gives its slot back", 100*time.Millisecond, 10*time.Minute,
		func(p *Policy) *time.Duration { return &p.ConnectTimeout }),
	number("concurrency", "connects in flight at once in the whole process", 1, 64, strconv.Atoi,
		func(p *Policy) *int { return &p.Concurrency }),
	choice("restart-dead", "restart a connected server when a call proves that its connection is dead", []string{"on", "off"},
		func(p *Policy) *string { return &p.RestartDead }),
	duration("hold-prompt", "a prompt waits at most so long for a server that has just failed, or is being restarted", 0, time.Minute,
		func(p *Policy) *time.Duration { return &p.HoldPrompt }),
	choice("start", "what starts an instance: its use, its loading, mcp events alone", []string{"auto", "use", "load", "mcp"},
		func(p *Policy) *string { return &p.Start }),
	patterns("only", "act on these servers alone (* and ? stand for any text and any character)",
		func(p *Policy) *[]string { return &p.Only }),
	patterns("skip", "leave these servers alone",
		func(p *Policy) *[]string { return &p.Skip }),
	choice("notify", "show a toast when a server is back or parked", []string{"none", "toast"},
		func(p *Policy) *string { return &p.Notify }),
	choice("log", "what goes to OpenCode's log", []string{"info", "warn", "none"},
		func(p *Policy) *string { return &p.Log }),
}

// A RangeError is a setting whose value is not allowed.
type RangeError struct {
	Setting string // name of the setting, e.g. "max-delay"
	Other   string // name of the setting that it does not fit, or ""
	Problem string // what is wrong, with the allowed values
}

func (e *RangeError) Error() string { return e.Setting + ": " + e.Problem }

// Validate reports the first setting that is out of its range, as a *RangeError.
func (p Policy) Validate() error {
	for _, s := range settings {
		if err := s.check(&p); err != nil {
			return &RangeError{Setting: s.Name, Problem: err.Error()}
		}
	}
	if p.MaxDelay < p.InitialDelay {
		problem := fmt.Sprintf("the max-delay, %v, is less than the initial-delay, %v", shortDuration(p.MaxDelay), shortDuration(p.InitialDelay))
		return &RangeError{"max-delay", "initial-delay", problem}
	}
	return nil
}

// rendered is a policy as the plugin reads it: times in milliseconds, lists never null.
type rendered struct {
	FirstDelay     float64  `json:"firstDelay"`
	InitialDelay   float64  `json:"initialDelay"`
	MaxDelay       float64  `json:"maxDelay"`
	Jitter         float64  `json:"jitter"`
	MaxAttempts    int      `json:"maxAttempts"`
	StableAfter    float64  `json:"stableAfter"`
	ProbeInterval  float64  `json:"probeInterval"`
	PollInterval   float64  `json:"pollInterval"`
	IdleAfter      float64  `json:"idleAfter"`
	ConnectTimeout float64  `json:"connectTimeout"`
	Concurrency    int      `json:"concurrency"`
	RestartDead    string   `json:"restartDead"`
	HoldPrompt     float64  `json:"holdPrompt"`
	Start          string   `json:"start"`
	Only           []string `json:"only"`
	Skip           []string `json:"skip"`
	Notify         string   `json:"notify"`
	Log            string   `json:"log"`
}

func (p Policy) rendered() rendered {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return rendered{
		ms(p.FirstDelay), ms(p.InitialDelay), ms(p.MaxDelay), p.Jitter, p.MaxAttempts,
		ms(p.StableAfter), ms(p.ProbeInterval), ms(p.PollInterval), ms(p.IdleAfter), ms(p.ConnectTimeout),
		p.Concurrency, p.RestartDead, ms(p.HoldPrompt), p.Start, append([]string{}, p.Only...), append([]string{}, p.Skip...), p.Notify, p.Log,
	}
}

// setting ties a field to its parser and its check; the four kinds below differ in these alone.
func setting[T any](name, usage, kind, values string, field func(*Policy) *T,
	parse func(string) (T, error), format func(T) string, check func(T) error) Setting {
	return Setting{
		Name: name, Usage: usage, Kind: kind, Values: values,
		set: func(p *Policy, text string) error {
			v, err := parse(text)
			if err != nil {
				return err
			}
			if err := check(v); err != nil {
				return err
			}
			*field(p) = v
			return nil
		},
		get:   func(p *Policy) string { return format(*field(p)) },
		check: func(p *Policy) error { return check(*field(p)) },
	}
}

func duration(name, usage string, least, most time.Duration, field func(*Policy) *time.Duration) Setting {
	values := shortDuration(least) + " to " + shortDuration(most)
	return setting(name, usage, "DURATION", values, field,
		func(text string) (time.Duration, error) {
			d, err := time.ParseDuration(text)
			if err != nil {
				return 0, fmt.Errorf("%q is not a duration such as 250ms or 30s (%s)", text, values)
			}
			return d, nil
		},
		shortDuration,
		func(d time.Duration) error {
			if d < least || d > most {
				return fmt.Errorf("%v is out of range (%s)", d, values)
			}
			return nil
		})
}

// shortDuration is d without the zero units that time.Duration.String appends ("1h0m0s").
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func parseFraction(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func number[T int | float64](name, usage string, least, most T, parse func(string) (T, error), field func(*Policy) *T) Setting {
	values := fmt.Sprintf("%v to %v", least, most)
	return setting(name, usage, "NUMBER", values, field,
		func(text string) (T, error) {
			n, err := parse(text)
			if errors.Is(err, strconv.ErrRange) {
				return 0, fmt.Errorf("%s is out of range (%s)", text, values)
			}
			if err != nil {
				return 0, fmt.Errorf("%q is not a number (%s)", text, values)
			}
			return n, nil
		},
		func(n T) string { return fmt.Sprint(n) },
		func(n T) error {
			if !(n >= least && n <= most) { // also false for NaN
				return fmt.Errorf("%v is out of range (%s)", n, values)
			}
			return nil
		})
}

func choice(name, usage string, allowed []string, field func(*Policy) *string) Setting {
	values := strings.Join(allowed, ", ")
	s := setting(name, usage, "NAME", values, field,
		func(text string) (string, error) { return text, nil },
		func(text string) string { return text },
		func(text string) error {
			if !slices.Contains(allowed, text) {
				return fmt.Errorf("%q is none of %s", text, values)
			}
			return nil
		})
	s.Choices = allowed
	return s
}

// patterns is a list of server names with wildcards, comma-separated. Brackets
// and backslashes are kept free for a richer syntax, so they are malformed today.
func patterns(name, usage string, field func(*Policy) *[]string) Setting {
	s := setting(name, usage, "PATTERN", "names, comma-separated; may be repeated", field,
		func(text string) ([]string, error) {
			list := strings.Split(text, ",")
			for i := range list {
				list[i] = strings.TrimSpace(list[i])
			}
			return list, nil
		},
		func(list []string) string { return strings.Join(list, ",") },
		func(list []string) error {
			for _, pattern := range list {
				if err := checkPattern(pattern); err != nil {
					return err
				}
			}
			return nil
		})
	s.Many = true
	set := s.set
	s.set = func(p *Policy, text string) error {
		before := *field(p)
		if err := set(p, text); err != nil {
			return err
		}
		*field(p) = append(slices.Clone(before), *field(p)...)
		return nil
	}
	return s
}

func checkPattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("an empty pattern matches no server (use * for all)")
	case !utf8.ValidString(pattern):
		return errors.New("a pattern must be valid UTF-8")
	case strings.ContainsAny(pattern, `[]\`):
		return fmt.Errorf("malformed pattern %q: only * and ? are special, and [ ] \\ are not allowed", pattern)
	case strings.ContainsFunc(pattern, unicode.IsControl):
		return fmt.Errorf("malformed pattern %q: control characters are not allowed", pattern)
	}
	return nil
}
