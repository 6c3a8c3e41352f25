package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// What install and uninstall have in common: how configuration files are changed.

// fileFlags are the flags of install and uninstall alike.
type fileFlags struct{ dataDir, config, dryRun *flagText }

func newFileFlags(dataDir, config string) fileFlags {
	return fileFlags{
		dataDir: newDataDirFlag(dataDir),
		config:  &flagText{name: "config", value: "FILE", usage: config},
		dryRun:  &flagText{name: "dry-run", usage: "print what would change as a diff, which shows lines of the configuration, and write nothing"},
	}
}

// A fileTarget is what install and uninstall work on.
type fileTarget struct {
	target
	around configfile.Surrounding
	config string // the file that was named, absolute, or ""
	dryRun bool
}

func (f fileFlags) target(s System) (o fileTarget, err error) {
	if o.dryRun, err = f.dryRun.on(s); err != nil {
		return o, err
	}
	if err = o.locate(f.dataDir, s); err != nil {
		return o, err
	}
	config, err := f.config.named(s)
	if err != nil {
		return o, err
	}
	if config.ok() {
		if o.config, err = filepath.Abs(config.value); err != nil {
			return o, err
		}
	}
	o.around, err = s.surrounding()
	return o, err
}

// surrounding is where OpenCode looks for its configuration, started here.
func (s System) surrounding() (configfile.Surrounding, error) {
	around := configfile.Surrounding{Environ: s.Environ, Home: s.home()}
	var err error
	if around.Dir, err = os.Getwd(); err != nil {
		return around, fmt.Errorf("finding the working directory: %w", err)
	}
	return around, nil
}

// An edit is a change of a configuration file.
type edit struct {
	configfile.Listed
	text  string
	whole bool // nothing is left: the file goes
}

func (e edit) changes() bool { return e.text != e.Text || e.whole }

func (e edit) write() error {
	switch {
	case !e.changes():
		return nil
	case e.whole:
		return e.Remove()
	}
	return e.Replace(e.text)
}

// tries is how often a file is read again that somebody else changes at the same time.
const tries = 50

// apply plans the edits, checks that they can be made, and makes them, between first and the end. It plans
// anew if a file has changed meanwhile: what somebody else wrote there stays.
func (o fileTarget) apply(plan func() ([]edit, error), first func() error) (made []edit, err error) {
	for range tries {
		edits, err := plan()
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			if err := o.allowed(e); err != nil {
				return nil, err
			}
		}
		if o.dryRun {
			return edits, nil
		}
		if err := first(); err != nil {
			return nil, err
		}
		changed := false
		for _, e := range edits {
			err := e.write()
			switch {
			case errors.Is(err, configfile.ErrChanged):
				changed = true
			case err != nil:
				err = fmt.Errorf("%s: %w", o.shown(e.Name), withoutPath(err))
				if errors.Is(err, syscall.EBUSY) { // as a file is that a container has from outside
					err = &hintedError{err, "it is mounted there: change it where it comes from, or use mcp-reconnect env, which needs no file"}
				}
				return nil, err
			case e.changes():
				made = append(made, e)
			}
		}
		if !changed {
			return made, nil
		}
	}
	return nil, fmt.Errorf("the configuration: %w", configfile.ErrChanged)
}

// allowed returns why a file is not to be changed.
func (o fileTarget) allowed(e edit) error {
	if !e.changes() {
		return nil
	}
	err := e.Writable()
	if errors.Is(err, configfile.ErrReadOnly) {
		return &hintedError{fmt.Errorf("%s cannot be changed: %w", o.shown(e.Name), err),
			"change it where it is made (dotfiles, Nix), or use mcp-reconnect env, which needs no file"}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.shown(e.Name), withoutPath(err))
	}
	return nil
}

// readable returns the first error of files that were read. A file that is not there is none.
func (o fileTarget) readable(files []configfile.Listed) error {
	for _, f := range files {
		var syntax *configmerge.SyntaxError
		switch {
		case errors.As(f.Err, &syntax):
			return &hintedError{fmt.Errorf("%s: %w", o.shown(f.Name), f.Err), syntax.Hint}
		case f.Err != nil:
			return &hintedError{fmt.Errorf("%s: %w", o.shown(f.Name), f.Err), "another file can be named by --config"}
		}
	}
	return nil
}

// home makes sure that there is a place for the global configuration, and that it is nobody else's.
func (o fileTarget) home(s System) error {
	if o.config != "" {
		return o.ownHome(s)
	}
	name, path := "HOME", o.around.Home
	if config, _ := o.around.Getenv("XDG_CONFIG_HOME"); config != "" {
		name, path = "XDG_CONFIG_HOME", config
	}
	if filepath.IsAbs(path) {
		return o.ownHome(s)
	}
	return &hintedError{errors.New("there is no place for OpenCode's configuration: " + name + " is not set to an absolute path"), "name a file by --config"}
}

// ownHome refuses to work in another person's home: what would be written there, its owner could not read.
func (o fileTarget) ownHome(s System) error {
	by := s.getenv("SUDO_USER") + s.getenv("SUDO_UID") + s.getenv("DOAS_USER")
	if by == "" {
		return nil
	}
	paths := []string{o.dataDir}
	if o.config != "" {
		paths = append(paths, o.config)
	} else {
		paths = append(paths, o.around.Global().Path)
	}
	for _, path := range paths {
		uid, known := configfile.Owner(path)
		if !known || uid == os.Geteuid() {
			continue
		}
		whose := "user " + strconv.Itoa(uid)
		if name := s.getenv("SUDO_USER"); name != "" && s.getenv("SUDO_UID") == strconv.Itoa(uid) {
			whose = name
		}
		return &hintedError{fmt.Errorf("%s belongs to %s, and this runs as another user", path, whose), "run it as " + whose + ", without sudo"}
	}
	return nil
}

// named returns the source of the file that was named.
func (o fileTarget) named() configfile.Source {
	source := configfile.Source{Place: configfile.Place{Path: o.config, Name: o.config}, Scope: configfile.Project}
	for _, known := range o.around.Sources() {
		if resolved(known.Path) == resolved(o.config) {
			source.Scope, source.Path = known.Scope, known.Path
		}
	}
	return source
}

// resolved is a path whose directory has no symbolic links in it.
func resolved(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// shown is a path for people.
func (o fileTarget) shown(path string) string { return oneline.Text(o.around.Short(path)) }

// withoutPath is the reason of an error about a path. One that a variable names may be no path.
func withoutPath(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

// loadedBy returns the processes that have loaded the plugin.
func (o fileTarget) loadedBy() (pids []int) {
	pids = state.Former(o.location.Dir)
	found, _ := state.Read(o.location.StateDir)
	for _, i := range found.List {
		if !i.Watch {
			pids = append(pids, i.Pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// diff is the change as a unified diff.
func (e edit) diff() string {
	before, after := e.Path, e.Path
	if !e.Exists {
		before = os.DevNull
	}
	if e.whole {
		after = os.DevNull
	}
	return string(diff.Diff(before, []byte(e.Text), after, []byte(e.text)))
}
