// Startup measures what `mcp-reconnect env` costs at the start of a shell or of a
// launcher: the whole process, with a configuration of 4 KiB, against
//
//   - a Go program that only prints a line, which is what any Go program costs, and
//   - Node doing the same work: read the variable, parse, write the file, print.
//
// The three are run in turns, so that all see the same machine. Ours is built as
// the README says; -tags ” builds it as `go run` does. Usage:
//
//	go run ./testdata/startup [-n RUNS] [-tags TAGS]
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const line = `package main

import "os"

func main() { os.Stdout.WriteString("export OPENCODE_CONFIG_CONTENT='{}';\n") }
`

const node = `
const fs = require("node:fs"), path = require("node:path"), url = require("node:url")
const dir = path.join(process.env.MCP_RECONNECT_DATA_DIR, "node", "mcp-reconnect")
const config = JSON.parse(process.env.OPENCODE_CONFIG_CONTENT || "{}")
fs.mkdirSync(dir, { recursive: true, mode: 0o700 })
fs.writeFileSync(path.join(dir, "plugin.js"), fs.readFileSync(process.env.PLUGIN), { mode: 0o600 })
const href = url.pathToFileURL(dir).href
config.plugin = [...(config.plugin ?? []).filter((entry) => entry !== href), href]
process.stdout.write("export OPENCODE_CONFIG_CONTENT='" + JSON.stringify(config).replaceAll("'", "'\\''") + "';\n")
`

func main() {
	log.SetFlags(0)
	runs := flag.Int("n", 100, "how often each is run")
	tags := flag.String("tags", "urfave_cli_no_docs,netgo", "build tags for mcp-reconnect")
	flag.Parse()

	dir, err := os.MkdirTemp("", "startup-")
	check(err)
	defer os.RemoveAll(dir)
	ours, print := filepath.Join(dir, "mcp-reconnect"), filepath.Join(dir, "print")
	build(ours, ".", "-tags", *tags)
	source := filepath.Join(dir, "print.go")
	check(os.WriteFile(source, []byte(line), 0o600))
	build(print, source)
	plugin, err := exec.Command(ours, "render").Output()
	check(err)
	pluginFile := filepath.Join(dir, "plugin.js")
	check(os.WriteFile(pluginFile, plugin, 0o600))

	environ := append(os.Environ(), "OPENCODE_CONFIG_CONTENT="+configuration(4096), "MCP_RECONNECT_DATA_DIR="+filepath.Join(dir, "data"), "PLUGIN="+pluginFile)
	contestants := []struct {
		name string
		args []string
	}{
		{"mcp-reconnect env", []string{ours, "env", "--shell", "sh"}},
		{"a Go program that prints a line", []string{print}},
		{"Node doing the same", []string{"node", "-e", node}},
	}
	times := make([][]time.Duration, len(contestants))
	for run := range *runs + 5 {
		for n, c := range contestants {
			cmd := exec.Command(c.args[0], c.args[1:]...)
			cmd.Env = environ
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			start := time.Now()
			check(cmd.Run())
			took := time.Since(start)
			if !strings.HasPrefix(out.String(), "export OPENCODE_CONFIG_CONTENT=") {
				log.Fatalf("%s printed %.80q", c.name, out.String())
			}
			if run >= 5 { // the first ones warm the caches
				times[n] = append(times[n], took)
			}
		}
	}
	median := func(n int) float64 {
		slices.Sort(times[n])
		return float64(times[n][len(times[n])/2])
	}
	for n, c := range contestants {
		fmt.Printf("%-34s %6.2f ms   %5.2f times mcp-reconnect env\n", c.name, median(n)/1e6, median(n)/median(0))
	}
}

func build(output, what string, flags ...string) {
	cmd := exec.Command("go", append(append([]string{"build", "-o", output}, flags...), what)...)
	cmd.Stderr = os.Stderr
	check(cmd.Run())
}

// configuration is a realistic configuration of about the given size.
func configuration(size int) string {
	mcp := map[string]any{}
	config := map[string]any{"$schema": "https://opencode.ai/config.json", "model": "anthropic/claude", "mcp": mcp, "plugin": []string{"other"}}
	for n := 0; ; n++ {
		text, err := json.Marshal(config)
		check(err)
		if len(text) >= size {
			return string(text)
		}
		mcp[fmt.Sprint("server-", n)] = map[string]any{
			"type": "local", "command": []string{"npx", "-y", fmt.Sprintf("@example/server-%d@1.2.%d", n, n)},
			"environment": map[string]string{"API_KEY": "{env:SERVER_KEY}"}, "enabled": n%2 == 0,
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
