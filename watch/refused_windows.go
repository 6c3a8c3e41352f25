package watch

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refused reports whether nothing listens there.
func refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
