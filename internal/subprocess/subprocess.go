// Package subprocess holds what starting a program of somebody else's takes: an end
// of all that it started, and errors that do not repeat its name.
package subprocess

import (
	"errors"
	"os"
	"os/exec"
)

// Cause is the error below those that repeat a name.
func Cause(err error) error {
	var path *os.PathError
	var lookup *exec.Error
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &lookup):
		return lookup.Err
	}
	return err
}
