//go:build unix

package subprocess

import (
	"os/exec"
	"syscall"
)

// Group puts a command into a process group of its own, all of which ends when the command is cancelled.
func Group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
