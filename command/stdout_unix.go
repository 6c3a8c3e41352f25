//go:build unix

package command

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcp-reconnect/mcp-reconnect/shellenv"
)

// stdoutClosed reports whether a shell started this process without a standard
// output (>&-). Go's runtime puts /dev/null in its place, open for reading and
// writing. A shell's own >/dev/null is open for writing alone; but Python and Node
// open it for both, for a caller who wants no output, hence the look at the parent
// and at standard error, which such a caller gives the same.
func stdoutClosed() bool {
	flags, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return err != nil
	}
	out, err1 := os.Stdout.Stat()
	null, err2 := os.Stat(os.DevNull)
	if err1 != nil || err2 != nil || !os.SameFile(out, null) {
		return false
	}
	if stderr, err := os.Stderr.Stat(); err == nil && os.SameFile(stderr, null) {
		return false
	}
	parents := shellenv.Ancestors()
	if len(parents) == 0 {
		return false
	}
	_, shell := shellenv.ShellOf(parents[0])
	return shell
}

func isClosedPipe(err error) bool { return errors.Is(err, unix.EPIPE) }
