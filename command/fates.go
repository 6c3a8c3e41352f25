package command

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/state"
	"github.com/mcp-reconnect/mcp-reconnect/watch"
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

const (
	// startLimit is how long OpenCode may take to start the servers of a directory, so that
	// its first status is known: 30 s for each, at once.
	startLimit = 45 * time.Second
	// connectLimit is how long a watch has to make a connection: a second to read what it is
	// told (rule 19), and one to connect.
	connectLimit = 2 * time.Second
)

// await waits for what becomes of the servers that the retry is about, until done says
// that it is enough. It returns what is known of the instances in the end as well.
func (o retryOptions) await(c concerned, at time.Time, done func([]fate) bool, s System) (fates []fate, now []state.Instance, err error) {
	begun := time.Now()
	from := begun // servers are tried when the first status is known
	for said := false; ; time.Sleep(answerInterval) {
		found, err := state.Read(o.location.StateDir)
		if err != nil {
			return nil, nil, err
		}
		concerned := c.instances
		if c.appears {
			concerned, at = appeared(o.concerned(found).instances), time.Time{}
		}
		fates, now = nil, nil
		starting := false
		for _, i := range concerned {
			is := instanceOf(found.List, i)
			if is != nil {
				now = append(now, *is)
				starting = starting || !isKnown(i) && !isKnown(*is) && !is.RetriedAt.Before(at)
			}
			fates = append(fates, o.fates(i, is, at)...)
		}
		absent := c.appears && len(concerned) == 0
		waited := time.Since(begun)
		over := time.Since(from) > o.wait
		if o.patient && starting {
			from, over = time.Now(), waited > max(o.wait, startLimit)
		}
		if over || !absent && done(fates) {
			return fates, now, nil
		}
		if (starting || absent) && !said && waited > time.Second && s.StderrTerminal {
			said = true
			what := "the first status, for which OpenCode starts the servers"
			if absent {
				what = "a watch to look there"
			}
			fmt.Fprintf(s.Stderr, "mcp-reconnect: waiting for %s\n", what)
		}
	}
}

// appeared are instances that were not there when the retry was asked for, as they were
// then: nothing is known of them.
func appeared(list []state.Instance) []state.Instance {
	var before []state.Instance
	for _, i := range list {
		before = append(before, state.Instance{Pid: i.Pid, Watch: i.Watch, URL: i.URL, Directory: i.Directory})
	}
	return before
}

// isKnown reports whether it is known what servers there are.
func isKnown(i state.Instance) bool { return i.Known || len(i.Servers) > 0 }

func isFinal(fates []fate) bool {
	return !slices.ContainsFunc(fates, func(f fate) bool { return !f.final })
}

// hasStatus reports whether it is known of each what servers there are.
func hasStatus(fates []fate) bool {
	return !slices.ContainsFunc(fates, func(f fate) bool { return f.name == "" && !f.final })
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
		// Without a server that it was about, nothing was tried.
		f.result, f.final, f.failed = "its OpenCode or its directory was closed", true, !isKnown(before)
	case now.RetriedAt.Before(at):
		f.result, f.failed = "OpenCode has not answered yet", true
	case !isKnown(*now):
		f.result, f.failed = "its status is not known yet", true
	}
	var names []string
	for _, server := range slices.Concat(before.Servers, now.Servers) {
		named := slices.Contains(o.servers, server.Name) || len(o.servers) == 0 && (server.Status == "failed" || server.Retried && !before.Started)
		if named && !slices.Contains(names, server.Name) {
			names = append(names, server.Name)
		}
	}
	if len(names) == 0 && f.result != "" && (!f.final || f.failed) {
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

// report prints fates, and reports whether one of them failed.
func report(fates []fate, s System) (failed bool, err error) {
	t := table{heading: []string{"OPENCODE", "DIRECTORY", "SERVER", "RESULT", "ERROR"}}
	for _, f := range fates {
		failed = failed || f.failed
		t.add(processOf(f.instance), f.instance.Directory, f.name, f.result, f.err)
	}
	text := t.tabbed()
	if s.StdoutTerminal {
		text = t.columns(s.StdoutWidth())
	}
	return failed, s.print(text)
}

// awaitWatches waits for the connections of watches that a retry has made anew.
func (o retryOptions) awaitWatches(before []state.Watch) ([]fate, error) {
	for begun := time.Now(); ; time.Sleep(answerInterval) {
		found, err := state.Read(o.location.StateDir)
		if err != nil {
			return nil, err
		}
		var fates []fate
		for _, w := range before {
			fates = append(fates, reconnected(w, found.Watches))
		}
		waited := time.Since(begun)
		pending := func(f fate) bool { return !f.final && (f.result == watch.Connecting || waited < connectLimit) }
		if waited > o.wait || !slices.ContainsFunc(fates, pending) {
			return fates, nil
		}
	}
}

// reconnected is what became of a watch's connection.
func reconnected(before state.Watch, now []state.Watch) fate {
	f := fate{instance: state.Instance{Pid: before.Pid, Watch: true, URL: before.URL}}
	n := slices.IndexFunc(now, func(w state.Watch) bool { return w.Pid == before.Pid && w.URL == before.URL })
	switch {
	case n < 0:
		f.result, f.final, f.failed = "its watch has ended", true, true
	case isConnected(now[n]):
		f.result, f.final = "connected", true
	default:
		f.result, f.failed, f.err = now[n].State, true, now[n].Error
	}
	return f
}

// isConnected reports whether the watch has its stream of events.
func isConnected(w state.Watch) bool { return w.State == watch.Connected || w.State == watch.Idle }
