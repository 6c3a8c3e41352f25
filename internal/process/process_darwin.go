package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// started asks sysctl kern.proc.pid, see sysctl(3).
func started(pid int) (start time.Time, alive bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(p.Proc.P_starttime.Unix()), true
}
