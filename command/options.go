package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/adrg/xdg"
	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/shellenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// contentVariable is the variable in which OpenCode reads configuration.
const contentVariable = "OPENCODE_CONFIG_CONTENT"

// policyFlags are the flags of a plugin.Policy.
type policyFlags []*flagText

func newPolicyFlags() policyFlags {
	var flags policyFlags
	defaults := plugin.DefaultPolicy()
	for _, p := range plugin.Settings() {
		f := &flagText{name: p.Name, usage: p.Usage, value: p.Kind, choices: p.Choices, initial: p.Get(defaults), category: "How the plugin reconnects"}
		if len(p.Choices) == 0 {
			f.usage += "; " + p.Values
		}
		flags = append(flags, f)
	}
	return flags
}

// policy returns the policy that was given.
func (flags policyFlags) policy(s System) (plugin.Policy, error) {
	policy := plugin.DefaultPolicy()
	sources := map[string]string{}
	for n, p := range plugin.Settings() {
		g := flags[n].setting(s)
		values := []string{g.value}
		sources[p.Name] = g.source
		switch {
		case !g.ok():
			continue
		case p.Many && flags[n].IsSet():
			values = flags[n].given
		}
		for _, value := range values {
			if err := p.Set(&policy, value); err != nil {
				return policy, g.problem("%v", err)
			}
		}
	}
	var out *plugin.RangeError
	if err := policy.Validate(); errors.As(err, &out) { // what only shows between two settings
		for _, name := range []string{out.Setting, out.Other} {
			if sources[name] != "" {
				return policy, usagef("%s: %s", sources[name], out.Problem)
			}
		}
	}
	return policy, nil
}

func newDataDirFlag(usage string) *flagText {
	return &flagText{name: "data-dir", value: "DIR", usage: usage, initial: "the platform's data directory"}
}

func newEntryFlag() *flagText {
	return &flagText{name: "entry", value: "KIND", usage: "list the plugin as a directory or as a file", choices: []string{"dir", "file"}, initial: "dir"}
}

// targetFlags are the flags of what env and run work on.
type targetFlags struct {
	dataDir, content, file, entry, unset, openCode *flagText
	policy                                         policyFlags
}

func newTargetFlags() targetFlags {
	return targetFlags{
		dataDir:  newDataDirFlag("keep the plugin in DIR/mcp-reconnect"),
		content:  &flagText{name: "config-content", value: "TEXT", usage: "merge into TEXT", initial: "$" + contentVariable},
		file:     &flagText{name: "config-file", value: "FILE", usage: "merge into the content of FILE; - is standard input"},
		entry:    newEntryFlag(),
		unset:    &flagText{name: "unset", usage: "take the plugin out of the configuration again"},
		openCode: &flagText{name: "opencode", value: "FILE", usage: "ask this program for its version, for a hint about OpenCode 2 (experimental)", initial: "no program"},
		policy:   newPolicyFlags(),
	}
}

func (f targetFlags) all() []cli.Flag {
	return flagsOf([]*flagText{f.dataDir, f.content, f.file, f.entry, f.unset, f.openCode}, f.policy)
}

// A target is what env and run work on: a configuration, and where the plugin
// stands that goes into it.
type target struct {
	dataDir  string
	location plugin.Location
	entry    configmerge.Entry
	policy   plugin.Policy
	unset    bool
	openCode string // the program that was named, or ""
	content  setting
}

func (f targetFlags) target(s System) (target, error) {
	var t target
	var err error
	if t.policy, err = f.policy.policy(s); err != nil {
		return t, err
	}
	if t.unset, err = f.unset.on(s); err != nil {
		return t, err
	}
	if err = t.locate(f.dataDir, s); err != nil {
		return t, err
	}
	entry, err := f.entry.choice(s)
	if err != nil {
		return t, err
	}
	if entry == "file" {
		t.entry.URL = t.location.FileURL
	}
	openCode, err := f.openCode.named(s)
	if err != nil {
		return t, err
	}
	t.openCode = openCode.value
	t.content, err = f.configuration(s)
	return t, err
}

// locate finds out where the plugin stands, and how it is named.
func (t *target) locate(dataDir *flagText, s System) (err error) {
	if t.dataDir, err = dataDirectory(dataDir, s); err != nil {
		return err
	}
	if t.location, err = plugin.Locate(t.dataDir); err != nil {
		return err
	}
	t.entry = configmerge.Entry{URL: t.location.Entry, Means: t.location.Means}
	return nil
}

