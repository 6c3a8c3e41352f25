// Package check verifies that OpenCode will load the plugin from a configuration:
// the text itself, the files it points to, and what else has a say in it. It never
// changes anything, and never repeats a part of a configuration, which holds API keys.
package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/configfile"
	"github.com/mcp-reconnect/mcp-reconnect/internal/hostversion"
	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/shellenv"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// A Severity says whether a finding counts.
type Severity string

const (
	Error   Severity = "error"   // the plugin is not loaded, not the one it should be, or not safe
	Warning Severity = "warning" // it may not do what is expected
	Info    Severity = "info"    // worth knowing; never counts
)

// A Diagnostic is one finding.
type Diagnostic struct {
	ID           string // of the rule, stable; the README lists them
	Severity     Severity
	Summary      string // what is so, in lower case without a final period
	Detail       string // what to do
	Filename     string // a path, or what the text came from, e.g. OPENCODE_CONFIG_CONTENT; or ""
	Line, Column int    // from 1, counted as in configmerge.SyntaxError; 0 where there is none
}

// Options say what to check.
type Options struct {
	Content  string // the configuration
	Variable string // which OpenCode reads it from
	Source   string // what Content came from, as people call it
	DataDir  string
	Policy   plugin.Policy
	Environ  []string // what OpenCode will be started with
	Dir      string   // where
	Home     string   // the user's home directory
	Version  string   // OpenCode's, e.g. 1.18.33; "" where it is not known
}

// A Report is what was found.
type Report struct {
	Diagnostics []Diagnostic
	Location    plugin.Location // of the plugin that was looked for
	Listed      bool            // the content names it
	Files       []string        // the configuration files by which OpenCode loads it, if the content need not name it
}

// Count returns how many findings are of a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, d := range r.Diagnostics {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// Valid reports whether nothing was found that counts; if strict, warnings do.
func (r Report) Valid(strict bool) bool {
	return r.Count(Error) == 0 && (!strict || r.Count(Warning) == 0)
}

// Run checks all but what only a running OpenCode can tell (see [Live]). An error
// is about what could not be looked at.
func Run(o Options) (Report, error) {
	c := checker{Options: o, version: hostversion.Comparable(o.Version)}
	c.around = configfile.Surrounding{Environ: o.Environ, Dir: o.Dir, Home: o.Home}
	listed := false
	location, err := plugin.Locate(o.DataDir)
	if err != nil {
		c.add(DataDir, Error, err.Error())
		c.readOtherFiles()
		c.checkContent(configmerge.Entry{URL: "file:///"})
	} else {
		c.location = location
		c.readOtherFiles()
		if o.Source == o.Variable {
			c.files = c.namedInFiles()
		}
		if listing, ok := c.checkContent(configmerge.Entry{URL: location.Entry, Means: location.Means}); ok {
			listed = c.checkEntries(listing)
		}
		if err := c.checkDisk(); err != nil {
			return Report{}, fmt.Errorf("looking at the plugin: %w", err)
		}
	}
	c.checkSwitches()
	c.checkOtherFiles(listed || len(c.files) > 0)
	c.checkVersion()
	return Report{c.found, c.location, listed, c.files}, nil
}

// A checker collects what is found.
type checker struct {
	Options
	version  string // as golang.org/x/mod/semver wants it, or "" if not known
	location plugin.Location
	around   configfile.Surrounding
	others   []configfile.Listed
	files    []string // of the others, those that name the plugin, where that is enough
	specs    []string // how the plugin is named where it was found first
	found    []Diagnostic
}

func (c *checker) add(id string, s Severity, summary string) *Diagnostic {
	c.found = append(c.found, Diagnostic{ID: id, Severity: s, Summary: oneline.Text(summary), Detail: advice[id]})
	return &c.found[len(c.found)-1]
}

// addAt is add for a position in the content.
func (c *checker) addAt(p configmerge.Position, id string, s Severity, summary string) *Diagnostic {
	d := c.add(id, s, summary)
	if c.Source == c.Variable && (id == ContentMissing || id == EntryMissing) {
		d.Detail += runInstall
	}
	d.Filename, d.Line, d.Column = c.Source, p.Line, p.Column
	return d
}

// before and after compare OpenCode's version, which must be known.
func (c *checker) before(version string) bool { return semver.Compare(c.version, "v"+version) < 0 }
func (c *checker) after(version string) bool  { return semver.Compare(c.version, "v"+version) > 0 }

// is1 and is2 say which OpenCode it is, if that is known.
func (c *checker) is1() bool { return c.version != "" && !hostversion.Is2(c.Version) }
func (c *checker) is2() bool { return hostversion.Is2(c.Version) }

