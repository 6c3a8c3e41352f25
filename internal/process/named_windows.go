package process

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// list takes a snapshot of all processes, and keeps those of this user.
func list() (all []listed, known bool) {
	self, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, false
	}
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, false
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err := windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		if name := strings.ToLower(windows.UTF16ToString(entry.ExeFile[:])); belongsTo(entry.ProcessID, self.User.Sid) {
			all = append(all, listed{int(entry.ProcessID), int(entry.ParentProcessID), strings.TrimSuffix(name, ".exe")})
		}
	}
	return all, true
}

// belongsTo reports whether a process runs for a user; of another's we may not ask.
func belongsTo(pid uint32, user *windows.SID) bool {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return false
	}
	defer windows.CloseHandle(process)
	var token windows.Token
	if windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token) != nil {
		return false
	}
	defer token.Close()
	owner, err := token.GetTokenUser()
	return err == nil && owner.User.Sid.Equals(user)
}
