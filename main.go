// Command mcp-reconnect makes OpenCode get its MCP servers back: it puts a
// plugin into the configuration that OpenCode reads from its environment.
package main

import (
	"os"

	"github.com/mcp-reconnect/mcp-reconnect/command"
)

func main() {
	os.Exit(command.Main(os.Args, command.OS()))
}
