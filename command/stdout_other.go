//go:build !unix

package command

import "os"

// stdoutClosed reports whether this process was started without a standard output.
func stdoutClosed() bool {
	_, err := os.Stdout.Stat()
	return err != nil
}
