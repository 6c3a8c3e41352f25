//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// group returns the processes of a process group, which an OpenCode and everything
// that it started share, whoever their parent is now. Zombies are not among them.
func group(pgid int) (pids []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		var state string
		var ppid, group int
		name := bytes.LastIndexByte(stat, ')') // may hold blanks
		if _, err := fmt.Sscan(string(stat[name+1:]), &state, &ppid, &group); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && group == pgid && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// commandLine is for people.
func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Join(strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"), " ")
}

// A memory is what a process holds, in MiB.
type memory struct{ rss, pss float64 }

func (m memory) String() string { return fmt.Sprintf("%.0f MiB VmRSS, %.0f MiB Pss", m.rss, m.pss) }

func readMemory(pid int) (m memory, err error) {
	read := func(file, field string) (float64, error) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, field+":"); ok {
				kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
				return kib / 1024, err
			}
		}
		return 0, fmt.Errorf("no %s in %s", field, file)
	}
	if m.rss, err = read("status", "VmRSS"); err != nil {
		return m, err
	}
	m.pss, err = read("smaps_rollup", "Pss")
	return m, err
}
