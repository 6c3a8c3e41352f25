// Package command is the command line: one file per subcommand, each of which
// turns flags into options, calls the packages below and writes what they give.
//
// Its contract with the person at the terminal and with the shell that evaluates
// the output: standard output holds the result and nothing else, written once, at
// the end, and is empty on every failure; what check finds is its result. Everything
// else for people goes to standard error as "mcp-reconnect: …", lower case, without a
// final period, followed by a "hint:" line where one helps. No part of a
// configuration is ever repeated there: it holds API keys.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// System is what a command sees of the process that runs it.
type System struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	StdoutTerminal bool       // somebody reads standard output instead of evaluating it
	StdoutWidth    func() int // of the terminal, in columns; 0 where there is none
	StderrTerminal bool       // somebody reads hints
	StdoutClosed   bool       // there is no standard output
	Environ        []string
}

// OS returns the System of this process.
func OS() System {
	return System{
		Stdin:          os.Stdin,
		Stdout:         os.Stdout,
		Stderr:         os.Stderr,
		StdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		StdoutWidth: func() int {
			width, _, _ := term.GetSize(int(os.Stdout.Fd()))
			return width
		},
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		StdoutClosed:   stdoutClosed(),
		Environ:        os.Environ(),
	}
}

// getenv returns a variable's value; as everywhere in this program, an empty
// variable is an unset one.
func (s System) getenv(name string) string {
	for _, entry := range s.Environ {
		if len(entry) > len(name) && entry[len(name)] == '=' && sameVariable(entry[:len(name)], name) {
			return entry[len(name)+1:]
		}
	}
	return ""
}

// home returns the person's home directory, or "".
func (s System) home() string {
	if home := s.getenv("HOME"); home != "" {
		return home
	}
	return s.getenv("USERPROFILE") // Windows
}

// sameVariable reports whether two names are of one variable on this system.
func sameVariable(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}

// hint tells the person at the terminal something; a program that reads our
// standard error is spared it.
func (s System) hint(format string, args ...any) {
	if s.StderrTerminal {
		fmt.Fprintf(s.Stderr, "mcp-reconnect: hint: "+format+"\n", args...)
	}
}

// print writes a command's whole result.
func (s System) print(result string) error {
	_, err := s.write(result)
	return err
}

// write writes a part of the result, and reports whether somebody still reads.
func (s System) write(text string) (open bool, err error) {
	if s.StdoutClosed {
		return false, errors.New("standard output is closed")
	}
	_, err = io.WriteString(s.Stdout, text)
	if err != nil && isClosedPipe(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing standard output: %w", err)
	}
	return true, nil
}

// A subcommand is a command with what it takes besides flags.
type subcommand struct {
	*cli.Command
	// arguments returns what may stand behind the given arguments, for completion.
	// A command without it takes no arguments.
	arguments func(given []string) []candidate
}

// subcommands returns every command, in the order of the help.
func subcommands(s System, child []string) []subcommand {
	return []subcommand{
		{Command: envCommand(s)},
		{Command: runCommand(s, child)},
		{Command: installCommand(s)},
		{Command: uninstallCommand(s)},
		{Command: checkCommand(s)},
		{Command: renderCommand(s)},
		{Command: statusCommand(s)},
		retryCommand(s),
		{Command: pauseCommand(s, true)},
		{Command: pauseCommand(s, false)},
		{Command: watchCommand(s)},
		completionCommand(s),
	}
}

func init() { // cli has it for the whole process
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintf(c.App.Writer, "mcp-reconnect %s\n", c.App.Version) }
}

// Main runs the program with its arguments, of which the first is its name, and
// returns the exit status.
func Main(args []string, s System) int {
	if len(args) > 1 && args[1] == completeCommand {
		return complete(args[2:], s)
	}
	args, child := splitChild(args)
	if len(args) > 1 && args[1] == "help" { // as people type it
		args = append(append([]string{args[0]}, args[2:]...), "--help")
	}
	var results strings.Builder // help and version, which cli writes itself
	app := &cli.App{
		Name:    "mcp-reconnect",
		Usage:   "make OpenCode get its MCP servers back",
		Version: plugin.Version,
		Description: "It installs a plugin and names it in OpenCode's configuration.\n" +
			"For every OpenCode of yours, once:    mcp-reconnect install\n" +
			"For what this shell starts:           eval $(mcp-reconnect env)\n" +
			"Or start OpenCode through it:         mcp-reconnect run -- opencode\n" +
			"For one that you do not start:        mcp-reconnect watch --url http://HOST:PORT\n\n" +
			"It is for OpenCode 1, from 1.0.142 on; support of OpenCode 2 is experimental.\n\n" +
			"Every flag of a command may also be given as a variable, MCP_RECONNECT_<FLAG>, such as\n" +
			"MCP_RECONNECT_DATA_DIR; an empty one counts as unset.",
		Writer:          &results,
		ErrWriter:       io.Discard,
		ExitErrHandler:  func(*cli.Context, error) {}, // errors become exit statuses below, and there alone
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return usagef("no command given")
			}
			return usagef("unknown command%s", ifPlain(c.Args().First()))
		},
	}
	app.OnUsageError = onUsageError
	for _, c := range subcommands(s, child) {
		if len(args) < 2 || args[1] != c.Name {
			c.Flags = nil // cli would format the help of each one at every start
		} else if c.arguments != nil {
			args = append(args[:2:2], flagsFirst(args[2:], c.Flags)...)
		}
		c.OnUsageError = onUsageError
		c.HideHelpCommand = true
		c.Before = func(ctx *cli.Context) error { return checkArguments(ctx, s, c.arguments != nil) }
		app.Commands = append(app.Commands, c.Command)
	}

	err := app.Run(args)
	if err == nil && results.Len() > 0 {
		err = s.print(results.String())
	}
	status, hint := 1, ""
	var usage *usageError
	var exit *exitError
	var hinted interface{ Hint() string }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		status, hint = 2, "mcp-reconnect --help"
		if len(args) > 1 && app.Command(args[1]) != nil {
			hint = "mcp-reconnect " + args[1] + " --help"
		}
	case errors.As(err, &exit):
		if status = exit.status; exit.err == nil {
			return status
		}
	}
	if errors.As(err, &hinted) {
		hint = hinted.Hint()
	}
	fmt.Fprintf(s.Stderr, "mcp-reconnect: %s\n", oneline.Text(err.Error())) // names of files are in it
	if hint != "" {
		fmt.Fprintf(s.Stderr, "mcp-reconnect: hint: %s\n", hint)
	}
	return status
}

// A usageError is a command line, or a variable that stands for a flag, that
// cannot be understood.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// hintedError adds a hint to an error.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }
func (e *hintedError) Hint() string  { return e.hint }
