package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

func retryCommand(s System) subcommand {
	flags := retryFlags{
		all:       &flagText{name: "all", usage: "try every failed server, as without names"},
		force:     &flagText{name: "force", usage: "restart the named servers that are connected, too"},
		directory: &flagText{name: "directory", value: "DIR", usage: "in this project directory alone, whether it is in use or only open"},
		wait:      &flagText{name: "wait", value: "DURATION", usage: "wait so long for what becomes of it; 0s to 1h", initial: "10s"},
		dataDir:   newInstalledFlag(),
	}
	return subcommand{
		Command: &cli.Command{
			Name:      "retry",
			Usage:     "forget back-off and try failed servers now, in every directory in use and in this one",
			UsageText: "mcp-reconnect retry [SERVER…] [flags]",
			Flags:     flagsOf([]*flagText{flags.all, flags.force, flags.directory, flags.wait, flags.dataDir}),
			Action: func(c *cli.Context) error {
				options, err := flags.options(c.Args().Slice(), s)
				if err != nil {
					return err
				}
				return runRetry(options, s)
			},
		},
		arguments: seenServers(flags.dataDir, s),
	}
}

type retryFlags struct{ all, force, directory, wait, dataDir *flagText }

type retryOptions struct {
	location  plugin.Location
	servers   []string // none means all
	force     bool     // restart those that are connected, too
	directory string   // "" means all
	here      string   // the working directory, or "" if there is none
	wait      time.Duration
	patient   bool // wait is the default: where servers are started first, it takes longer
}

func (f retryFlags) options(names []string, s System) (retryOptions, error) {
	o := retryOptions{servers: names, wait: 10 * time.Second, patient: true}
	o.here, _ = os.Getwd()
	all, err := f.all.on(s)
	switch {
	case err != nil:
		return o, err
	case all && len(names) > 0 && f.all.IsSet():
		return o, usagef("--all and names of servers exclude each other")
	}
	if o.force, err = f.force.on(s); err != nil {
		return o, err
	}
	if o.force && len(names) == 0 {
		return o, usagef("--force needs the name of a server: mcp-reconnect retry --force SERVER…")
	}
	for _, name := range names {
		if err := checkNotContent(setting{name, "retry"}); err != nil {
			return o, usagef("retry: that is no name of a server")
		}
		if name == "" {
			return o, usagef("retry: the name of a server is empty")
		}
	}
	directory, err := f.directory.named(s)
	if err != nil {
		return o, err
	}
	if directory.ok() {
		if o.directory, err = filepath.Abs(directory.value); err != nil {
			return o, err
		}
	}
	if wait := f.wait.setting(s); wait.ok() {
		o.patient = false
		if o.wait, err = time.ParseDuration(wait.value); err != nil {
			return o, wait.problem("%q is not a duration such as 500ms or 30s (0s to 1h)", wait.value)
		}
		if o.wait < 0 || o.wait > time.Hour {
			return o, wait.problem("%v is out of range (0s to 1h)", o.wait)
		}
	}
	o.location, err = located(f.dataDir, s)
	return o, err
}

func runRetry(o retryOptions, s System) error {
	if err := mustBeThere(o.location); err != nil {
		return err
	}
	control, err := state.ReadControl(o.location.StateDir)
	if err != nil {
		return hintOf(err)
	}
	if control.Paused {
		return &hintedError{errors.New("reconnecting is paused"), "mcp-reconnect resume"}
	}
	found, err := state.Read(o.location.StateDir)
	if err != nil {
		return err
	}
	c := o.concerned(found)
	if len(c.instances) == 0 && !c.appears {
		return o.nowhere(c, s)
	}
	if unknown := o.unknown(c.instances); unknown != "" {
		return unknownServer(unknown, c.instances, s)
	}
	asked := state.Retry{Servers: o.servers, Directories: c.directories, Use: c.use}
	if o.force {
		asked.Force = o.servers
	}
	at, err := state.RequestRetry(o.location.StateDir, asked)
	if err != nil {
		return hintOf(err)
	}
	nameUnused(c.unused, s)
	if o.wait == 0 {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: asked, and not waited for")
		return nil
	}
	fates, now, err := o.await(c, at, s)
	if err != nil {
		return err
	}
	if len(now) == 0 && c.appears {
		return &hintedError{fmt.Errorf("no watch has found %s in its OpenCode", oneline.Text(o.directory)), "mcp-reconnect status shows which OpenCodes are watched"}
	}
	for _, name := range o.servers { // where it was not known before what servers there are
		if !slices.ContainsFunc(fates, func(f fate) bool { return f.name == name || f.name == "" }) {
			return unknownServer(name, now, s)
		}
	}
	err = report(fates, s)
	if slices.ContainsFunc(fates, func(f fate) bool { return f.untouched }) {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: hint: to restart a server that is connected: mcp-reconnect retry --force SERVER")
	}
	return err
}