// checkVersion judges the version of OpenCode alone.
func (c *checker) checkVersion() {
	switch {
	case c.Version == "":
		c.add(OpenCodeUnknown, Info, "no OpenCode was asked for its version")
	case c.version == "":
		c.add(OpenCodeUnknown, Info, "the version of OpenCode is none that can be compared")
	case c.before("1.0.142"):
		c.add(OpenCodeUnsupported, Error, "OpenCode "+c.Version+" cannot connect a server on request")
	case c.is2():
		c.add(OpenCode2, Warning, "support of OpenCode "+c.Version+" is experimental: it is written from the source, and was never run")
	}
}

// checkContent checks the text, as far as our entry is not concerned.
func (c *checker) checkContent(e configmerge.Entry) (l configmerge.Listing, ok bool) {
	if strings.TrimSpace(strings.TrimPrefix(c.Content, "\ufeff")) == "" {
		switch {
		case c.Content == "" && len(c.files) > 0:
		case c.Content != "":
			c.addAt(configmerge.Position{}, ContentMissing, Error, "the configuration is blank, with which OpenCode does not work")
		case c.Source == c.Variable:
			c.addAt(configmerge.Position{}, ContentMissing, Error, "there is no configuration: the variable is not set")
		default:
			c.addAt(configmerge.Position{}, ContentMissing, Error, "there is no configuration: the text is empty")
		}
		return l, false
	}
	if err := shellenv.CheckSize(c.Variable, c.Content); err != nil {
		c.addAt(configmerge.Position{}, ContentTooLong, Error, err.Error())
	}
	l, err := configmerge.List(c.Content, e)
	var syntax *configmerge.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := configmerge.Position{Line: syntax.Line, Column: syntax.Column}
		if syntax.NotList {
			c.addAt(at, PluginNotList, Error, syntax.Msg)
			return l, false
		}
		if d := c.addAt(at, ContentInvalid, Error, syntax.Msg); syntax.Hint != "" {
			d.Detail = syntax.Hint
		}
		return l, false
	case err != nil:
		c.addAt(configmerge.Position{}, ContentInvalid, Error, err.Error())
		return l, false
	}
	switch {
	case strings.HasPrefix(c.Content, "\ufeff"):
		c.addAt(configmerge.Position{Line: 1, Column: 1}, ContentNotStrict, Error, "the text starts with a byte order mark, with which OpenCode does not work")
	case c.version != "" && c.before("1.2.11") && !json.Valid([]byte(c.Content)):
		c.addAt(configmerge.Position{}, ContentNotStrict, Error, "there are comments or trailing commas, which OpenCode "+c.Version+" does not read in a variable")
	}
	c.checkPluginsKey(l.Plugins)
	return l, true
}

// checkPluginsKey judges OpenCode 2's key, which 1.2.11 to 1.18.10 refuse as they do every key they do not know.
func (c *checker) checkPluginsKey(at configmerge.Position) {
	switch {
	case at == configmerge.Position{} || c.is2():
	case c.version == "":
		c.addAt(at, PluginsKey, Warning, `"plugins" is a key of OpenCode 2: 1.2.11 to 1.18.10 refuse the whole configuration for it, others ignore it`)
	case !c.before("1.2.11") && !c.after("1.18.10"):
		c.addAt(at, PluginsKey, Error, `"plugins" is a key of OpenCode 2, for which OpenCode `+c.Version+" refuses the whole configuration")
	default:
		c.addAt(at, PluginsKey, Warning, `"plugins" is a key of OpenCode 2, which OpenCode `+c.Version+" ignores")
	}
}

// checkEntries looks for our entry in the list, and reports whether it is there.
func (c *checker) checkEntries(l configmerge.Listing) (listed bool) {
	type other struct {
		configmerge.ListEntry
		path string
	}
	var others []other              // of us, in another data directory
	var unread configmerge.Position // where we are named and OpenCode 1 does not look
	for _, entry := range l.Entries {
		path, recognized := plugin.Recognize(configfile.Absolute(entry.Spec, c.Dir))
		switch {
		case entry.Version2 && c.is1():
			if entry.Ours {
				unread = entry.Position
			}
		case entry.Ours || recognized && c.standsAt(path):
			if listed {
				c.addAt(entry.Position, EntryRepeated, Error, "the plugin is in the list once more")
				continue
			}
			listed = true
			c.specs = append(c.specs, entry.Spec)
			if d := c.checkForm(entry); d != nil {
				d.Filename, d.Line, d.Column = c.Source, entry.Line, entry.Column
			}
		case recognized:
			others = append(others, other{entry, path})
		}
	}
	for _, entry := range others {
		if listed || len(c.files) > 0 {
			d := c.addAt(entry.Position, LoadedTwice, Error, "this entry names a second mcp-reconnect, from another data directory")
			if c.Source == c.Variable {
				d.Detail = c.takesOut(entry.path, configfile.Listed{})
			}
		} else {
			c.addAt(entry.Position, EntryElsewhere, Error, "the mcp-reconnect in the list is not the one in "+c.location.Dir)
		}
	}
	switch {
	case listed || len(others) > 0 || len(c.files) > 0:
	case unread != configmerge.Position{}:
		d := c.addAt(unread, EntryMissing, Error, `the plugin is named under "plugins" alone, which OpenCode `+c.Version+" does not read")
		d.Detail = `add "plugin": [] to the configuration, and run mcp-reconnect env again`
	default:
		c.addAt(l.Plugin, EntryMissing, Error, "the plugin list does not name the plugin in "+c.location.Dir)
	}
	return listed
}

