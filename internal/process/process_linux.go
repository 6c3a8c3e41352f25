package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of /proc's times, USER_HZ: 100 on every architecture
// that Go runs on.
const ticksPerSecond = 100

// started reads /proc/PID/stat, see proc_pid_stat(5). A zombie is not alive.
func started(pid int) (start time.Time, alive bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, !os.IsNotExist(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may hold blanks
	const state, starttime = 0, 19                                  // the manual's 3 and 22, less pid, name, and 1
	if len(fields) <= starttime || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return time.Time{}, false
	}
	ticks, err := strconv.ParseInt(string(fields[starttime]), 10, 64)
	if err != nil {
		return time.Time{}, true
	}
	return bootTime().Add(time.Duration(ticks) * time.Second / ticksPerSecond), true
}

// bootTime is "btime" of /proc/stat; the zero time where that cannot be read.
func bootTime() time.Time {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}
	}
	_, after, _ := strings.Cut(string(stat), "\nbtime ")
	seconds, err := strconv.ParseInt(strings.Fields(after + " x")[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
