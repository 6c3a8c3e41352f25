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
	data := newInstalledFlag()
	flags := retryFlags{
		all:       &flagText{name: "all", usage: "try every failed server, as without names"},
		force:     &flagText{name: "force", usage: "restart the named servers that are connected, too"},
		directory: &flagText{name: "directory", value: "DIR", usage: "in this project directory alone, whether it is in use or only open", known: openDirectories(data, s)},
		wait:      &flagText{name: "wait", value: "DURATION", usage: "wait so long for what becomes of it; 0s to 1h", initial: "10s, and 45s for a first status"},
		dataDir:   data,
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
	patient   bool     // wait is the default: where servers are started first, it takes longer
	dataDir   []string // the flag for it, if it was given on the command line
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
	o.dataDir = asGiven(f.dataDir)
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
		return &hintedError{errors.New("reconnecting is paused"), o.commandLine("resume")}
	}
	found, err := state.Read(o.location.StateDir)
	if err != nil {
		return err
	}
	c := o.concerned(found)
	if len(c.instances) == 0 && !c.appears {
		return o.nowhere(c, found, s)
	}
	if lines := o.unknown(c.instances, c.instances); lines != nil {
		sayLines(lines, "more directories without it", s)
		return &exitError{status: 1}
	}
	// What is restarted is known to be connected: the status comes first.
	if o.force && o.wait > 0 && (c.appears || !allKnown(c.instances)) {
		first, begun := o, time.Now()
		first.force = false
		fates, now, err := first.ask(c, hasStatus, s)
		if err != nil {
			return err
		}
		if len(now) == 0 || !hasStatus(fates) {
			return o.conclude(c, fates, now, s)
		}
		c.instances, c.appears = now, false
		if o.directory != "" { // as their OpenCodes call it
			c.directories = directoriesOf(now)
		}
		if !o.patient {
			o.wait = max(0, o.wait-time.Since(begun))
		}
	}
	if o.wait == 0 {
		_, err := state.RequestRetry(o.location.StateDir, o.request(c))
		if err == nil {
			fmt.Fprintln(s.Stderr, "mcp-reconnect: asked, and not waited for")
			o.nameUnused(c.unused, s)
		}
		return hintOf(err)
	}
	fates, now, err := o.ask(c, isFinal, s)
	if err != nil {
		return err
	}
	return o.conclude(c, fates, now, s)
}

// request is what running plugins and watches are told.
func (o retryOptions) request(c concerned) state.Retry {
	asked := state.Retry{Servers: o.servers, Directories: c.directories, Use: c.use}
	if o.force {
		asked.Force = o.servers
	}
	return asked
}

// ask has the servers tried, and waits for what becomes of them.
func (o retryOptions) ask(c concerned, done func([]fate) bool, s System) ([]fate, []state.Instance, error) {
	at, err := state.RequestRetry(o.location.StateDir, o.request(c))
	if err != nil {
		return nil, nil, hintOf(err)
	}
	return o.await(c, at, done, s)
}

// conclude says what became of a retry, and what else there is to do.
func (o retryOptions) conclude(c concerned, fates []fate, now []state.Instance, s System) error {
	if len(now) == 0 && c.appears {
		return &hintedError{fmt.Errorf("no watch has found %s in its OpenCode", oneline.Text(o.directory)), o.commandLine("status") + " shows which OpenCodes are watched"}
	}
	unknown := o.unknown(slices.Concat(c.instances, now), now) // where it was not known before
	failed := unknown != nil
	switch {
	case len(fates) > 0:
		still, err := report(fates, s)
		if err != nil {
			return err
		}
		failed = failed || still
	case !failed:
		fmt.Fprintln(s.Stderr, "mcp-reconnect: no server is failed")
	}
	sayLines(unknown, "more directories without it", s)
	o.hintForce(fates, s)
	o.nameUnused(c.unused, s)
	if failed {
		return &exitError{status: 1}
	}
	return nil
}

