package shellenv

import "golang.org/x/sys/unix"

// processTable asks sysctl kern.proc.pid, see sysctl(3).
func processTable() func(pid int) (name string, parent int, ok bool) {
	return func(pid int) (string, int, bool) {
		process, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
		if err != nil {
			return "", 0, false
		}
		name := unix.ByteSliceToString(process.Proc.P_comm[:])
		return name, int(process.Eproc.Ppid), true
	}
}
