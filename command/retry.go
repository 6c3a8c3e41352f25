package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// answerInterval is how often answers of plugins are looked for.
const answerInterval = 50 * time.Millisecond

func retryCommand(s System) subcommand {
	flags := retryFlags{
		all:       &flagText{name: "all", usage: "try every failed server, as without names"},
		force:     &flagText{name: "force", usage: "restart the named servers that are connected, too"},
		directory: &flagText{name: "directory", value: "DIR", usage: "only in this project directory"},
		wait:      &flagText{name: "wait", value: "DURATION", usage: "wait so long for what becomes of it; 0s to 1h", initial: "10s"},
		dataDir:   newInstalledFlag(),
	}
	return subcommand{
		Command: &cli.Command{
			Name:      "retry",
			Usage:     "forget back-off and try failed servers now, in every running OpenCode",
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
	wait      time.Duration
}

func (f retryFlags) options(names []string, s System) (retryOptions, error) {
	o := retryOptions{servers: names, wait: 10 * time.Second}
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
	before, err := o.instances()
	if err != nil {
		return err
	}
	for _, name := range o.servers {
		if !slices.ContainsFunc(before, func(i state.Instance) bool { return serverOf(i, name) != nil }) {
			return &hintedError{fmt.Errorf("no directory in use has a server %q", oneline.Text(name)), "mcp-reconnect status lists them, and which directories are in use"}
		}
	}
	if len(before) == 0 && o.directory != "" {
		return &hintedError{fmt.Errorf("%s is not in use in any running OpenCode", oneline.Text(o.directory)), "mcp-reconnect status lists those that are"}
	}
	if len(before) == 0 {
		// A watch may still wait for its OpenCode.
		if _, err := state.RequestRetry(o.location.StateDir, state.Retry{}); err != nil {
			return hintOf(err)
		}
		fmt.Fprintf(s.Stderr, "mcp-reconnect: no directory is in use in an OpenCode that has loaded the plugin from %s, or that is watched\n", oneline.Text(o.location.Dir))
		return nil
	}
	var directories []string // as their OpenCodes call them
	if o.directory != "" {
		for _, i := range before {
			directories = append(directories, i.Directory)
		}
		slices.Sort(directories)
		directories = slices.Compact(directories)
	}
	asked := state.Retry{Servers: o.servers, Directories: directories}
	if o.force {
		asked.Force = o.servers
	}
	at, err := state.RequestRetry(o.location.StateDir, asked)
	if err != nil {
		return hintOf(err)
	}
	if o.wait == 0 {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: asked, and not waited for")
		return nil
	}
	fates, err := o.await(before, at)
	if err != nil {
		return err
	}
	err = report(fates, s)
	if slices.ContainsFunc(fates, func(f fate) bool { return f.untouched }) {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: a server that is connected was left alone\nmcp-reconnect: hint: with --force it is restarted")
	}
	return err
}

// instances are those that are in use, and asked.
func (o retryOptions) instances() ([]state.Instance, error) {
	found, err := state.Read(o.location.StateDir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.List, func(i state.Instance) bool {
		return !i.Started || o.directory != "" && !sameDirectory(o.directory, i.Directory)
	}), nil
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

// A fate is what became of a server that was to be tried.
type fate struct {
	instance state.Instance
	name     string // "" as long as it is not known what servers there are
	result   string
	final    bool // it will not change by waiting
	failed   bool
	err      string

	untouched bool // it was connected, and nothing was done
}

// await waits for what becomes of the servers that the retry is about.
func (o retryOptions) await(before []state.Instance, at time.Time) ([]fate, error) {
	for deadline := time.Now().Add(o.wait); ; time.Sleep(answerInterval) {
		now, err := o.instances()
		if err != nil {
			return nil, err
		}
		var fates []fate
		for _, i := range before {
			fates = append(fates, o.fates(i, now, at)...)
		}
		pending := slices.ContainsFunc(fates, func(f fate) bool { return !f.final })
		if !pending || time.Now().After(deadline) {
			return fates, nil
		}
	}
}

// fates are what became, in an instance, of the servers that are named, or else of those
// that were failed before or are now.
func (o retryOptions) fates(before state.Instance, now []state.Instance, at time.Time) []fate {
	f := fate{instance: before}
	n := slices.IndexFunc(now, func(other state.Instance) bool {
		return other.Pid == before.Pid && other.URL == before.URL && other.Directory == before.Directory
	})
	if n < 0 {
		now, n = []state.Instance{{}}, 0
		f.result, f.final = "its OpenCode or its directory was closed", true
	} else if now[n].RetriedAt.Before(at) {
		f.result, f.failed = "OpenCode has not answered yet", true
	} else if len(now[n].Servers) == 0 {
		f.result, f.failed = "its status is not known yet", true
	}
	var names []string
	for _, server := range slices.Concat(before.Servers, now[n].Servers) {
		named := slices.Contains(o.servers, server.Name) || len(o.servers) == 0 && server.Status == "failed"
		if named && !slices.Contains(names, server.Name) {
			names = append(names, server.Name)
		}
	}
	if len(names) == 0 && f.result != "" && !f.final {
		names = []string{""}
	}
	var all []fate
	for _, name := range names {
		f := f
		f.name = name
		if f.result == "" {
			f.see(serverOf(now[n], name), o)
		}
		all = append(all, f)
	}
	return all
}

// see takes what a plugin that has seen the retry says of the server now.
func (f *fate) see(server *state.Server, o retryOptions) {
	switch {
	case server == nil:
		f.result, f.final = "no longer configured", true
	case server.Phase == "skipped", server.Skipped && o.force && server.Status == "connected":
		f.result, f.final, f.failed = "left alone, as the policy says", true, true
	case o.force && server.Status == "connected" && (server.Phase == "trying" || !server.Retried):
		f.result, f.failed = "still being restarted", true
	case server.Status != "failed":
		f.result, f.final = server.Status, true
		f.untouched = len(o.servers) > 0 && server.Status == "connected" && !server.Retried
	case server.Phase == "trying" || !server.Retried:
		f.result, f.failed = "still being tried", true
	default:
		f.result, f.final, f.failed, f.err = "still failed", true, true, server.Error
	}
}

// report prints fates. One that failed is a finding, with the exit status of one.
func report(fates []fate, s System) error {
	if len(fates) == 0 {
		fmt.Fprintln(s.Stderr, "mcp-reconnect: no server is failed")
		return nil
	}
	t := table{heading: []string{"OPENCODE", "DIRECTORY", "SERVER", "RESULT", "ERROR"}}
	failed := false
	for _, f := range fates {
		failed = failed || f.failed
		t.add(processOf(f.instance), f.instance.Directory, f.name, f.result, f.err)
	}
	text := t.tabbed()
	if s.StdoutTerminal {
		text = t.columns(s.StdoutWidth())
	}
	if err := s.print(text); err != nil || !failed {
		return err
	}
	return &exitError{status: 1}
}
