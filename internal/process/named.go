package process

// A running process, as a listing has it.
type listed struct {
	pid, parent int
	name        string // of its program, without a directory
}

// Named returns the processes of this user whose program has one of the names, but for those that
// such a process started. Known is false where the system does not say.
func Named(names ...string) (pids []int, known bool) {
	all, known := list()
	isNamed := map[int]bool{}
	for _, p := range all {
		for _, name := range names {
			isNamed[p.pid] = isNamed[p.pid] || p.name == name
		}
	}
	for _, p := range all {
		if isNamed[p.pid] && !isNamed[p.parent] {
			pids = append(pids, p.pid)
		}
	}
	return pids, known
}
