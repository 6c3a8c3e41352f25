// Package process tells whether a process id still belongs to the process that
// somebody saw. It starts, signals and changes nothing.
package process

import "time"

// clockTolerance is how much the clock of a process's start may differ from that of files:
// the kernel's time of boot is in whole seconds, and moves as the clock is set.
const clockTolerance = 2 * time.Second

// RanAt reports whether the process that has a pid now was running at a time in the
// past, as far as the system tells. A pid is given again after its process ended.
func RanAt(pid int, then time.Time) bool {
	start, alive := started(pid)
	return alive && !start.After(then.Add(clockTolerance))
}
