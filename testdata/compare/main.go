//go:build unix

// Compare plays the same failures of MCP servers to OpenCode alone, to OpenCode
// with mcp-reconnect as it stands in this tree, and to OpenCode with any other
// plugin, and prints a Markdown table. OpenCode and the MCP servers are real, the
// model is not, and nothing leaves the machine. Each round has an OpenCode of its
// own, so that no back-off carries over into the next, and the contestants take
// turns, so that all see the same machine. Usage, in the repository's root:
//
//	go run ./testdata/compare [--plugin NAME=FILE]… [--opencode VERSION] [--rounds N] [--scenario NAME]… [--logs DIR]
//
// A scenario is played N times, but only once where it takes a minute: flapping,
// broken, and whatever a contestant did not recover from in the first round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/npm"
	"github.com/mcp-reconnect/mcp-reconnect/internal/opencode"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A contestant puts its plugin into a configuration. What it installs for that
// goes into dataDir.
type contestant struct {
	name      string
	configure func(config, dataDir string) (string, error)
}

var contestants = []contestant{
	{"OpenCode alone", func(config, _ string) (string, error) { return config, nil }},
	{"mcp-reconnect", func(config, dataDir string) (string, error) {
		installed, err := plugin.Install(dataDir, plugin.DefaultPolicy())
		if err != nil {
			return "", err
		}
		return configmerge.Merge(config, configmerge.Entry{URL: installed.Entry, Means: installed.Means})
	}},
}

// addContestant adds the one that NAME=FILE names.
func addContestant(arg string) error {
	name, file, ok := strings.Cut(arg, "=")
	if _, err := os.Stat(file); !ok || err != nil {
		return errors.Join(errors.New("want NAME=FILE"), err)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	url, err := plugin.FileURL(file)
	contestants = append(contestants, contestant{name, func(config, _ string) (string, error) {
		return configmerge.Merge(config, configmerge.Entry{URL: url})
	}})
	return err
}

// A comparison is what all rounds share.
type comparison struct {
	root, configDir, binary, node, script, logs string
	model                                       *opencode.Model
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("compare: ")
	var chosen []scenario
	flag.Func("plugin", "another contestant, as `NAME=FILE`; may be repeated", addContestant)
	version := flag.String("opencode", testenv.OpenCodeVersion(), "the `VERSION` of OpenCode, which is fetched from npm")
	rounds := flag.Int("rounds", 5, "how often a scenario is played")
	flag.Func("scenario", "play the scenario of this `NAME` instead of all; may be repeated", func(name string) error {
		n := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if n < 0 {
			return errors.New("no such scenario")
		}
		chosen = append(chosen, scenarios[n])
		return nil
	})
	logs := flag.String("logs", "", "keep what each OpenCode printed in this `DIR`")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if chosen == nil {
		chosen = scenarios
	}
	if err := compare(chosen, *version, *rounds, *logs); err != nil {
		log.Fatal(err)
	}
}

// A failure is an error that ends the comparison, from wherever check finds it:
// so a scenario reads as what happens in it. What was started and written is
// gone all the same.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func compare(chosen []scenario, version string, rounds int, logs string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	c := &comparison{logs: logs, model: opencode.NewModel()}
	defer c.model.Close()
	c.script = must(filepath.Abs("testdata/servers/mcp.mjs"))
	must(os.Stat(c.script))
	c.node = must(exec.LookPath("node"))
	c.binary = must(npm.OpenCode(version))
	c.configDir = filepath.Join(must(npm.Cache()), "config@"+version) // OpenCode fills it at its first start
	c.root = must(os.MkdirTemp("", "compare-"))
	defer os.RemoveAll(c.root)
	c.root = must(filepath.EvalSymlinks(c.root)) // as the servers' logs name it

	var table strings.Builder
	for _, s := range chosen {
		fmt.Fprintf(&table, "| `%s`: %s |", s.name, s.title)
		for _, played := range c.scenario(ctx, s, rounds) {
			fmt.Fprintf(&table, " %s |", cell(played))
		}
		table.WriteString("\n")
	}
	fmt.Printf("OpenCode %s, %s/%s with %d processors, median (least to most) of %d rounds:\n\n| |", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds)
	for _, who := range contestants {
		fmt.Printf(" %s |", who.name)
	}
	fmt.Printf("\n|%s\n%s\n%s", strings.Repeat(" --- |", 1+len(contestants)), &table, legend)
	return nil
}

var legend = fmt.Sprintf(`Each cell: the time to "connected", from the server's death or from when it could start ("never": not within %.0f s) /
the processes started beyond each server's first and the one that brought it back / wrong actions. Wrong is every start of
a server that was connected or switched off, or stands in a directory that nobody uses, and every call to one that waits
for a sign-in. Wrong actions, and starts at once (within %d ms), are those of the worst round. What takes a minute was
played once: `+"`flapping`, `broken`, never"+`.
`, limit.Seconds(), overlap.Milliseconds())

// scenario returns the rounds of every contestant.
func (c *comparison) scenario(ctx context.Context, s scenario, rounds int) [][]*round {
	played := make([][]*round, len(contestants))
	for number := range rounds {
		for n, who := range contestants {
			if number > 0 && (s.once || played[n][0].took == never) {
				continue
			}
			name := fmt.Sprintf("%s, %s, round %d", s.name, who.name, number+1)
			r := c.play(ctx, s, who, name)
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, cell([]*round{r}))
			played[n] = append(played[n], r)
		}
	}
	return played
}

func (c *comparison) play(ctx context.Context, s scenario, who contestant, name string) *round {
	ctx, cancel := context.WithTimeout(ctx, 5*limit)
	defer cancel()
	r := &round{setting: s.setting, ctx: ctx, root: must(os.MkdirTemp(c.root, "round-")), killed: map[int]bool{}, handsOff: map[mcpServer]time.Time{}}
	defer r.end()
	defer func() {
		if r.server != nil && c.logs != "" {
			check(os.WriteFile(filepath.Join(c.logs, name+".log"), []byte(r.server.Log()), 0o600))
		}
	}()
	r.begin(c, who)
	r.took = s.play(r)
	r.count()
	return r
}

// cell sums up the rounds of one contestant in one scenario.
func cell(rounds []*round) string {
	var took []time.Duration
	var extra []int
	var wrong, atOnce int
	for _, r := range rounds {
		took, extra = append(took, r.took), append(extra, r.extra)
		wrong, atOnce = max(wrong, r.wrong), max(atOnce, r.atOnce)
	}
	slices.Sort(took)
	slices.Sort(extra)
	text := seconds(took[len(took)/2])
	if least, most := seconds(took[0]), seconds(took[len(took)-1]); least != most {
		text += " (" + least + " to " + most + ")"
	}
	text += fmt.Sprintf(" / %d / %d", extra[len(extra)/2], wrong)
	if atOnce > 0 {
		text += fmt.Sprintf(" (%d at once)", atOnce)
	}
	return text
}

// seconds writes round.took.
func seconds(d time.Duration) string {
	switch d {
	case 0:
		return "–"
	case never:
		return "never"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
