package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/check"
	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/hostversion"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

func checkCommand(s System) *cli.Command {
	flags := newCheckFlags()
	return &cli.Command{
		Name:      "check",
		Usage:     "verify that OpenCode will load the plugin from the configuration",
		UsageText: "mcp-reconnect check [flags]",
		Flags:     flags.all(),
		Action: func(*cli.Context) error {
			options, err := flags.options(s)
			if err == nil {
				return runCheck(options, s)
			}
			var usage *usageError
			if errors.As(err, &usage) {
				return err
			}
			return cannotCheck(err)
		},
	}
}

// cannotCheck is an error that left something unchecked, with an exit status of its own.
func cannotCheck(err error) error { return &exitError{3, err} }

type checkFlags struct {
	targetFlags
	format, strict, live *flagText
}

func newCheckFlags() checkFlags {
	f := checkFlags{
		targetFlags: newTargetFlags(),
		format:      &flagText{name: "format", value: "NAME", usage: "write in this format", choices: []string{"text", "json", "github"}, initial: "text"},
		strict:      &flagText{name: "strict", usage: "let warnings count"},
		live:        &flagText{name: "live", usage: "if nothing is wrong so far, start OpenCode once, isolated, and see whether it loads the plugin"},
	}
	f.openCode.usage, f.openCode.initial = "ask this program for its version", "opencode, if it is in PATH"
	f.dataDir.usage = "the plugin is in DIR/mcp-reconnect"
	f.content.usage = "check TEXT"
	f.file.usage = "check the content of FILE; - is standard input"
	return f
}

func (f checkFlags) all() []cli.Flag {
	return flagsOf([]*flagText{f.format, f.strict, f.openCode, f.live, f.dataDir, f.content, f.file}, f.policy)
}

type checkOptions struct {
	check.Options
	format       string
	strict, live bool
	openCode     string // path of the program, or ""
	asked        bool   // for that program by name
	file         bool   // the configuration came from a file
}

func (f checkFlags) options(s System) (checkOptions, error) {
	var o checkOptions
	var err error
	o.Variable, o.Environ = contentVariable, s.Environ
	if o.format, err = f.format.choice(s); err != nil {
		return o, err
	}
	if o.strict, err = f.strict.on(s); err != nil {
		return o, err
	}
	if o.live, err = f.live.on(s); err != nil {
		return o, err
	}
	openCode, err := f.openCode.named(s)
	if err != nil {
		return o, err
	}
	if o.Policy, err = f.policy.policy(s); err != nil {
		return o, err
	}
	if o.DataDir, err = dataDirectory(f.dataDir, s); err != nil {
		return o, err
	}
	content, err := f.configuration(s)
	if err != nil {
		return o, err
	}
	o.Content, o.Source = content.value, content.source
	o.file = content.source != contentVariable && content.source == f.file.setting(s).value
	if o.Dir, err = os.Getwd(); err != nil {
		return o, fmt.Errorf("finding the working directory: %w", err)
	}
	o.Home = s.home()
	if o.asked = openCode.ok(); !o.asked {
		openCode.value = "opencode"
	}
	path, err := findCommand(openCode.value, s.getenv("PATH"))
	switch {
	case err == nil:
		o.openCode, err = filepath.Abs(path) // it is started elsewhere
	case o.asked || o.live:
		err = fmt.Errorf("asking OpenCode: %w", err)
	default:
		err = nil
	}
	return o, err
}

// checkPatience is how long OpenCode may take to say its version, where that decides
// what is reported: at its first start it takes some seconds.
const checkPatience = 10 * time.Second

func runCheck(o checkOptions, s System) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that no OpenCode is left behind
	defer stop()
	if o.openCode != "" {
		asking, cancel := context.WithTimeout(ctx, checkPatience)
		version, err := hostversion.Ask(asking, o.openCode, o.Environ)
		cancel()
		if err != nil && (o.asked || o.live) {
			return cannotCheck(err)
		}
		o.Version = version
	}
	report, err := check.Run(o.Options)
	if err != nil {
		return cannotCheck(err)
	}
	if o.live && report.Count(check.Error) == 0 { // it could but repeat them, and take a minute
		live := o.Options
		if !report.Listed { // a file names it, which is not there in that home
			live.Content, err = configmerge.Merge(live.Content, configmerge.Entry{URL: report.Location.Entry})
			if err != nil {
				return cannotCheck(err)
			}
		}
		found, err := check.Live(ctx, o.openCode, live)
		if err != nil {
			return cannotCheck(err)
		}
		report.Diagnostics = append(report.Diagnostics, found...)
	}
	write := map[string]func(checkOptions, check.Report) string{"text": checkText, "json": checkJSON, "github": checkGitHub}[o.format]
	if err := s.print(write(o, report)); err != nil {
		return cannotCheck(err)
	}
	if !report.Valid(o.strict) {
		return &exitError{status: 1}
	}
	return nil
}

