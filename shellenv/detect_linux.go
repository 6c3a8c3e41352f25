package shellenv

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processTable reads /proc/PID/stat, see proc_pid_stat(5).
func processTable() func(pid int) (name string, parent int, ok bool) {
	return func(pid int) (string, int, bool) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return "", 0, false
		}
		// "pid (name) state ppid …", where the name may hold blanks and parentheses.
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if open < 0 || end < open {
			return "", 0, false
		}
		fields := bytes.Fields(stat[end+1:])
		if len(fields) < 2 {
			return "", 0, false
		}
		parent, err := strconv.Atoi(string(fields[1]))
		if err != nil {
			return "", 0, false
		}
		return processName(dir, string(stat[open+1:end])), parent, true
	}
}

// processName prefers the executable to the given name of the process, which for a
// script is the script's, and otherwise whatever the process says. The executable is
// hidden where the process is another user's, and an emulator where there is one.
func processName(dir, name string) string {
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return name
	}
	exe = strings.TrimSuffix(exe, " (deleted)") // an upgrade replaced the running shell
	if _, ok := ShellOf(exe); ok {
		return exe
	}
	if _, ok := ShellOf(name); ok {
		return name
	}
	return exe
}
