package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/atomicfile"
	"github.com/mcp-reconnect/mcp-reconnect/shellenv"
)

func envCommand(s System) *cli.Command {
	flags := newEnvFlags()
	return &cli.Command{
		Name:      "env",
		Usage:     "install the plugin and print the environment for OpenCode",
		UsageText: "eval $(mcp-reconnect env)   # sh, bash, zsh; other shells: see --shell\nmcp-reconnect env [flags]",
		Flags:     append(flagsOf([]*flagText{flags.shell, flags.format, flags.output}), flags.all()...),
		Action: func(*cli.Context) error {
			options, err := flags.options(s)
			if err != nil {
				return err
			}
			return runEnv(options, s)
		},
	}
}

type envFlags struct {
	shell, format, output *flagText
	targetFlags
}

func newEnvFlags() envFlags {
	return envFlags{
		shell:       &flagText{name: "shell", value: "NAME", usage: "write for this shell", choices: append([]string{"auto"}, shellenv.ShellNames()...), initial: "auto"},
		format:      &flagText{name: "format", value: "NAME", usage: "write in this format", choices: append([]string{"shell"}, shellenv.FormatNames()...), initial: "shell"},
		output:      &flagText{name: "output", value: "FILE", usage: "write to FILE instead of standard output, which is -; --format github appends"},
		targetFlags: newTargetFlags(),
	}
}

type envOptions struct {
	target
	syntax shellenv.Syntax
	output string // "" is standard output
	flags  bool   // others than the shell were given, which a hint does not repeat
}

func (f envFlags) options(s System) (envOptions, error) {
	var o envOptions
	var err error
	if o.syntax, err = f.syntax(s); err != nil {
		return o, err
	}
	output, err := f.output.named(s)
	if err != nil {
		return o, err
	}
	if o.output = output.value; o.output == "-" {
		o.output = ""
	}
	for _, flag := range f.all() {
		o.flags = o.flags || flag.IsSet()
	}
	o.target, err = f.target(s)
	return o, err
}

// syntax chooses between --shell and --format. A flag counts before a variable,
// whichever of the two it is.
func (f envFlags) syntax(s System) (shellenv.Syntax, error) {
	shell, format := f.shell.setting(s), f.format.setting(s)
	if format.ok() && format.value != "shell" {
		syntax, ok := shellenv.Format(format.value)
		switch {
		case !ok:
			return syntax, f.format.noneOf(format)
		case !f.shell.IsSet():
			return syntax, nil
		case f.format.IsSet():
			return syntax, usagef("--shell and --format %s exclude each other", format.value)
		}
	}
	if shell.value == "auto" {
		shell = f.shell.fromVariable(s)
	}
	if shell.ok() && shell.value != "auto" {
		syntax, ok := shellenv.Shell(shell.value)
		if name, known := shellenv.ShellOf(shell.value); !ok && known { // as in /usr/bin/fish
			syntax, ok = shellenv.Shell(name)
		}
		if !ok {
			return syntax, f.shell.noneOf(shell)
		}
		return syntax, nil
	}
	syntax, _ := shellenv.Shell(shellenv.Detect(append(shellenv.Ancestors(), s.getenv("SHELL"))...))
	return syntax, nil
}

func runEnv(o envOptions, s System) error {
	if o.output == "" && s.StdoutClosed {
		return errors.New("standard output is closed") // before anything is written to disk
	}
	merged, err := o.merge()
	if err != nil {
		return err
	}
	env := shellenv.Env{contentVariable: nil}
	if merged != "" {
		value := merged
		if !o.syntax.Verbatim {
			value = shellenv.SafeJSON(merged)
		}
		if err := checkSize(value, merged); err != nil {
			return err
		}
		env[contentVariable] = &value
	}
	text, err := o.syntax.Encode(env)
	if err != nil {
		return err
	}
	if _, err := o.install(s); err != nil {
		return err
	}
	o.hintPlugins(merged, s)
	o.hintOthers(merged, s)
	if !o.unset {
		s.hintVersion2(o.openCode)
	}
	if o.output != "" {
		if err := writeOutput(o.output, text, o.syntax.Name == "github"); err != nil {
			return fmt.Errorf("writing --output: %w", err)
		}
		return nil
	}
	if err := s.print(text); err != nil {
		return err
	}
	if !s.StdoutTerminal || o.syntax.Hint("") == "" {
		return nil
	}
	if o.flags {
		s.hint("to set it in this shell, with the same flags: %s", o.syntax.Hint("mcp-reconnect env …"))
	} else {
		s.hint("to set it in this shell: %s", o.syntax.Hint("mcp-reconnect env"))
	}
	return nil
}

// writeOutput replaces a file, or appends to it. What is no regular file, such as
// a pipe or /dev/stdout, is written to: replacing it would take it from others.
func writeOutput(name, text string, appending bool) error {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		// A link that points to nothing yet is written through, as one that does is.
		if target, linkErr := os.Readlink(name); linkErr == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(name), target)
			}
			return writeOutput(target, text, appending)
		}
	} else if err != nil {
		return err
	}
	if appending {
		return appendLine(name, text)
	}
	if info != nil && (!info.Mode().IsRegular() || isDescriptor(name)) {
		return write(name, text, os.O_APPEND)
	}
	if info != nil {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	return atomicfile.Write(name, []byte(text))
}

// isDescriptor reports whether a path stands for an open file of some process.
func isDescriptor(name string) bool {
	name = filepath.Clean(name)
	return strings.HasPrefix(name, "/dev/std") || strings.HasPrefix(name, "/dev/fd/") ||
		strings.HasPrefix(name, "/proc/") && strings.Contains(name, "/fd/")
}

func write(name, text string, flag int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// appendLine appends to a file, beginning a line where its last one has no end.
func appendLine(name, text string) error {
	if content, err := os.ReadFile(name); err == nil && len(content) > 0 && content[len(content)-1] != '\n' {
		text = "\n" + text
	}
	return write(name, text, os.O_APPEND|os.O_CREATE)
}
