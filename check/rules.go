package check

import (
	"maps"
	"slices"
)

// The rules' ids. They are stable: CI jobs and annotations refer to them.
const (
	ContentMissing      = "content-missing"
	ContentInvalid      = "content-invalid"
	ContentNotStrict    = "content-not-strict"
	ContentTooLong      = "content-too-long"
	PluginNotList       = "plugin-not-list"
	PluginsKey          = "plugins-key"
	EntryMissing        = "entry-missing"
	EntryRepeated       = "entry-repeated"
	EntryElsewhere      = "entry-elsewhere"
	EntryForm           = "entry-form"
	LoadedTwice         = "loaded-twice"
	DataDir             = "data-dir"
	NotInstalled        = "not-installed"
	ForeignFile         = "foreign-file"
	Symlink             = "symlink"
	FileDiffers         = "file-differs"
	Mode                = "mode"
	Owner               = "owner"
	PluginsDisabled     = "plugins-disabled"
	ConfigUnread        = "config-unread"
	ConfigManaged       = "config-managed"
	OpenCodeUnknown     = "opencode-unknown"
	OpenCodeUnsupported = "opencode-unsupported"
	OpenCode2           = "opencode-2"
	Paused              = "paused"
	LiveNotLoaded       = "live-not-loaded"
	LiveRefused         = "live-refused"
)

const (
	runEnv     = "run mcp-reconnect env, with the same flags, and evaluate what it prints"
	runInstall = ", or run mcp-reconnect install, for every OpenCode of yours"
)

// advice says for each rule what to do.
var advice = map[string]string{
	ContentMissing:      runEnv,
	ContentInvalid:      "mend the text there",
	ContentNotStrict:    "run mcp-reconnect env, which writes strict JSON",
	ContentTooLong:      "keep long texts in files, as {file:PATH}, or move parts to opencode.json",
	PluginNotList:       `write a list, ["…"], even for one plugin`,
	PluginsKey:          `name the plugins of OpenCode 1 under "plugin"`,
	EntryMissing:        runEnv + "; it runs last, after whatever else sets the variable",
	EntryRepeated:       "run mcp-reconnect env, which leaves one of them",
	EntryElsewhere:      "give both commands the same --data-dir, or run mcp-reconnect env again",
	EntryForm:           "run mcp-reconnect env, which writes it as a URL",
	LoadedTwice:         "take that one out: OpenCode would load the plugin twice",
	DataDir:             "choose another directory by --data-dir",
	NotInstalled:        runEnv + runInstall,
	ForeignFile:         "move it away and run mcp-reconnect env, or choose another directory by --data-dir",
	Symlink:             "run mcp-reconnect env, which puts its own in the link's place",
	FileDiffers:         "run mcp-reconnect install or env, with the same flags, and restart OpenCode; or give check the policy's flags",
	Mode:                "run mcp-reconnect env, which sets it",
	Owner:               "run mcp-reconnect as the user that OpenCode runs as, in a data directory of that user",
	PluginsDisabled:     "unset it",
	ConfigUnread:        "OpenCode may read it nevertheless; whether the plugin is named there is not known",
	ConfigManaged:       "what it says counts after the variable, and it was not checked",
	OpenCodeUnknown:     "name the program by --opencode",
	OpenCodeUnsupported: "update OpenCode to 1.0.142 or later",
	OpenCode2:           "its background service must have been started with the variable: restart it, or use opencode --standalone or opencode serve",
	Paused:              "run mcp-reconnect resume",
	LiveNotLoaded:       "look for the plugin in what opencode serve --print-logs says, with the same variable",
	LiveRefused:         "run opencode debug config with the same variable: it says what it does not take, and may show secrets; a {file:~/…} token finds nothing in the empty home of this start",
}

// IDs lists the rules, sorted.
func IDs() []string { return slices.Sorted(maps.Keys(advice)) }
