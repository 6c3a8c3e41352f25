package plugin

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const fileURLTable = "../testdata/fileurls.json"

func TestFileURLEqualsNode(t *testing.T) {
	var rows []struct {
		Path    string
		Windows bool
		URL     string
	}
	table, err := os.ReadFile(fileURLTable)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(table, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) < 400 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		got, err := fileURL(row.Path, row.Windows)
		if err != nil || got != row.URL {
			t.Errorf("fileURL(%q, windows %v) = %q, %v; Node gives %q", row.Path, row.Windows, got, err, row.URL)
		}
		parsed, err := url.Parse(got)
		if err != nil || parsed.Scheme != "file" {
			t.Errorf("fileURL(%q) = %q does not parse: %v", row.Path, got, err)
		}
	}
}

// TestFileURLTableIsNodes regenerates the table: a Node that encodes otherwise shows here.
func TestFileURLTableIsNodes(t *testing.T) {
	script, err := filepath.Abs("../testdata/fileurls.mjs")
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(testenv.Program(t, "node"), script)
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	if *update {
		if err := os.WriteFile(fileURLTable, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(fileURLTable)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("testdata/fileurls.json differs from what this Node gives (-table +node):\n%s", diff)
	}
}

func TestFileURLRefuses(t *testing.T) {
	for _, tt := range []struct {
		path    string
		windows bool
	}{
		{"relative/dir", false}, {"", false}, {"/bad\xffutf8", false},
		{`relative\dir`, true}, {`C:relative`, true}, {`\rooted`, true}, {`\\bücher\s\d`, true}, {`\\?\C:\x`, true}, {"", true},
		{`\\localhost\c$\d`, true}, {`\\127.1\s\d`, true}, {`\\999\s\d`, true}, {`\\srv@SSL\s\d`, true}, {`\\a b\s\d`, true},
	} {
		if got, err := fileURL(tt.path, tt.windows); err == nil {
			t.Errorf("fileURL(%q, windows %v) = %q, want an error", tt.path, tt.windows, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
