//go:build !linux && !darwin && !windows

package process

// list sees nothing: these systems have no /proc by default.
func list() (all []listed, known bool) { return nil, false }
