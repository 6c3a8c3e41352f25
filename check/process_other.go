//go:build !unix

package check

import (
	"os/exec"
	"strconv"
)

// group lets all that a command started end when the command is cancelled.
func group(cmd *exec.Cmd) {
	cmd.Cancel = func() error {
		if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run() == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
}
