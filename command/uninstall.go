package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

func uninstallCommand(s System) *cli.Command {
	flags := newUninstallFlags()
	return &cli.Command{
		Name:      "uninstall",
		Usage:     "take the plugin out of your OpenCode configuration again",
		UsageText: "mcp-reconnect uninstall [flags]",
		Flags:     flagsOf([]*flagText{flags.config, flags.dryRun, flags.purge, flags.dataDir}),
		Action: func(*cli.Context) error {
			o, err := flags.options(s)
			if err != nil {
				return err
			}
			return runUninstall(o, s)
		},
	}
}

type uninstallFlags struct {
	fileFlags
	purge *flagText
}

func newUninstallFlags() uninstallFlags {
	return uninstallFlags{
		fileFlags: newFileFlags("the plugin is in DIR/mcp-reconnect", "take the plugin out of FILE alone, instead of every file that is yours"),
		purge:     &flagText{name: "purge", usage: "remove the plugin and its state from the data directory, too"},
	}
}

type uninstallOptions struct {
	fileTarget
	purge bool
}

func (f uninstallFlags) options(s System) (o uninstallOptions, err error) {
	if o.purge, err = f.purge.on(s); err != nil {
		return o, err
	}
	o.fileTarget, err = f.target(s)
	return o, err
}

func runUninstall(o uninstallOptions, s System) error {
	if s.StdoutClosed {
		return errors.New("standard output is closed") // before anything is written
	}
	if err := o.home(s); err != nil {
		return err
	}
	sources := o.around.PersonalSources()
	if o.config != "" {
		sources = []configfile.Source{o.named()}
	}
	made, err := o.apply(func() ([]edit, error) { return o.planUninstall(sources) }, func() error { return nil })
	if err != nil {
		return err
	}
	var diffs, files []string
	for _, e := range made {
		if e.changes() {
			diffs = append(diffs, e.diff())
			files = append(files, o.shown(e.Name))
		}
	}
	said := "took the plugin out of " + strings.Join(files, ", ")
	switch {
	case len(files) > 0:
	case o.config != "" && !exists(o.config):
		said = o.shown(o.config) + " does not exist"
	case o.config != "":
		said = o.shown(o.config) + " does not name the plugin"
	default:
		said = "no configuration file of yours names the plugin"
	}
	switch n := len(o.loadedBy()); n { // before the state goes
	case 0:
	case 1:
		said += "; 1 running OpenCode has it until it is restarted"
	default:
		said += fmt.Sprintf("; %d running OpenCodes have it until they are restarted", n)
	}
	purged := ""
	if o.purge {
		if purged, err = o.purgeData(s); err != nil {
			return err
		}
	}
	switch {
	case !o.dryRun && purged != "":
		said += "; " + purged
	case o.dryRun && len(diffs)+len(purged) > 0:
		return s.print(strings.Join(diffs, "") + purged)
	}
	if err := s.print(said + "\n"); err != nil {
		return err
	}
	o.hintLeft(s)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// planUninstall takes the entry out of every file that has it.
func (o fileTarget) planUninstall(sources []configfile.Source) (edits []edit, err error) {
	files := slices.DeleteFunc(configfile.List(sources, o.entry), func(f configfile.Listed) bool {
		return o.config == "" && errors.Is(f.Err, syscall.ENOTDIR) // so there is none
	})
	if err := o.readable(files); err != nil {
		return nil, err
	}
	seen := map[string]bool{} // a file may have two names
	for _, f := range files {
		if !f.Exists || seen[f.Real()] {
			continue
		}
		seen[f.Real()] = true
		e := edit{Listed: f}
		if e.text, e.whole, err = configmerge.Delete(f.Text, f.Entry(o.entry)); err != nil {
			return nil, fmt.Errorf("%s: %w", o.shown(f.Name), err)
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// hintLeft tells where the plugin is still named.
func (o uninstallOptions) hintLeft(s System) {
	hint := s.hint
	switch {
	case o.purge && !o.dryRun: // what is named is not there any more, so that nobody may overlook it
		hint = func(format string, args ...any) { fmt.Fprintf(s.Stderr, "mcp-reconnect: "+format+"\n", args...) }
	case !s.StderrTerminal || o.config != "":
		return
	}
	if names(s.getenv(contentVariable), o.entry) {
		hint("%s still names it: evaluate what mcp-reconnect env --unset prints", contentVariable)
	}
	for _, f := range configfile.List(o.around.Sources(), o.entry) {
		for _, entry := range f.Listing.Entries {
			if entry.Ours {
				hint("%s still names it: mcp-reconnect uninstall --config %s takes it out", o.shown(f.Name), oneline.Text(oneline.Word(f.Path)))
				break
			}
		}
	}
}

// names reports whether a configuration names the plugin.
func names(content string, e configmerge.Entry) bool {
	listing, _ := configmerge.List(content, e)
	for _, entry := range listing.Entries {
		if entry.Ours {
			return true
		}
	}
	return false
}

// purgeData removes what is ours in the data directory, and says so. What is not ours stays, and is named.
func (o uninstallOptions) purgeData(s System) (said string, err error) {
	files, dirs, stateErr := state.Files(o.location.Dir, o.location.StateDir)
	ofPlugin, err := o.location.Files()
	files, err = append(ofPlugin, files...), errors.Join(err, stateErr)
	if err != nil {
		return "", fmt.Errorf("looking at the data directory: %w", err)
	}
	if o.dryRun {
		for _, file := range files {
			said += "would remove " + o.shown(file) + "\n"
		}
		return said, nil
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("removing the plugin: %w", err)
		}
	}
	removed := len(files)
	for _, dir := range dirs {
		if os.Remove(dir) == nil { // else there is something in it
			removed++
		}
	}
	for _, dir := range []string{o.location.Dir, o.location.StateDir} {
		filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				fmt.Fprintf(s.Stderr, "mcp-reconnect: %s is not ours, and stays\n", o.shown(path))
			}
			return nil
		})
	}
	if removed == 0 {
		return "there is nothing of it in " + o.shown(filepath.Dir(o.location.Dir)), nil
	}
	return "removed it and its state from " + o.shown(filepath.Dir(o.location.Dir)), nil
}
