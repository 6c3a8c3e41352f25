package command

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mcp-reconnect/mcp-reconnect/internal/oneline"
	"github.com/mcp-reconnect/mcp-reconnect/state"
)

// answerTime is how long plugins have to show that they heard, on a busy machine, too:
// rule 19 gives them a second.
const answerTime = 5 * time.Second

// pauseCommand is the command that pauses, or resumes.
func pauseCommand(s System, paused bool) *cli.Command {
	flag := newInstalledFlag()
	name, usage := "resume", "go on reconnecting after a pause"
	if paused {
		name, usage = "pause", "stop reconnecting in every running OpenCode, and in those to come"
	}
	return &cli.Command{
		Name:      name,
		Usage:     usage,
		UsageText: "mcp-reconnect " + name + " [flags]",
		Flags:     flagsOf([]*flagText{flag}),
		Action: func(*cli.Context) error {
			location, err := located(flag, s)
			if err == nil {
				err = mustBeThere(location)
			}
			if err != nil {
				return err
			}
			return runPause(location.StateDir, paused, s)
		},
	}
}

func runPause(dir string, paused bool, s System) error {
	changed, err := state.SetPaused(dir, paused)
	if err != nil {
		return hintOf(err)
	}
	obeying, others, err := waitFor(dir, answerTime, func(i state.Instance) bool { return i.Paused == paused })
	if err != nil {
		return err
	}
	what := map[bool]string{true: "paused", false: "resumed"}[paused]
	if !changed {
		what = map[bool]string{true: "was paused already", false: "was not paused"}[paused]
	}
	if err := s.print(fmt.Sprintf("reconnecting %s; directories in use: %d\n", what, obeying+len(others))); err != nil {
		return err
	}
	if len(others) == 0 {
		return nil
	}
	var lines []string
	for _, i := range others {
		lines = append(lines, fmt.Sprintf("OpenCode %s has not answered yet for %s", processOf(i), oneline.Text(i.Directory)))
	}
	sayLines(lines, "have not answered either", s)
	fmt.Fprintln(s.Stderr, "mcp-reconnect: hint: it obeys when it goes on; if it hangs, restart it")
	return &exitError{status: 1}
}

// sayLines writes lines on standard error, five at most, and how many more there are.
func sayLines(lines []string, more string, s System) {
	const most = 5
	for n, line := range lines {
		if n == most {
			fmt.Fprintf(s.Stderr, "mcp-reconnect: and %d %s\n", len(lines)-n, more)
			return
		}
		fmt.Fprintf(s.Stderr, "mcp-reconnect: %s\n", line)
	}
}

// waitFor waits until something holds for every instance in use, for so long at most,
// and returns for how many it does, and the others. Those that are not in use look at
// what they are told when they are.
func waitFor(dir string, most time.Duration, holds func(state.Instance) bool) (n int, others []state.Instance, err error) {
	for deadline := time.Now().Add(most); ; time.Sleep(answerInterval) {
		found, err := state.Read(dir)
		if err != nil {
			return 0, nil, err
		}
		n, others = 0, nil
		for _, i := range found.List {
			switch {
			case !i.Started:
			case holds(i):
				n++
			default:
				others = append(others, i)
			}
		}
		if len(others) == 0 || time.Now().After(deadline) {
			return n, others, nil
		}
	}
}
