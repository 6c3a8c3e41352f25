package command

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// A completer is one shell's side of completion: a short script for the shell,
// which asks completeCommand what may stand at the cursor.
type completer struct {
	shell   string
	script  string
	install string // a line and the start-up file that it belongs in
	// answer is what the script gets for what it passes.
	answer func(args []string, commands []subcommand) string
}

var (
	//go:embed completion/mcp-reconnect.bash
	bashScript string
	//go:embed completion/mcp-reconnect.zsh
	zshScript string
	//go:embed completion/mcp-reconnect.fish
	fishScript string
	//go:embed completion/mcp-reconnect.ps1
	powershellScript string
)

var completers = []completer{
	{"bash", bashScript, `eval "$(mcp-reconnect completion bash)", in ~/.bashrc`, answerBash},
	{"zsh", zshScript, "source <(mcp-reconnect completion zsh), in ~/.zshrc, behind compinit", answerZsh},
	{"fish", fishScript, "mcp-reconnect completion fish | source, in ~/.config/fish/config.fish", answerFish},
	{"powershell", powershellScript, "mcp-reconnect completion powershell | Out-String | Invoke-Expression, in $PROFILE", answerPowerShell},
}

// findCompleter returns the completer for the named shell, or nil.
func findCompleter(shell string) *completer {
	if i := slices.IndexFunc(completers, func(c completer) bool { return c.shell == shell }); i >= 0 {
		return &completers[i]
	}
	return nil
}

func completionCommand(s System) subcommand {
	var shells []string
	for _, c := range completers {
		shells = append(shells, c.shell)
	}
	return subcommand{
		Command: &cli.Command{
			Name:      "completion",
			Usage:     "print the script that makes a shell complete this command's words",
			UsageText: "mcp-reconnect completion " + strings.Join(shells, "|"),
			Action: func(c *cli.Context) error {
				names := strings.Join(shells, ", ")
				if c.NArg() != 1 {
					return usagef("completion takes the name of one shell: %s", names)
				}
				completer := findCompleter(c.Args().First())
				if completer == nil {
					return usagef("completion knows no shell%s, but %s", ifPlain(c.Args().First()), names)
				}
				return runCompletion(*completer, s)
			},
		},
		arguments: func(given []string) []candidate {
			if len(given) > 0 {
				return nil
			}
			return candidates(shells)
		},
	}
}

func runCompletion(c completer, s System) error {
	if err := s.print(c.script); err != nil {
		return err
	}
	if s.StdoutTerminal {
		s.hint("to install it: %s", c.install)
	}
	return nil
}
