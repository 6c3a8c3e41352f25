package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// watchInterval is how often status --watch looks.
const watchInterval = 250 * time.Millisecond

func statusCommand(s System) *cli.Command {
	flags := statusFlags{
		format:  &flagText{name: "format", value: "NAME", usage: "write in this format", choices: []string{"text", "json"}, initial: "text"},
		watch:   &flagText{name: "watch", usage: "go on, and write anew when something changes"},
		dataDir: newInstalledFlag(),
	}
	return &cli.Command{
		Name:      "status",
		Usage:     "show what the plugin is doing in every running OpenCode",
		UsageText: "mcp-reconnect status [flags]",
		Flags:     flagsOf([]*flagText{flags.format, flags.watch, flags.dataDir}),
		Action: func(*cli.Context) error {
			options, err := flags.options(s)
			if err != nil {
				return err
			}
			return runStatus(options, s)
		},
	}
}

type statusFlags struct{ format, watch, dataDir *flagText }

type statusOptions struct {
	plugin.Location
	json, watch bool
	dataDir     []string // the flag for it, if it was given on the command line
}

func (f statusFlags) options(s System) (statusOptions, error) {
	var o statusOptions
	format, err := f.format.choice(s)
	if err != nil {
		return o, err
	}
	o.json = format == "json"
	if o.watch, err = f.watch.on(s); err != nil {
		return o, err
	}
	o.dataDir = asGiven(f.dataDir)
	o.Location, err = located(f.dataDir, s)
	return o, err
}

