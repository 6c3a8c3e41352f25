package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/process"
)

func installCommand(s System) *cli.Command {
	flags := newInstallFlags()
	return &cli.Command{
		Name:      "install",
		Usage:     "put the plugin into your OpenCode configuration, for every OpenCode of yours",
		UsageText: "mcp-reconnect install [flags]",
		Flags:     flags.all(),
		Action: func(*cli.Context) error {
			o, err := flags.options(s)
			if err != nil {
				return err
			}
			return runInstall(o, s)
		},
	}
}

type installFlags struct {
	fileFlags
	entry  *flagText
	policy policyFlags
}

func newInstallFlags() installFlags {
	return installFlags{
		fileFlags: newFileFlags("keep the plugin in DIR/mcp-reconnect", "name the plugin in FILE, which need not exist, instead of OpenCode's global configuration"),
		entry:     newEntryFlag(),
		policy:    newPolicyFlags(),
	}
}

func (f installFlags) all() []cli.Flag {
	return flagsOf([]*flagText{f.config, f.dryRun, f.dataDir, f.entry}, f.policy)
}

func (f installFlags) options(s System) (fileTarget, error) {
	o, err := f.target(s)
	if err != nil {
		return o, err
	}
	if o.policy, err = f.policy.policy(s); err != nil {
		return o, err
	}
	entry, err := f.entry.choice(s)
	if entry == "file" {
		o.entry.URL = o.location.FileURL
	}
	return o, err
}

func runInstall(o fileTarget, s System) error {
	if s.StdoutClosed {
		return errors.New("standard output is closed") // before anything is written
	}
	if err := o.home(s); err != nil {
		return err
	}
	var file edit
	plan := func() (edits []edit, err error) {
		file, edits, err = o.planInstall()
		return edits, err
	}
	updated := false
	first := func() (err error) {
		updated, err = o.install(s)
		return err
	}
	if _, err := o.apply(plan, first); err != nil {
		return err
	}
	if o.dryRun && file.changes() {
		return s.print(file.diff())
	}
	said := "added the plugin to " + o.shown(file.Name)
	if !file.changes() {
		said = "the plugin is named in " + o.shown(file.Name) + " already"
	}
	if updated {
		said += "; its policy or its version is another one now"
	}
	if err := s.print(said + o.afterRestart() + "\n"); err != nil {
		return err
	}
	if !o.dryRun {
		o.hintPlugins(file.text, s)
		o.hintOthers("", s)
	}
	return nil
}

// planInstall returns the one edit that is to be made.
func (o fileTarget) planInstall() (edit, []edit, error) {
	f, err := o.fileFor()
	if err != nil {
		return edit{}, nil, err
	}
	e := edit{Listed: f}
	if f.Exists && f.Text == "" {
		e.text, err = configmerge.InsertBlank(o.entry)
	} else {
		e.text, err = configmerge.Insert(f.Text, f.Entry(o.entry))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", o.shown(f.Name), err)
	}
	return e, []edit{e}, err
}

// fileFor returns the file that takes our entry.
func (o fileTarget) fileFor() (configfile.Listed, error) {
	global := configfile.List(o.around.GlobalSources(), o.entry)
	named := configfile.List([]configfile.Source{o.named()}, o.entry)[0]
	if o.config != "" && named.Scope != configfile.Global {
		return named, o.readable([]configfile.Listed{named})
	}
	if err := o.readable(global); err != nil {
		return named, err
	}
	chosen, decided := configfile.Choose(global)
	switch {
	case o.config == "":
		return chosen, nil
	case decided && chosen.Path != named.Path:
		return named, &hintedError{
			fmt.Errorf("%s is the wrong file: OpenCode reads one plugin list of its global configuration, and yours is in %s", o.shown(named.Name), o.shown(chosen.Name)),
			"leave out --config"}
	}
	return named, nil
}

// afterRestart says how many OpenCodes run that have not loaded the plugin. Where nobody knows, it says nothing.
func (o fileTarget) afterRestart() string {
	running, _ := process.Named("opencode", ".opencode", ".opencode-wrapped", "opencode-cli")
	loaded := o.loadedBy()
	n := len(slices.DeleteFunc(running, func(pid int) bool { return slices.Contains(loaded, pid) }))
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 running OpenCode loads it after a restart"
	}
	return fmt.Sprintf("; %d running OpenCodes load it after a restart", n)
}
