package shellenv

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// processTable takes a snapshot of all processes, the only way to a parent's number
// there. The number may belong to another process by now, if the parent has ended; then
// the wrong shell is found, at worst.
func processTable() func(pid int) (name string, parent int, ok bool) {
	type process struct {
		name   string
		parent int
	}
	processes := map[int]process{}
	if snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0); err == nil {
		defer windows.CloseHandle(snapshot)
		entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
		for err := windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
			processes[int(entry.ProcessID)] = process{
				name:   windows.UTF16ToString(entry.ExeFile[:]),
				parent: int(entry.ParentProcessID),
			}
		}
	}
	return func(pid int) (string, int, bool) {
		p, ok := processes[pid]
		return p.name, p.parent, ok
	}
}
