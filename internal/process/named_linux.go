package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// list reads /proc, see proc(5). Where it does not show this process, it shows nothing that can be trusted.
func list() (all []listed, known bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false
	}
	own := space()
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", entry.Name())
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has ended
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		if space, err := os.Readlink(filepath.Join(dir, "ns/pid")); err == nil && space != own {
			continue // in a container, with a home of its own
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		if err != nil || open < 0 || end < open {
			continue
		}
		fields := bytes.Fields(stat[end+1:]) // "state ppid …"
		if len(fields) < 2 || fields[0][0] == 'Z' {
			continue
		}
		p := listed{pid: pid, name: string(stat[open+1 : end])}
		p.parent, _ = strconv.Atoi(string(fields[1]))
		// The name in stat is cut to 15 bytes, and a thread may have changed it.
		if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
			p.name = filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
		}
		known = known || pid == os.Getpid()
		all = append(all, p)
	}
	return all, known
}
