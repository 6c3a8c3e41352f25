//go:build !windows

package watch

import (
	"errors"
	"syscall"
)

// refused reports whether nothing listens there.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
