package process

import (
	"errors"
	"time"

	"golang.org/x/sys/windows"
)

func started(pid int) (start time.Time, alive bool) {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return time.Time{}, errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(process)
	var creation, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &creation, &exit, &kernel, &user); err != nil {
		return time.Time{}, true
	}
	// A process that ended has a handle as long as somebody else keeps one.
	if exit.Nanoseconds() > 0 && (exit.LowDateTime != 0 || exit.HighDateTime != 0) {
		return time.Time{}, false
	}
	return time.Unix(0, creation.Nanoseconds()), true
}
