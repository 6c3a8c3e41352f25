package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets shells under test run the test binary as mcp-reconnect, which
// completes with fakeCommand among the commands, and otherwise only writes its
// arguments down, a line for each time that it is run.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "mcp-reconnect" {
		os.Exit(m.Run())
	}
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == completeCommand:
		fmt.Print(findCompleter(args[1]).answer(args[2:], testCommands()))
	case len(args) > 0 && args[0] == "completion":
		os.Exit(Main(os.Args, OS()))
	default:
		f, err := os.OpenFile(os.Getenv("RECORD"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(strings.Join(args, "|") + "\n")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
