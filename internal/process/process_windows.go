package process

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

func find(pid int) (p Process, alive bool) {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return p, errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(handle)
	var creation, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(handle, &creation, &exit, &kernel, &user); err != nil {
		return p, true
	}
	// A process that ended has a handle as long as somebody else keeps one.
	if exit.LowDateTime != 0 || exit.HighDateTime != 0 {
		return p, false
	}
	return Process{start: time.Unix(0, creation.Nanoseconds())}, true
}

func space() string { return "" }
