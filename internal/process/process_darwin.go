package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// find asks sysctl kern.proc.pid, see sysctl(3).
func find(pid int) (p Process, alive bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return p, false
	}
	return Process{start: time.Unix(info.Proc.P_starttime.Unix())}, true
}

func space() string { return "" }
