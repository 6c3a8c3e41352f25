package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
)

// maxSecret is how long a line with a secret may be, in bytes.
const maxSecret = 4 << 10

// secretIn returns the first line of a file, which may be a pipe, without what editors put
// around it. Nothing behind that line is waited for, and no message repeats any of it.
func secretIn(file setting) (string, error) {
	f, err := os.Open(file.value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file.source, err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxSecret+1)).ReadString('\n')
	secret := strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	switch {
	case err != nil && err != io.EOF:
		return "", fmt.Errorf("%s: %w", file.source, err)
	case len(line) > maxSecret:
		return "", fmt.Errorf("%s: the first line of %s is longer than %d bytes", file.source, oneline.Text(file.value), maxSecret)
	case secret == "":
		return "", fmt.Errorf("%s: the first line of %s is empty", file.source, oneline.Text(file.value))
	}
	return secret, nil
}
