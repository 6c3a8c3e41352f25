// Package process tells whether a process id still belongs to the process that
// somebody saw. It starts, signals and changes nothing.
package process

import "time"

// clockTolerance is how much the clock of a process's start may differ from that of files.
const clockTolerance = 2 * time.Second

// A Process is one that runs.
type Process struct {
	// Began is when it was started, in the system's own words, which no change of the
	// clock touches; "" where there are none. On Linux it is proc_pid_stat(5)'s starttime.
	Began string
	start time.Time // by the clock on the wall, where there is no Began; zero if unknown
}

// Find returns the process that has a pid now.
func Find(pid int) (p Process, alive bool) { return find(pid) }

// Space names the space in which pids count here, pid_namespaces(7); "" where there is
// only one.
func Space() string { return space() }

// Wrote reports whether a process may be the one that said of itself, then, that it
// had Began: a pid is given again after its process ended.
func (p Process) Wrote(began string, then time.Time) bool {
	if p.Began != "" && began != "" {
		return p.Began == began
	}
	return !p.start.After(then.Add(clockTolerance))
}
