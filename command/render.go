package command

import (
	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

func renderCommand(s System) *cli.Command {
	flags := newPolicyFlags()
	return &cli.Command{
		Name:      "render",
		Usage:     "print the plugin as it would be installed",
		UsageText: "mcp-reconnect render [flags]",
		Flags:     flagsOf(flags),
		Action: func(*cli.Context) error {
			policy, err := flags.policy(s)
			if err != nil {
				return err
			}
			js, err := plugin.Render(policy)
			if err != nil {
				return err
			}
			return s.print(string(js))
		},
	}
}
