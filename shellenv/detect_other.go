//go:build !linux && !darwin && !windows

package shellenv

// processTable sees nothing: these systems have no /proc by default.
func processTable() func(pid int) (name string, parent int, ok bool) {
	return func(int) (string, int, bool) { return "", 0, false }
}
