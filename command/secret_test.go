//go:build unix

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSecretIn(t *testing.T) {
	long := strings.Repeat("s3cret", 1000)
	for name, test := range map[string]struct{ content, want, problem string }{
		"a line":        {"s3cret\n", "s3cret", ""},
		"no line end":   {"s3cret", "s3cret", ""},
		"from Windows":  {"\ufeffs3cret\r\n", "s3cret", ""},
		"blanks":        {" \t s3cret of mine \n", "s3cret of mine", ""},
		"several lines": {"s3cret\nuser: ann\n" + long, "s3cret", ""},
		"nothing":       {"", "", "is empty"},
		"only blanks":   {"\ufeff \r\ns3cret\n", "", "is empty"},
		"too long":      {long, "", "is longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			wantSecret(t, file, test.want, test.problem)
		})
	}
	t.Run("a pipe that stays open", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
				t.Cleanup(func() { f.Close() })
				f.WriteString("s3cret\n")
			}
		}()
		wantSecret(t, file, "s3cret", "")
	})
	t.Run("without an end", func(t *testing.T) { wantSecret(t, "/dev/zero", "", "is longer than 4096 bytes") })
	t.Run("a directory", func(t *testing.T) { wantSecret(t, t.TempDir(), "", "is a directory") })
}

func wantSecret(t *testing.T, file, want, problem string) {
	t.Helper()
	got, err := secretIn(setting{file, "--token-file"})
	switch {
	case got != want:
		t.Errorf("%q", got)
	case problem == "" && err != nil:
		t.Error(err)
	case problem != "" && (err == nil || !strings.HasPrefix(err.Error(), "--token-file: ") || !strings.HasSuffix(err.Error(), problem) || strings.Contains(err.Error(), "s3cret")):
		t.Errorf("%v", err)
	}
}
