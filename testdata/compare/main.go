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
// A scenario is played N times, but only once where it takes a minute: restarts, flapping,
// broken, and whatever a contestant did not recover from in the first round.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// A contestant is OpenCode with a plugin.
type contestant struct {
	name      string
	configure testbed.Configure
}

var contestants = []contestant{
	{"OpenCode alone", testbed.Alone},
	{"mcp-reconnect", testbed.MCPReconnect},
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
	*testbed.Bed
	logs string
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
	err := testbed.Run(func(ctx context.Context) {
		bed := testbed.New(*version)
		defer bed.Close()
		(&comparison{bed, *logs}).compare(ctx, chosen, *version, *rounds)
	})
	if err != nil {
		log.Fatal(err)
	}
}

func (c *comparison) compare(ctx context.Context, chosen []scenario, version string, rounds int) {
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
}

var legend = fmt.Sprintf(`Each cell: the time to "connected", from the server's death or from when it could start ("never": not within %.0f s) /
the processes started beyond each server's first and the one that brought it back / wrong actions. Wrong is every start of
a server that was connected or switched off, or stands in a directory that nobody uses, and every call to one that waits
for a sign-in. Of a remote server, the time is from when it listens again until a call of its tool works, with one
prompt a second, and the number of calls that failed until then; its sessions count as starts. Of a first prompt: whether its first
request to the model had the server's tool, and the time until that request. Wrong actions, and starts at once (within %d ms), are
those of the worst round. What takes a minute was played once: `+"`restarts`, `flapping`, `broken`, never"+`.
`, limit.Seconds(), overlap.Milliseconds())

// scenario returns the rounds of every contestant.
func (c *comparison) scenario(ctx context.Context, s scenario, rounds int) [][]*round {
	played := make([][]*round, len(contestants))
	for number := range rounds {
		for n, who := range contestants {
			if number > 0 && (s.once || slices.Contains(played[n][0].took, never)) {
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
	r := &round{setting: s.setting, ctx: ctx, root: testbed.Must(os.MkdirTemp(c.Root, "round-")), killed: map[int]bool{}, calm: map[mcpServer][]span{}}
	defer r.end()
	defer func() {
		if r.server != nil && c.logs != "" {
			testbed.Check(os.WriteFile(filepath.Join(c.logs, name+".log"), []byte(r.server.Log()), 0o600))
		}
	}()
	r.begin(c.Bed, who)
	s.play(r)
	r.count()
	return r
}

// cell sums up the rounds of one contestant in one scenario.
func cell(rounds []*round) string {
	var took []time.Duration
	var extra, failed []int
	var offered []bool
	var wrong, atOnce int
	for _, r := range rounds {
		took, extra = append(took, r.took...), append(extra, r.extra)
		failed, offered = append(failed, r.failed...), append(offered, r.offered...)
		wrong, atOnce = max(wrong, r.wrong), max(atOnce, r.atOnce)
	}
	text := times(took)
	if len(offered) > 0 {
		text = yes(offered) + ", " + text
	}
	if len(failed) > 0 {
		text += fmt.Sprintf(", %d failed", median(failed))
	}
	text += fmt.Sprintf(" / %d / %d", median(extra), wrong)
	if atOnce > 0 {
		text += fmt.Sprintf(" (%d at once)", atOnce)
	}
	return text
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// yes writes how often something was so.
func yes(so []bool) string {
	n := 0
	for _, so := range so {
		if so {
			n++
		}
	}
	switch n {
	case len(so):
		return "yes"
	case 0:
		return "no"
	}
	return fmt.Sprintf("%d of %d", n, len(so))
}

// times writes the median, the least and the most.
func times(took []time.Duration) string {
	if len(took) == 0 {
		return "–"
	}
	text := seconds(median(took))
	if least, most := seconds(took[0]), seconds(took[len(took)-1]); least != most {
		text += " (" + least + " to " + most + ")"
	}
	return text
}

func seconds(d time.Duration) string {
	if d == never {
		return "never"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
