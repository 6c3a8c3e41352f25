//go:build !unix

package subprocess

import (
	"os/exec"
	"strconv"
)

// Group lets all that a command started end when the command is cancelled.
func Group(cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run() == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
}