// checkForm judges how our entry is written: what env and install write is loaded everywhere.
func (c *checker) checkForm(e configmerge.ListEntry) *Diagnostic {
	isURL := e.Spec == c.location.Entry || e.Spec == c.location.FileURL
	switch {
	case c.is2() && strings.HasSuffix(e.Spec, ".js"):
		return c.add(EntryForm, Error, "the entry is a file, and OpenCode "+c.Version+" loads plugins from directories alone")
	case e.Options && e.Version2:
		return c.add(EntryForm, Warning, "the entry has the form for options, which the plugin does not read")
	case e.Options && c.version != "" && c.before("1.14.34"):
		return c.add(EntryForm, Error, "the entry has options, with which OpenCode "+c.Version+" may fail every request")
	case e.Options:
		return c.add(EntryForm, Warning, "the entry has options, which the plugin does not read and OpenCode up to 1.3.2 fails with")
	case !isURL && !hasFileScheme(e.Spec) && c.version != "" && c.before("1.14.41"):
		return c.add(EntryForm, Error, "the entry is a path, from which OpenCode "+c.Version+" may load nothing")
	case !isURL:
		return c.add(EntryForm, Warning, "the entry means the plugin in another spelling than the URL that is loaded everywhere")
	}
	return nil
}

// standsAt reports whether path is our plugin.js through another name, such as a symbolic link.
func (c *checker) standsAt(path string) bool {
	ours, err1 := os.Stat(filepath.Join(c.location.Dir, filepath.Base(path)))
	other, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(ours, other)
}

// checkDisk compares what the entry points to with what is rendered for the policy.
func (c *checker) checkDisk() error {
	flaws, err := plugin.Inspect(c.DataDir, c.Policy)
	for _, flaw := range flaws {
		grave := Warning
		if flaw.Grave {
			grave = Error
		}
		var d *Diagnostic
		switch flaw.Kind {
		case plugin.Missing:
			d = c.add(NotInstalled, Error, "the plugin is not installed: this does not exist")
		case plugin.Symlink:
			d = c.add(Symlink, Error, "this is a symbolic link, and what it points to is not checked")
		case plugin.Foreign:
			d = c.add(ForeignFile, Error, "this is not a file of mcp-reconnect")
		case plugin.Differs:
			d = c.add(FileDiffers, Error, "this is not what mcp-reconnect "+plugin.Version+" renders for this policy: "+flaw.Detail)
		case plugin.Mode:
			d = c.add(Mode, grave, "the mode is "+flaw.Detail)
		case plugin.Owner:
			d = c.add(Owner, grave, "this belongs to another user")
		}
		d.Filename, d.Line = flaw.Path, flaw.Line
	}
	if err != nil {
		return err
	}
	control, controlErr := state.ReadControl(c.location.StateDir)
	if control.Paused {
		c.add(Paused, Warning, "mcp-reconnect is paused: the plugin is loaded and reconnects nothing")
	}
	_, stateErr := state.Read(c.location.StateDir)
	for _, err := range []error{controlErr, stateErr} {
		var foreign *state.ForeignError
		if errors.As(err, &foreign) {
			c.add(ForeignFile, Warning, "this is not of mcp-reconnect: pause, status and retry cannot work").Filename = foreign.Path
		}
	}
	return nil
}

// checkSwitches looks for what makes OpenCode leave plugins out. Of its variables
// (1.18.33) OPENCODE_PURE alone does; OPENCODE_DISABLE_DEFAULT_PLUGINS is about
// those that are built in.
func (c *checker) checkSwitches() {
	const name = "OPENCODE_PURE"
	value, set := c.around.Getenv(name)
	if !set {
		return
	}
	switch value {
	case "true", "yes", "on", "1", "y":
		c.add(PluginsDisabled, Error, name+" is set: OpenCode loads no plugins")
	case "false", "no", "off", "0", "n":
	default: // an empty one, too
		c.add(PluginsDisabled, Error, name+" is neither a yes nor a no as OpenCode takes it: it may fail every request")
	}
}

func hasFileScheme(spec string) bool {
	return len(spec) >= 5 && strings.EqualFold(spec[:5], "file:")
}
