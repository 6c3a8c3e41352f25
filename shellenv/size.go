package shellenv

import (
	"fmt"
	"runtime"
	"unicode/utf16"
)

// A SizeError is a value that is too long for a variable of this system.
type SizeError struct {
	Name  string // of the variable
	Size  int    // of the value, in Unit
	Limit int    // what the system takes for this name, in Unit
	Unit  string // "bytes", or on Windows "characters"
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s would be too long for a variable: %d %s, and the system takes %d", e.Name, e.Size, e.Unit, e.Limit)
}

// CheckSize returns a *SizeError for a variable that this system would not pass to
// a program: in a shell that has such a one, every later command fails.
func CheckSize(name, value string) error { return checkSizeOn(runtime.GOOS, name, value) }

func checkSizeOn(goos, name, value string) error {
	switch goos {
	case "linux":
		// MAX_ARG_STRLEN is 32 pages for NAME=value and the byte that ends it.
		if limit := 32*4096 - len(name+"=") - 1; len(value) > limit {
			return &SizeError{name, len(value), limit, "bytes"}
		}
	case "windows":
		if limit, size := 32766, len(utf16.Encode([]rune(value))); size > limit {
			return &SizeError{name, size, limit, "characters"}
		}
	}
	return nil
}