// dataDirectory returns what the flag says, or the platform's data directory.
func dataDirectory(flag *flagText, s System) (string, error) {
	dir, err := flag.named(s)
	switch {
	case err != nil || dir.ok():
		return dir.value, err
	case runtime.GOOS != "windows" && !filepath.IsAbs(s.getenv("HOME")) && !filepath.IsAbs(s.getenv("XDG_DATA_HOME")):
		// xdg takes / for the home of somebody who has none.
		return "", &hintedError{errors.New("there is no data directory: HOME is not set to an absolute path"), "give one by --data-dir or " + flag.variable()}
	}
	return xdg.DataHome, nil
}

// configuration finds the text to merge into. A flag counts before a variable,
// and the text itself before a file.
func (f targetFlags) configuration(s System) (setting, error) {
	fileCounts := f.file.IsSet() && !f.content.IsSet()
	if content := f.content.setting(s); content.ok() && !fileCounts {
		return content, nil
	}
	file, err := f.file.named(s)
	switch {
	case err != nil:
		return file, err
	case !file.ok():
		return setting{s.getenv(contentVariable), contentVariable}, nil
	case file.value == "-":
		text, err := io.ReadAll(s.Stdin)
		if err != nil {
			return file, fmt.Errorf("reading the configuration from standard input: %w", err)
		}
		return setting{string(text), "standard input"}, nil
	}
	text, err := os.ReadFile(file.value)
	if err != nil {
		return file, fmt.Errorf("reading the configuration: %w", err)
	}
	return setting{string(text), file.value}, nil
}

// merge returns the configuration with the plugin in it, or, with --unset,
// without it; "" means that nothing is left.
func (t target) merge() (string, error) {
	edit := configmerge.Merge
	if t.unset {
		edit = configmerge.Remove
	}
	merged, err := edit(t.content.value, t.entry)
	if err != nil {
		err = fmt.Errorf("%s: %w", t.content.source, err)
	}
	var syntax *configmerge.SyntaxError
	if errors.As(err, &syntax) {
		err = &hintedError{err, syntax.Hint}
	}
	return merged, err
}

// hintPlugins tells where the entry stands, if OpenCode 1 does not read it there.
func (t target) hintPlugins(merged string, s System) {
	if !s.StderrTerminal || t.unset {
		return
	}
	listing, _ := configmerge.List(merged, t.entry)
	if slices.ContainsFunc(listing.Entries, func(e configmerge.ListEntry) bool { return e.Ours && e.Version2 }) {
		s.hint(`the configuration is for OpenCode 2, and so is the entry, in "plugins"; with "plugin": [] in it, OpenCode 1 reads it, too`)
	}
}

// install puts the plugin on disk, unless it was to be taken out, and reports whether it
// is another one than before.
func (t target) install(s System) (updated bool, err error) {
	if t.unset {
		return false, nil
	}
	installed, err := plugin.Install(t.dataDir, t.policy)
	switch {
	case errors.Is(err, plugin.ErrForeign):
		return false, &hintedError{err, "move it away, or choose another directory by --data-dir"}
	case err != nil:
		return false, &hintedError{err, "another directory can be chosen by --data-dir"}
	case installed.Updated:
		s.hint("the plugin has changed; an OpenCode that is running keeps the old one until it is restarted")
	}
	state.TakeOver(t.location.Dir, t.location.StateDir)
	if control, err := state.ReadControl(t.location.StateDir); err == nil && control.Paused {
		s.hint("reconnecting is paused: mcp-reconnect resume ends that")
	}
	return installed.Updated, nil
}

// checkSize refuses a value that no program could be started with. The text is
// what was merged, before a shell's syntax made it longer.
func checkSize(value, text string) error {
	err := shellenv.CheckSize(contentVariable, value)
	if err == nil {
		return nil
	}
	if shellenv.CheckSize(contentVariable, text) == nil {
		return &hintedError{err, fmt.Sprintf("the escapes for shells make it so long, from %d; run and --format json take it as it is", len(text))}
	}
	return &hintedError{err, "keep long texts in files, as {file:PATH}, or move parts to opencode.json"}
}
