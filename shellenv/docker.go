package shellenv

import (
	"bufio"
	"fmt"
)

// docker writes a file for docker run --env-file, which takes a line's text after the
// first = as it is, quotes and backslashes included (docker/cli, pkg/kvfile). So a line
// break cannot be written, and a line, with its end, must fit a bufio.Scanner's buffer.
//
// An unset variable is written as an empty one.
var docker = statements(
	func(name, value string) (string, error) {
		if err := refuse(value, "\r\n"); err != nil {
			return "", err
		}
		line := name + "=" + value + "\n"
		if len(line) > bufio.MaxScanTokenSize {
			return "", fmt.Errorf("its line would have %d bytes, and docker reads %d", len(line), bufio.MaxScanTokenSize)
		}
		return line, nil
	},
	emptied,
)
