package plugin

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDefaultsAreTheEnginesTable pins the defaults that docs/engine.md promises.
func TestDefaultsAreTheEnginesTable(t *testing.T) {
	want := map[string]string{
		"first-delay": "100ms", "initial-delay": "1s", "max-delay": "30s", "jitter": "0.2", "max-attempts": "10",
		"stable-after": "1m", "probe-interval": "5m", "poll-interval": "30s", "idle-after": "30m",
		"connect-timeout": "15s", "concurrency": "4", "restart-dead": "on", "hold-prompt": "2s", "start": "auto", "only": "", "skip": "", "notify": "none", "log": "info",
	}
	got := map[string]string{}
	for _, s := range Settings() {
		got[s.Name] = s.Get(DefaultPolicy())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if err := DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
}

func TestSettingsTakeWhatTheyGive(t *testing.T) {
	for _, s := range Settings() {
		value := s.Get(DefaultPolicy())
		if s.Many {
			value = "git*,a?"
		}
		var p Policy
		if err := s.Set(&p, value); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if got := s.Get(p); got != value {
			t.Errorf("%s: set %q, got %q", s.Name, value, got)
		}
	}
}

func TestBadValuesGiveTheRange(t *testing.T) {
	for name, values := range map[string][]string{
		"first-delay":     {"", "100", "abc", "0s", "-1s", "2h"},
		"initial-delay":   {"1ms", "61m"},
		"max-delay":       {"25h", "9ms"},
		"jitter":          {"", "x", "-0.1", "1.01", "NaN", "Inf", "1e999"},
		"max-attempts":    {"0", "1001", "-1", "1.5", "99999999999999999999"},
		"stable-after":    {"-1s", "25h"},
		"probe-interval":  {"999ms", "25h"},
		"poll-interval":   {"10ms"},
		"idle-after":      {"169h"},
		"connect-timeout": {"1ms", "11m"},
		"concurrency":     {"0", "65", "abc"},
		"restart-dead":    {"", "yes", "true"},
		"hold-prompt":     {"", "2", "-1s", "61s"},
		"start":           {"", "never", "AUTO"},
		"notify":          {"mail"},
		"log":             {"debug"},
	} {
		for _, value := range values {
			s := settingNamed(t, name)
			p := DefaultPolicy()
			err := s.Set(&p, value)
			if err == nil {
				t.Errorf("%s takes %q", name, value)
				continue
			}
			if !strings.Contains(err.Error(), s.Values) {
				t.Errorf("%s: %q does not give the allowed values, %s", name, err, s.Values)
			}
			if diff := cmp.Diff(DefaultPolicy(), p); diff != "" {
				t.Errorf("%s: a refused value changed the policy:\n%s", name, diff)
			}
		}
	}
}

func settingNamed(t *testing.T, name string) Setting {
	t.Helper()
	for _, s := range Settings() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no setting %s", name)
	return Setting{}
}

func TestMalformedPatternsAreRefused(t *testing.T) {
	for _, pattern := range []string{"", "a,,b", "a,", "[a", "a]", `a\*`, "a\nb", "\x00", "a\xff"} {
		for _, name := range []string{"only", "skip"} {
			p := DefaultPolicy()
			if err := settingNamed(t, name).Set(&p, pattern); err == nil {
				t.Errorf("%s takes %q", name, pattern)
			}
		}
	}
	p := DefaultPolicy()
	for _, pattern := range []string{"a, b*", "`${x}`", `"quoted"`, "漢字"} {
		if err := settingNamed(t, "only").Set(&p, pattern); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b*", "`${x}`", `"quoted"`, "漢字"}, p.Only); diff != "" {
		t.Errorf("patterns add up (-want +got):\n%s", diff)
	}
}

// TestInvalidPolicyIsNotRendered: a Go program may fill in a Policy by hand.
func TestInvalidPolicyIsNotRendered(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"first-delay":  func(p *Policy) { p.FirstDelay = -time.Second },
		"jitter":       func(p *Policy) { p.Jitter = math.NaN() },
		"max-delay":    func(p *Policy) { p.InitialDelay = time.Minute },
		"max-attempts": func(p *Policy) { p.MaxAttempts = 0 },
		"start":        func(p *Policy) { p.Start = "" },
		"only":         func(p *Policy) { p.Only = []string{"["} },
	} {
		p := DefaultPolicy()
		change(&p)
		_, err := Render(p)
		var out *RangeError
		if !errors.As(err, &out) || out.Setting != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
