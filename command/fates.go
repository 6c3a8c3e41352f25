package command

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// answerInterval is how often answers of plugins are looked for.
const answerInterval = 50 * time.Millisecond

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

// startLimit is how long OpenCode may take to start the servers of a directory, so that
// its first status is known: 30 s for each, at once.
const startLimit = 45 * time.Second

// await waits for what becomes of the servers that the retry is about. It returns what is
// known of the instances in the end as well.
func (o retryOptions) await(c concerned, at time.Time, s System) (fates []fate, now []state.Instance, err error) {
	begun := time.Now()
	for said := false; ; time.Sleep(answerInterval) {
		found, err := state.Read(o.location.StateDir)
		if err != nil {
			return nil, nil, err
		}
		concerned := c.instances
		if c.appears {
			concerned = o.concerned(found).instances
			for n := range concerned { // before, nothing was known of it
				concerned[n].Started, concerned[n].Known, concerned[n].Servers = false, false, nil
			}
		}
		fates, now = nil, nil
		starting := c.appears && len(concerned) == 0
		for _, i := range concerned {
			is := instanceOf(found.List, i)
			if is != nil {
				now = append(now, *is)
				starting = starting || !i.Known && !is.Known && !is.RetriedAt.Before(at)
			}
			fates = append(fates, o.fates(i, is, at)...)
		}
		pending := starting || slices.ContainsFunc(fates, func(f fate) bool { return !f.final })
		waited := time.Since(begun)
		limit := o.wait
		if o.patient && starting && !c.appears {
			limit = startLimit
		}
		if !pending || waited > limit {
			return fates, now, nil
		}
		if starting && !said && waited > time.Second && s.StderrTerminal {
			said = true
			fmt.Fprintln(s.Stderr, "mcp-reconnect: waiting for the first status, for which OpenCode starts the servers")
		}
	}
}

// instanceOf returns what is known of an instance by now, or nil if it is no more.
func instanceOf(now []state.Instance, before state.Instance) *state.Instance {
	n := slices.IndexFunc(now, func(i state.Instance) bool {
		return i.Pid == before.Pid && i.URL == before.URL && i.Directory == before.Directory
	})
	if n < 0 {
		return nil
	}
	return &now[n]
}

// fates are what became, in an instance, of the servers that are named, or else of those
// that were failed before or are now. It is nil by now if it is no more.
func (o retryOptions) fates(before state.Instance, now *state.Instance, at time.Time) []fate {
	f := fate{instance: before}
	switch {
	case now == nil:
		now = &state.Instance{}
		f.result, f.final = "its OpenCode or its directory was closed", true
	case now.RetriedAt.Before(at):
		f.result, f.failed = "OpenCode has not answered yet", true
	case !now.Known && len(now.Servers) == 0:
		f.result, f.failed = "its status is not known yet", true
	}
	var names []string
	for _, server := range slices.Concat(before.Servers, now.Servers) {
		named := slices.Contains(o.servers, server.Name) || len(o.servers) == 0 && (server.Status == "failed" || server.Retried && !before.Started)
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
			f.see(serverOf(*now, name), o)
		}
		all = append(all, f)
	}
	return all
}

// see takes what a plugin that has seen the retry says of the server now.
func (f *fate) see(server *state.Server, o retryOptions) {
	before := serverOf(f.instance, f.name)
	wasConnected := before != nil && before.Status == "connected"
	switch {
	case server == nil:
		f.result, f.final = "no longer configured", true
	case server.Phase == "skipped", server.Skipped && o.force && server.Status == "connected":
		f.result, f.final, f.failed = "left alone, as the policy says", true, true
	case o.force && server.Status == "connected" && (server.Phase == "trying" || !server.Retried):
		f.result, f.failed = "still being restarted", true
	case server.Status == "connected" && len(o.servers) > 0 && !server.Retried && wasConnected:
		f.result, f.final, f.untouched = "was connected; left alone", true, true
	case server.Status != "failed":
		f.result, f.final = server.Status, true
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
