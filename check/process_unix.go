//go:build unix

package check

import (
	"os/exec"
	"syscall"
)

// group puts a command into a process group of its own, all of which ends when the command is cancelled.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
