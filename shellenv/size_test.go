package shellenv

import (
	"strings"
	"testing"
)

func TestLimitOfOneVariable(t *testing.T) { // B31
	for _, tt := range []struct {
		goos string
		size int
		unit string
		ok   bool
	}{
		{"linux", 131_047, "x", true},
		{"linux", 131_048, "x", false},
		{"linux", 131_047 / 2, "é", true},
		{"linux", 131_048 / 2, "é", false},
		{"windows", 32_766, "x", true},
		{"windows", 32_767, "x", false},
		{"windows", 32_766, "é", true},
		{"windows", 32_766 / 2, "🙂", true}, // two units of UTF-16 each
		{"windows", 32_768 / 2, "🙂", false},
		{"darwin", 200_000, "x", true},
	} {
		err := checkSizeOn(tt.goos, "OPENCODE_CONFIG_CONTENT", strings.Repeat(tt.unit, tt.size))
		if (err == nil) != tt.ok {
			t.Errorf("%s, %d times %s: %v", tt.goos, tt.size, tt.unit, err)
		}
	}
}