func runStatus(o statusOptions, s System) error {
	if !o.watch {
		text, notes, err := o.look(s, time.Now())
		if err != nil {
			return err
		}
		for _, note := range notes {
			fmt.Fprintf(s.Stderr, "mcp-reconnect: %s\n", note)
		}
		return s.print(text)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	screen := s.StdoutTerminal && !o.json
	if screen { // one of its own, so that nothing that stands there is lost
		if _, err := s.write("\x1b[?1049h"); err != nil {
			return err
		}
		defer s.write("\x1b[?1049l")
	}
	for last, lastNotes, first := "", "", true; ; first = false {
		text, list, err := o.look(s, time.Now())
		if err != nil {
			return err
		}
		var notes strings.Builder
		for _, note := range list {
			fmt.Fprintf(&notes, "mcp-reconnect: %s\n", note)
		}
		if screen {
			text += notes.String()
		} else if notes.String() != lastNotes {
			lastNotes = notes.String()
			io.WriteString(s.Stderr, lastNotes)
		}
		if text != last || first {
			last = text
			switch {
			case screen:
				text = "\x1b[H\x1b[2J" + text // home, clear
			case !o.json:
				text += "\n" // ends what belongs together
			}
			if open, err := s.write(text); err != nil || !open {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}

// look returns the result as it is at a time, and notes for people.
func (o statusOptions) look(s System, now time.Time) (text string, notes []string, err error) {
	found, err := state.Read(o.StateDir)
	if err != nil {
		return "", nil, err
	}
	control, broken := state.ReadControl(o.StateDir)
	if broken != nil {
		notes = append(notes, oneline.Text(broken.Error()))
	}
	if len(found.List) == 0 && len(found.Watches) == 0 {
		notes = append(notes, "no running OpenCode has loaded the plugin from "+oneline.Text(o.Dir)+", and no watch runs", "hint: mcp-reconnect check says whether one would")
	}
	if control.Paused {
		notes = append(notes, "reconnecting is paused; "+commandLine(append([]string{"resume"}, o.dataDir...)...)+" ends that")
	}
	if former := state.Former(o.Dir); len(former) > 0 {
		notes = append(notes, fmt.Sprintf("not shown, as they have loaded an earlier mcp-reconnect, which pause and retry do not reach before they are restarted: OpenCode %s", joined(former)))
	}
	if found.Newer > 0 {
		notes = append(notes, fmt.Sprintf("not shown, as they are of a newer mcp-reconnect: %d", found.Newer))
	}
	if found.Elsewhere > 0 {
		notes = append(notes, fmt.Sprintf("not shown, as they are of another machine or container: %d", found.Elsewhere))
	}
	switch {
	case o.json:
		text, err = statusJSON(o, found, control, !o.watch)
	case s.StdoutTerminal:
		text = statusTables(o, found, now, s.StdoutWidth())
	default:
		text = statusLines(found)
	}
	return text, notes, err
}

// joined are process ids in a sentence.
func joined(pids []int) string {
	var texts []string
	for _, pid := range pids {
		texts = append(texts, strconv.Itoa(pid))
	}
	return strings.Join(texts, ", ")
}

// phaseOf is a server's phase in one word: what the plugin does about it, or else
// what OpenCode says.
func phaseOf(server state.Server) string {
	if server.Phase == "" || server.Phase == "aside" {
		return server.Status
	}
	return server.Phase
}

// unused and unknown stand for the phase where there is no server to tell of.
const (
	unused  = "unused"  // the directory: nothing is looked at before it is in use
	unknown = "unknown" // the status was not read yet, or there are no servers
)

// emptyPhase is the phase of an instance without servers.
func emptyPhase(i state.Instance) string {
	if !i.Started {
		return unused
	}
	return unknown
}

func triesOf(server state.Server) string {
	if server.Tries == 0 {
		return ""
	}
	return strconv.Itoa(server.Tries)
}

// statusTables is a table for each process.
func statusTables(o statusOptions, found state.Instances, now time.Time, width int) string {
	var parts []string
	for instances := range processesOf(found.List) {
		parts = append(parts, o.table(headingOf(instances[0], found), instances, now, width))
	}
	for _, w := range found.Watches {
		if w.Directories == 0 {
			parts = append(parts, fmt.Sprintf("Watch %d of %s: %s\n", w.Pid, oneline.Text(w.URL), oneline.Text(idleWatch(w))))
		}
	}
	return strings.Join(parts, "\n")
}

// idleWatch says of a watch that has no directory how its connection is.
func idleWatch(w state.Watch) string {
	if isConnected(w) {
		return connectionOf(w) + ", no directory in use yet"
	}
	return connectionOf(w)
}

// connectionOf is how a watch's connection is, for people.
func connectionOf(w state.Watch) string {
	said := strings.ReplaceAll(w.State, "_", " ")
	if w.Error != "" {
		said += " (" + w.Error + ")"
	}
	return said
}

// watchOf returns the watch that manages an instance, if it is known.
func watchOf(found state.Instances, i state.Instance) (w state.Watch, ok bool) {
	n := slices.IndexFunc(found.Watches, func(w state.Watch) bool { return i.Watch && w.Pid == i.Pid && w.URL == i.URL })
	if n < 0 {
		return w, false
	}
	return found.Watches[n], true
}

// processesOf cuts the instances into those of each process.
func processesOf(instances []state.Instance) iter.Seq[[]state.Instance] {
	return func(yield func([]state.Instance) bool) {
		for from, to := 0, 0; from < len(instances); from = to {
			for to = from + 1; to < len(instances) && sameProcess(instances[from], instances[to]); to++ {
			}
			if !yield(instances[from:to]) {
				return
			}
		}
	}
}

// table is that of one process, and what to do about directories that are not in use.
func (o statusOptions) table(heading string, instances []state.Instance, now time.Time, width int) string {
	t := table{heading: []string{"DIRECTORY", "SERVER", "PHASE", "TRIES", "NEXT TRY", "SINCE", "LAST ERROR"}}
	idle := ""
	for _, i := range instances {
		if len(i.Servers) == 0 {
			t.add(i.Directory, "", emptyPhase(i), "", "", "", "")
		}
		if !i.Started && idle == "" {
			idle = i.Directory
		}
		for _, server := range i.Servers {
			next, since := "", ""
			if !server.DueAt.IsZero() {
				next = "in " + away(server.DueAt.Sub(now))
			}
			if !server.Since.IsZero() {
				since = away(now.Sub(server.Since))
			}
			t.add(i.Directory, server.Name, phaseOf(server), triesOf(server), next, since, server.Error)
		}
	}
	text := heading + "\n" + t.columns(width)
	if idle != "" {
		text += fmt.Sprintf("unused: nothing is read there before the first prompt, unless --start load is set.\nTo look now: %s\n",
			commandLine(slices.Concat([]string{"retry"}, o.dataDir, []string{"--directory", idle})...))
	}
	return text
}

func headingOf(i state.Instance, found state.Instances) string {
	heading := fmt.Sprintf("OpenCode %d", i.Pid)
	switch {
	case i.Watch:
		heading = fmt.Sprintf("Watch %d of %s", i.Pid, i.URL)
	case i.URL != "": // nothing more to say of one that does not listen
		heading += " at " + i.URL
	}
	heading += ", mcp-reconnect " + i.Version
	if w, ok := watchOf(found, i); ok && !isConnected(w) {
		heading += ": " + connectionOf(w)
	}
	return oneline.Text(heading)
}

// sameProcess reports whether two instances are of one OpenCode. A watch may look after several.
func sameProcess(a, b state.Instance) bool {
	return a.Pid == b.Pid && (!a.Watch || a.URL == b.URL)
}

// processOf tells the OpenCode of an instance from others: by its process, or by its URL
// where that is not known.
func processOf(i state.Instance) string {
	if i.Watch {
		return i.URL
	}
	return strconv.Itoa(i.Pid)
}

// statusLines is a line for each server, with its process first.
func statusLines(found state.Instances) string {
	var t table
	for _, i := range found.List {
		process := processOf(i)
		if len(i.Servers) == 0 {
			t.add(process, i.Directory, "", emptyPhase(i), "", "", "", "")
		}
		for _, server := range i.Servers {
			t.add(process, i.Directory, server.Name, phaseOf(server), triesOf(server), rfc3339(server.DueAt), rfc3339(server.Since), server.Error)
		}
	}
	for _, w := range found.Watches {
		if w.Directories == 0 {
			t.add(w.URL, "", "", w.State, "", "", "", w.Error)
		}
	}
	return t.tabbed()
}

// statusJSON is described in the README. Lists are never null.
func statusJSON(o statusOptions, found state.Instances, control state.Control, indent bool) (string, error) {
	type server struct {
		Name    string   `json:"name"`
		Status  string   `json:"status"`
		Phase   string   `json:"phase"`
		Tries   int      `json:"tries"`
		Error   string   `json:"error"`
		Since   jsonTime `json:"since"`
		LastTry jsonTime `json:"last_try"`
		NextTry jsonTime `json:"next_try"`
	}
	type instance struct {
		Directory string   `json:"directory"`
		Started   bool     `json:"started"`
		Paused    bool     `json:"paused"`
		Servers   []server `json:"servers"`
	}
	type process struct {
		Pid       int        `json:"pid"`
		URL       string     `json:"url"`
		Watched   bool       `json:"watched"` // pid and version are the watch's
		State     string     `json:"state"`   // of the watch's connection
		Error     string     `json:"error"`
		Version   string     `json:"version"`
		Instances []instance `json:"instances"`
	}
	result := struct {
		FormatVersion string    `json:"format_version"`
		Directory     string    `json:"plugin_directory"`
		Paused        bool      `json:"paused"`
		Processes     []process `json:"processes"`
	}{"1.0", o.Dir, control.Paused, []process{}}
	for instances := range processesOf(found.List) {
		first := instances[0]
		p := process{Pid: first.Pid, URL: first.URL, Watched: first.Watch, Version: first.Version}
		if w, ok := watchOf(found, first); ok {
			p.State, p.Error = w.State, w.Error
		}
		for _, i := range instances {
			shown := instance{i.Directory, i.Started, i.Paused, []server{}}
			for _, s := range i.Servers {
				shown.Servers = append(shown.Servers, server{s.Name, s.Status, s.Phase, s.Tries, s.Error,
					jsonTime(s.Since), jsonTime(s.TriedAt), jsonTime(s.DueAt)})
			}
			p.Instances = append(p.Instances, shown)
		}
		result.Processes = append(result.Processes, p)
	}
	for _, w := range found.Watches {
		if w.Directories == 0 {
			result.Processes = append(result.Processes, process{w.Pid, w.URL, true, w.State, w.Error, w.Version, []instance{}})
		}
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if indent {
		encoder.SetIndent("", "  ")
	}
	err := encoder.Encode(result)
	return b.String(), err
}