// hintForce says how servers are restarted that were left alone.
func (o retryOptions) hintForce(fates []fate, s System) {
	var names []string
	for _, f := range fates {
		if f.untouched && !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return
	}
	words := append([]string{"--force"}, names...)
	if o.directory != "" {
		words = append(words, "--directory", o.directory)
	}
	fmt.Fprintf(s.Stderr, "mcp-reconnect: hint: to restart what is connected: %s\n", o.commandLine("retry", words...))
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

func directoriesOf(instances []state.Instance) []string {
	var directories []string
	for _, i := range instances {
		directories = append(directories, i.Directory)
	}
	slices.Sort(directories)
	return slices.Compact(directories)
}

// nearest returns the directory that is open and that a path is in, or "".
func nearest(path string, instances []state.Instance) string {
	real, _ := filepath.EvalSymlinks(path) // as OpenCode knows its own
	for _, path := range []string{real, path} {
		for filepath.IsAbs(path) {
			if slices.ContainsFunc(instances, func(i state.Instance) bool { return sameDirectory(path, i.Directory) }) {
				return path
			}
			parent := filepath.Dir(path)
			if parent == path {
				break
			}
			path = parent
		}
	}
	return ""
}

// nowhere is the answer where there is no server to try.
func (o retryOptions) nowhere(c concerned, found state.Instances, s System) error {
	if o.directory != "" {
		hint := "open it in OpenCode first; " + o.commandLine("status") + " shows what is open"
		if above := nearest(filepath.Dir(o.directory), found.List); above != "" {
			hint = "one above it is open: " + o.commandLine("retry", "--directory", above)
		}
		return &hintedError{fmt.Errorf("no running OpenCode that has loaded the plugin has %s open", oneline.Text(o.directory)), hint}
	}
	// A watch may still wait for its OpenCode: it tries to connect at once.
	if _, err := state.RequestRetry(o.location.StateDir, state.Retry{}); err != nil {
		return hintOf(err)
	}
	waiting := slices.DeleteFunc(slices.Clone(found.Watches), isConnected)
	if len(waiting) > 0 && len(o.servers) == 0 {
		return o.retryWatches(c, waiting, s)
	}
	nothing := "there is nothing to try: no directory is in use in an OpenCode that has loaded the plugin from " + oneline.Text(o.location.Dir) + ", or that is watched"
	if len(c.unused) > 0 {
		fmt.Fprintf(s.Stderr, "mcp-reconnect: %s\n", nothing)
		o.nameUnused(c.unused, s)
		return &exitError{status: 1}
	}
	return &hintedError{errors.New(nothing), "send a prompt, or name a directory by --directory"}
}

// retryWatches says what became of the connections that watches have made anew.
func (o retryOptions) retryWatches(c concerned, waiting []state.Watch, s System) error {
	if o.wait == 0 {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: asked, and not waited for")
		return nil
	}
	fates, err := o.awaitWatches(waiting)
	if err != nil {
		return err
	}
	failed, err := report(fates, s)
	o.nameUnused(c.unused, s)
	if err == nil && failed {
		err = &exitError{status: 1}
	}
	return err
}

// nameUnused tells of directories that are open and were left alone, with what to do.
func (o retryOptions) nameUnused(instances []state.Instance, s System) {
	var lines []string
	for _, i := range instances {
		line := fmt.Sprintf("open, and not in use: %s; to try there: %s", oneline.Text(i.Directory), o.commandLine("retry", "--directory", i.Directory))
		if !slices.Contains(lines, line) { // of several OpenCodes
			lines = append(lines, line)
		}
	}
	sayLines(lines, "more, which "+o.commandLine("status")+" lists", s)
}

// commandLine is a command of ours for the same data directory.
func (o retryOptions) commandLine(command string, words ...string) string {
	return commandLine(slices.Concat([]string{command}, o.dataDir, words)...)
}

// unknown are lines about the named servers that no instance in list has: what each of
// those in shown has instead. As long as what one has is not known, it may have any.
func (o retryOptions) unknown(list, shown []state.Instance) []string {
	var names []string
	for _, name := range o.servers {
		if !slices.ContainsFunc(list, func(i state.Instance) bool { return serverOf(i, name) != nil }) {
			names = append(names, `"`+oneline.Text(name)+`"`)
		}
	}
	if len(names) == 0 || !allKnown(shown) {
		return nil
	}
	var lines []string
	for _, i := range shown {
		var has []string
		for _, server := range i.Servers {
			has = append(has, oneline.Text(server.Name))
		}
		slices.Sort(has)
		if has == nil {
			has = []string{"none"}
		}
		line := fmt.Sprintf("%s has no server %s; it has %s", oneline.Text(i.Directory), strings.Join(names, " or "), strings.Join(has, ", "))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// allKnown reports whether there are instances, and it is known what servers each has.
func allKnown(list []state.Instance) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(i state.Instance) bool { return !isKnown(i) })
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
