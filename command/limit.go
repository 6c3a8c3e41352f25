package command

import (
	"fmt"
	"runtime"
	"unicode/utf16"
)

// checkSize refuses a value that the system would not pass to a program: in a
// shell that has such a variable, every later command fails.
func checkSize(value string) error { return checkSizeOn(runtime.GOOS, value) }

func checkSizeOn(goos, value string) error {
	switch goos {
	case "linux":
		// MAX_ARG_STRLEN is 32 pages for NAME=value and the byte that ends it.
		if limit := 32*4096 - len(contentVariable+"=") - 1; len(value) > limit {
			return tooLong(len(value), limit, "bytes")
		}
	case "windows":
		if limit, size := 32766, len(utf16.Encode([]rune(value))); size > limit {
			return tooLong(size, limit, "characters")
		}
	}
	return nil
}

func tooLong(size, limit int, unit string) error {
	return &hintedError{
		fmt.Errorf("the configuration is too long for a variable: %d %s, and the system takes %d", size, unit, limit),
		"keep long texts in files and name them as {file:PATH}, or move parts to opencode.json",
	}
}
