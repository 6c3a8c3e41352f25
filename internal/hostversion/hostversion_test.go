package hostversion

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVersions(t *testing.T) {
	for output, want := range map[string]string{
		"1.18.33\n": "1.18.33", "opencode v2.0.26\n": "2.0.26", "v1.0.142": "1.0.142",
		"\x1b[1mopencode\x1b[0m \x1b[32mv2.0.26\x1b[39m\r\n": "2.0.26",
		"0.0.0-next-15123\n": "0.0.0-next-15123", "a note\n1.2.3\n": "1.2.3", "1.2.3-beta.1+5": "1.2.3-beta.1+5",
		"": "", "1.2": "", "sk-5ecret": "", "version 1": "", "1.2.3 4": "",
	} {
		if got := Find(output); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
	for version, known := range map[string]bool{"1.18.33": true, "2.0.0-beta.1": true, "0.0.0-next-15123": false, "": false, "x": false} {
		if got := Comparable(version); (got != "") != known {
			t.Errorf("%q: %q", version, got)
		}
	}
}

func TestIs2(t *testing.T) {
	for version, want := range map[string]bool{"2.0.26": true, "2.0.0-beta.1": true, "3.0.0": true, "1.18.33": false, "1.99.0-beta": false, "0.0.0-next-15123": false, "": false, "x": false} {
		if got := Is2(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// program writes a shell script.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "opencode")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsThatAreNotOpenCode(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"silent":          {"#!/bin/sh\nexit 0", "no version of OpenCode"},
		"failing":         {"#!/bin/sh\necho sk-5ecret; echo sk-5ecret >&2; exit 4", "exit status 4"},
		"talking":         {"#!/bin/sh\nyes sk-5ecret | head -c 1000000", "no version of OpenCode"},
		"no interpreter":  {"#!/nowhere\n", "OpenCode cannot be run: no such file or directory"},
		"leaving a child": {"#!/bin/sh\nsleep 30 & echo 1.2.3", ""},
	} {
		start := time.Now()
		version, err := Ask(t.Context(), program(t, tt.script), os.Environ())
		if tt.want == "" {
			if version != "1.2.3" || err != nil {
				t.Errorf("%s: %q, %v", name, version, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "5ecret") {
			t.Errorf("%s: %q, %v", name, version, err)
		}
		if elapsed := time.Since(start); elapsed > 5*time.Second {
			t.Errorf("%s: took %v", name, elapsed)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	version, err := Ask(ctx, program(t, "#!/bin/sh\nsleep 30"), os.Environ())
	if err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("hanging: %q after %v", version, time.Since(start))
	}
}