// What a retry concerns.
type concerned struct {
	instances   []state.Instance // that are asked
	directories []string         // as their OpenCodes call them, if one was named
	use         []string         // those that are not in use yet
	unused      []state.Instance // that are open, and left alone
	appears     bool             // the directory is not known yet, and a watch looks there
}

// concerned finds out what the retry concerns: a directory that is named, whether it is in
// use or not; else all that are in use, and the one that this is run in (rule 2).
func (o retryOptions) concerned(found state.Instances) (c concerned) {
	here := o.directory
	if here == "" {
		here = nearest(o.here, found.List)
	}
	for _, i := range found.List {
		named := here != "" && sameDirectory(here, i.Directory)
		switch {
		case o.directory != "" && !named:
			continue
		case !i.Started && !named:
			c.unused = append(c.unused, i)
			continue
		case !i.Started:
			c.use = append(c.use, i.Directory)
		}
		c.instances = append(c.instances, i)
		if o.directory != "" {
			c.directories = append(c.directories, i.Directory)
		}
	}
	if c.appears = o.directory != "" && len(c.instances) == 0 && len(found.Watches) > 0; c.appears {
		c.directories, c.use = []string{o.directory}, []string{o.directory}
	}
	for _, list := range []*[]string{&c.directories, &c.use} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return c
}

// nearest returns the directory that is open and that a path is in, or "".
func nearest(path string, instances []state.Instance) string {
	for path != "" {
		for _, i := range instances {
			if sameDirectory(path, i.Directory) {
				return path
			}
		}
		parent := filepath.Dir(path)
		if parent == path {
			break
		}
		path = parent
	}
	return ""
}

// nowhere is the error where there is nothing to try.
func (o retryOptions) nowhere(c concerned, s System) error {
	if o.directory != "" {
		return &hintedError{fmt.Errorf("no running OpenCode that has loaded the plugin has %s open", oneline.Text(o.directory)),
			"open it in OpenCode first; mcp-reconnect status shows what is open"}
	}
	// A watch may still wait for its OpenCode.
	if _, err := state.RequestRetry(o.location.StateDir, state.Retry{}); err != nil {
		return hintOf(err)
	}
	nameUnused(c.unused, s)
	return &hintedError{errors.New("there is nothing to try: no directory is in use in an OpenCode that has loaded the plugin from " +
		oneline.Text(o.location.Dir) + ", or that is watched"), "send a prompt, or name a directory by --directory"}
}

// mostNamed is how many directories a message names.
const mostNamed = 5

// nameUnused tells of directories that are open and were left alone, with what to do.
func nameUnused(instances []state.Instance, s System) {
	var directories []string
	for _, i := range instances {
		directories = append(directories, i.Directory)
	}
	slices.Sort(directories)
	for n, directory := range slices.Compact(directories) {
		if n == mostNamed {
			fmt.Fprintln(s.Stderr, "mcp-reconnect: more are open, and not in use; mcp-reconnect status lists them")
			return
		}
		fmt.Fprintf(s.Stderr, "mcp-reconnect: open, and not in use: %s; to try there: mcp-reconnect retry --directory %s\n",
			oneline.Text(directory), oneline.Text(oneline.Word(directory)))
	}
}

// unknown returns the first name that no instance has, or "". As long as what one has is
// not known, it may have any.
func (o retryOptions) unknown(instances []state.Instance) string {
	for _, name := range o.servers {
		if !slices.ContainsFunc(instances, func(i state.Instance) bool { return !i.Known || serverOf(i, name) != nil }) {
			return name
		}
	}
	return ""
}

// unknownServer says which servers there are instead.
func unknownServer(name string, instances []state.Instance, s System) error {
	var said []string
	for _, i := range instances {
		var names []string
		for _, server := range i.Servers {
			names = append(names, oneline.Text(server.Name))
		}
		slices.Sort(names)
		has := "none"
		if len(names) > 0 {
			has = strings.Join(names, ", ")
		}
		text := fmt.Sprintf("%s has no server %q; it has %s", oneline.Text(i.Directory), oneline.Text(name), has)
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if len(said) > mostNamed {
		said = append(said[:mostNamed], fmt.Sprintf("%d more directories have none of that name either", len(said)-mostNamed))
	}
	for _, text := range said[:len(said)-1] {
		fmt.Fprintf(s.Stderr, "mcp-reconnect: %s\n", text)
	}
	return errors.New(said[len(said)-1])
}

// sameDirectory reports whether two paths name one directory, symbolic links or not.
func sameDirectory(a, b string) bool {
	if a == b {
		return true
	}
	real1, err1 := filepath.EvalSymlinks(a)
	real2, err2 := filepath.EvalSymlinks(b)
	return err1 == nil && err2 == nil && real1 == real2
}

func serverOf(i state.Instance, name string) *state.Server {
	if n := slices.IndexFunc(i.Servers, func(s state.Server) bool { return s.Name == name }); n >= 0 {
		return &i.Servers[n]
	}
	return nil
}
