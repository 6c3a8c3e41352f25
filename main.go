// A run of env is over before the system could give it more or fewer processors.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command mcp-reconnect makes OpenCode get its MCP servers back: it puts a
// plugin into the configuration that OpenCode reads from its environment.
package main

import (
	"os"

	"github.com/mcp-reconnect/mcp-reconnect/command"
)

func main() {
	growStack()
	os.Exit(command.Main(os.Args, command.OS()))
}

// growStack makes the stack at once as large as a run needs it. By itself it would
// double several times, and be copied each time.
//
//go:noinline
func growStack() byte {
	var frame [16 << 10]byte
	return frame[len(os.Args)%len(frame)]
}
