package process

import (
	"bytes"
	"fmt"
	"os"
)

// find reads /proc/PID/stat, see proc_pid_stat(5). A zombie is not alive.
func find(pid int) (p Process, alive bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, !os.IsNotExist(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may hold blanks
	const state, starttime = 0, 19                                  // the manual's 3 and 22, less pid, name, and 1
	if len(fields) <= starttime || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return p, false
	}
	return Process{Began: string(fields[starttime])}, true
}

func space() string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	return space
}
