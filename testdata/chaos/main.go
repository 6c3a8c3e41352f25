//go:build linux

// Chaos lets MCP servers fail in every way that it knows in one real OpenCode with
// mcp-reconnect, while people use it: stdio servers are killed one by one and all at
// once, or broken for a while; remote ones are restarted, which loses their sessions;
// servers are switched off and on; instances are disposed of; prompts call tools. Then
// everything is made able to run, and there are two minutes of peace with two rounds
// of prompts. What must hold:
//
//   - at the end each server that is on is connected, has one process, and its tool
//     can be called; what is off is off; no process is left over
//   - at no time has a server two processes for longer than a start takes
//   - nothing is started that is switched off, but what was under way by then
//   - no prompt fails, but for a disposal of its instance
//   - OpenCode's memory is about where it was; --alone shows what is OpenCode's own growth
//
// It prints a summary, and each violation with what happened before it; with any, it
// exits with status 1. Usage, in the repository's root:
//
//	go run ./testdata/chaos [--seed N] [--minutes N] [--alone] [--verbose] [--opencode VERSION] [--log FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/mcp-reconnect/mcp-reconnect/internal/testbed"
	"github.com/mcp-reconnect/mcp-reconnect/internal/testenv"
)

const (
	quiet  = 5 * time.Second // after which OpenCode's memory is read
	growth = 256             // MiB that OpenCode may hold more at the end; alone it grows with each prompt
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("chaos: ")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "what happens, drawn from `N`")
	minutes := flag.Float64("minutes", 6, "how many minutes it goes on before the peace")
	alone := flag.Bool("alone", false, "without mcp-reconnect, to see that the check can fail")
	verbose := flag.Bool("verbose", false, "print everything that happens")
	version := flag.String("opencode", testenv.OpenCodeVersion(), "the `VERSION` of OpenCode, which is fetched from npm")
	logFile := flag.String("log", "", "keep what OpenCode printed in this `FILE`")
	flag.Parse()
	if flag.NArg() > 0 || *minutes <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	configure, with := testbed.MCPReconnect, "mcp-reconnect"
	if *alone {
		configure, with = testbed.Alone, "no plugin"
	}
	fmt.Printf("seed %d, %g minutes, OpenCode %s with %s\n", *seed, *minutes, *version, with)
	violations := 0
	err := testbed.Run(func(ctx context.Context) {
		bed := testbed.New(*version)
		defer bed.Close()
		w := &world{history: newHistory(*verbose), ctx: ctx}
		defer w.end()
		w.start(bed, configure)
		if *logFile != "" {
			defer func() { testbed.Check(os.WriteFile(*logFile, []byte(w.opencode.Log()), 0o600)) }()
		}
		w.run(plan(*seed, time.Duration(*minutes*float64(time.Minute)), directories, everyDirectory))
		violations = w.violations(os.Stdout)
	})
	switch {
	case err != nil:
		log.Fatal(err)
	case violations > 0:
		log.Fatalf("%d violations; --seed %d plays the same again", violations, *seed)
	}
}

// run plays the plan and the peace, and prints the summary.
func (w *world) run(steps []step) {
	looking, stop := context.WithCancel(w.ctx)
	defer stop()
	go w.lookOn(looking)
	testbed.Pause(w.ctx, quiet)
	atFirst := testbed.Must(readMemory(w.opencode.Pid))
	w.note(subject{}, "chaos begins")
	for begin, n := time.Now(), 0; n < len(steps); n++ {
		testbed.Pause(w.ctx, time.Until(begin.Add(steps[n].at)))
		w.act(steps[n])
	}
	afterChaos := testbed.Must(readMemory(w.opencode.Pid))
	took := w.peace()
	w.judge()
	testbed.Pause(w.ctx, quiet)
	atLast := testbed.Must(readMemory(w.opencode.Pid))
	if atLast.rss-atFirst.rss > growth {
		w.violate(subject{}, "OpenCode holds %.0f MiB more than at first", atLast.rss-atFirst.rss)
	}
	stop()

	fmt.Printf("%d servers in %d directories\n", len(w.dirs)*len(everyDirectory), len(w.dirs))
	for _, what := range w.counted() {
		fmt.Println(what)
	}
	if took > 0 {
		fmt.Printf("peace: all that is on was connected after %.1f s\n", took.Seconds())
	} else {
		fmt.Println("peace: not all that is on was connected at one time")
	}
	fmt.Printf("OpenCode's memory: %v before, %v after the chaos, %v after the peace\n", atFirst, afterChaos, atLast)
}
