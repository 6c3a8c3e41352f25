package opencode

import (
	"slices"
	"testing"
)

func TestCalls(t *testing.T) {
	for prompt, want := range map[string][][]string{
		`"hello"`:                                nil,
		`"call a_echo"`:                          {{"a_echo"}},
		`[{"text":"\"#1: call a_echo.\"\n"}]`:    {{"a_echo"}},
		`"call a_echo and b_echo"`:               {{"a_echo", "b_echo"}},
		`"call a_echo then b_echo and c then d"`: {{"a_echo"}, {"b_echo", "c"}, {"d"}},
		`"call here or gone"`:                    {{"here"}},
		`"call gone or here and c"`:              {{"here", "c"}},
		`"call a_echo please then b_echo"`:       {{"a_echo"}},
	} {
		if got := calls(prompt, []string{"here"}); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("calls(%s) = %q, want %q", prompt, got, want)
		}
	}
}
