package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// What status, retry, pause and resume have in common: the directory in which running
// plugins are seen and told.

func newInstalledFlag() *flagText { return newDataDirFlag("the plugin is in DIR/mcp-reconnect") }

// located returns where the plugin and its state are.
func located(flag *flagText, s System) (plugin.Location, error) {
	data, err := dataDirectory(flag, s)
	if err != nil {
		return plugin.Location{}, err
	}
	return plugin.Locate(data)
}

// mustBeThere is an error where there is neither a plugin nor the state of a watch, so
// that nobody can be told anything.
func mustBeThere(l plugin.Location) error {
	for _, dir := range []string{l.Dir, l.StateDir} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return &hintedError{fmt.Errorf("%s: the plugin is not installed", oneline.Text(l.Dir)),
		"mcp-reconnect install, or mcp-reconnect env, installs it; another directory can be given by --data-dir"}
}

// asGiven is a flag as it stands on the command line, if it does, for a command to copy. What
// its variable says holds for that one, too.
func asGiven(flag *flagText) []string {
	if !flag.IsSet() {
		return nil
	}
	return []string{"--" + flag.name, flag.given[len(flag.given)-1]}
}

// commandLine is a command of ours that a person can copy into a shell.
func commandLine(words ...string) string {
	line := "mcp-reconnect"
	for _, word := range words {
		line += " " + oneline.Word(word)
	}
	return oneline.Text(line)
}

// hintOf adds a hint to errors of package state.
func hintOf(err error) error {
	var foreign *state.ForeignError
	if errors.As(err, &foreign) {
		return &hintedError{err, "move it away"}
	}
	return err
}

// seenServers completes names of servers: those that running plugins know of.
func seenServers(flag *flagText, s System) func(given []string) []candidate {
	return func(given []string) []candidate {
		location, err := located(flag, s)
		if err != nil {
			return nil
		}
		found, err := state.Read(location.StateDir)
		if err != nil {
			return nil
		}
		known := map[string]bool{}
		for _, name := range given {
			known[name] = true
		}
		var names []candidate
		for _, i := range found.List {
			for _, server := range i.Servers {
				if !known[server.Name] {
					known[server.Name] = true
					names = append(names, candidate{server.Name, ""})
				}
			}
		}
		return names
	}
}

// openDirectories completes directories: those that running OpenCodes have open.
func openDirectories(flag *flagText, s System) func() []string {
	return func() []string {
		location, err := located(flag, s)
		if err != nil {
			return nil
		}
		found, err := state.Read(location.StateDir)
		if err != nil {
			return nil
		}
		return directoriesOf(found.List)
	}
}
