package shellenv

import (
	"os"
	"runtime"
	"strings"
)

// processNames are names that shells run by, beyond the names that Shell takes.
var processNames = map[string]string{
	"ksh93":          "ksh",
	"rbash":          "bash",
	"rzsh":           "zsh",
	"nushell":        "nu",
	"pwsh-preview":   "powershell",
	"powershell_ise": "powershell",
}

// Detect returns the Syntax.Name of the first candidate that is a known shell, or "sh". A
// candidate is the name or the path of a program, also as a process shows it: "-zsh" of
// a login shell, "C:\Windows\…\PowerShell.exe".
func Detect(candidates ...string) string {
	for _, candidate := range candidates {
		if name, ok := ShellOf(candidate); ok {
			return name
		}
	}
	return "sh"
}

// ShellOf returns the Syntax.Name of the shell that a program is, by its name or path.
func ShellOf(program string) (string, bool) {
	base := strings.ToLower(program[strings.LastIndexAny(program, `/\`)+1:])
	base = strings.TrimPrefix(base, "-")
	name := strings.TrimSuffix(base, ".exe")
	if name == "cmd" && name == base && runtime.GOOS != "windows" {
		return "", false // a common name for a program of one's own; cmd.exe is meant
	}
	if full, ok := processNames[name]; ok {
		name = full
	}
	s, ok := Shell(name)
	return s.Name, ok
}

// Ancestors returns the names, or paths, of the parent process and of its ancestors,
// nearest first, eight at most, for Detect. It asks the operating system only, runs no
// program (ps is missing in many containers), and returns what it could see.
func Ancestors() []string {
	const most = 8
	look := processTable()
	var names []string
	for pid := os.Getppid(); pid > 0 && len(names) < most; {
		name, parent, ok := look(pid)
		if !ok {
			break
		}
		names = append(names, name)
		pid = parent
	}
	return names
}