// checkText is a report for people, in the form in which compilers name places.
func checkText(o checkOptions, r check.Report) string {
	var b strings.Builder
	for _, d := range r.Diagnostics {
		b.WriteString(place(d))
		fmt.Fprintf(&b, "%s: %s [%s]\n", d.Severity, d.Summary, d.ID)
		if d.Detail != "" {
			fmt.Fprintf(&b, "    %s\n", d.Detail)
		}
	}
	b.WriteString(checkSummary(o, r))
	return b.String()
}

// place is where a finding is, as "file:line:column: ".
func place(d check.Diagnostic) string {
	if d.Filename == "" {
		return ""
	}
	name := oneline.Text(d.Filename)
	for _, n := range []int{d.Line, d.Column} {
		if n > 0 {
			name += ":" + strconv.Itoa(n)
		}
	}
	return name + ": "
}

// checkSummary is the last line: how much was found, or what was found to be well.
func checkSummary(o checkOptions, r check.Report) string {
	counts := plural(r.Count(check.Error), "error") + ", " + plural(r.Count(check.Warning), "warning")
	if !r.Valid(o.strict) {
		return counts + "\n"
	}
	openCode := ""
	if o.Version != "" {
		openCode = " for OpenCode " + o.Version
	}
	named := oneline.Text(o.Source) + " names the plugin in " + oneline.Text(r.Location.Dir)
	if !r.Listed {
		var files []string
		for _, file := range r.Files {
			files = append(files, oneline.Text(configfile.Surrounding{Home: o.Home}.Short(file)))
		}
		named = "named in " + strings.Join(files, ", ")
	}
	return fmt.Sprintf("ok (%s): %s, which is mcp-reconnect %s with this policy%s\n", counts, named, plugin.Version, openCode)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkJSON is a report in the form of `terraform validate -json`, where positions
// have no end and each diagnostic has the id of its rule.
func checkJSON(o checkOptions, r check.Report) string {
	type position struct {
		Line   int `json:"line"`
		Column int `json:"column,omitempty"`
	}
	type span struct {
		Filename string    `json:"filename"`
		Start    *position `json:"start,omitempty"`
	}
	type diagnostic struct {
		ID       string         `json:"id"`
		Severity check.Severity `json:"severity"`
		Summary  string         `json:"summary"`
		Detail   string         `json:"detail"`
		Range    *span          `json:"range,omitempty"`
	}
	result := struct {
		FormatVersion string       `json:"format_version"`
		Valid         bool         `json:"valid"`
		Errors        int          `json:"error_count"`
		Warnings      int          `json:"warning_count"`
		Infos         int          `json:"info_count"`
		Diagnostics   []diagnostic `json:"diagnostics"`
	}{"1.0", r.Valid(o.strict), r.Count(check.Error), r.Count(check.Warning), r.Count(check.Info), []diagnostic{}}
	for _, d := range r.Diagnostics {
		shown := diagnostic{ID: d.ID, Severity: d.Severity, Summary: d.Summary, Detail: d.Detail}
		if d.Filename != "" {
			shown.Range = &span{Filename: d.Filename}
			if d.Line > 0 {
				shown.Range.Start = &position{d.Line, d.Column}
			}
		}
		result.Diagnostics = append(result.Diagnostics, shown)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(result); err != nil {
		panic(err) // strings and numbers always encode
	}
	return b.String()
}

// What GitHub's runner wants escaped in the text of a command, and in its properties (actions/toolkit, command.ts).
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// checkGitHub is a report as annotations. Only what is a file is given as one: the
// runner would look for others in the repository.
func checkGitHub(o checkOptions, r check.Report) string {
	var b strings.Builder
	for _, d := range r.Diagnostics {
		level := map[check.Severity]string{check.Error: "error", check.Warning: "warning", check.Info: "notice"}[d.Severity]
		properties := "title=" + githubProperty.Replace("mcp-reconnect: "+d.ID)
		message := d.Summary
		if isFile := d.Filename != "" && (o.file || d.Filename != o.Source) && !strings.HasPrefix(d.Filename, "$"); !isFile {
			message = place(d) + message
		} else {
			properties = "file=" + githubProperty.Replace(d.Filename) + githubPosition(d) + "," + properties
		}
		if d.Detail != "" {
			message += "\n" + d.Detail
		}
		fmt.Fprintf(&b, "::%s %s::%s\n", level, properties, githubData.Replace(message))
	}
	b.WriteString(checkSummary(o, r))
	return b.String()
}

func githubPosition(d check.Diagnostic) string {
	position := ""
	if d.Line > 0 {
		position = ",line=" + strconv.Itoa(d.Line)
	}
	if d.Column > 0 {
		position += ",col=" + strconv.Itoa(d.Column)
	}
	return position
}
