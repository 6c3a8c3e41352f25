//go:build !unix

package check

import "os/exec"

// group leaves a command as it is: cancelled, it ends alone.
func group(*exec.Cmd) {}
