package command

import (
	"errors"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// What status, retry, pause and resume have in common: the directory in which running
// plugins are seen and told.

func newInstalledFlag() *flagText { return newDataDirFlag("the plugin is in DIR/mcp-reconnect") }

// installedDir returns the plugin's own directory.
func installedDir(flag *flagText, s System) (string, error) {
	data, err := dataDirectory(flag, s)
	if err != nil {
		return "", err
	}
	location, err := plugin.Locate(data)
	return location.Dir, err
}

// hintOf adds a hint to errors of package state.
func hintOf(err error) error {
	switch {
	case errors.Is(err, state.ErrNotInstalled):
		return &hintedError{err, "mcp-reconnect env installs it; another directory can be given by --data-dir"}
	case errors.Is(err, state.ErrForeign):
		return &hintedError{err, "move it away"}
	}
	return err
}

// seenServers completes names of servers: those that running plugins know of.
func seenServers(flag *flagText, s System) func(given []string) []candidate {
	return func(given []string) []candidate {
		dir, err := installedDir(flag, s)
		if err != nil {
			return nil
		}
		found, err := state.Read(dir)
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
