//go:build !unix

package main

import "log"

func main() {
	log.Fatal("compare: needs Unix: it kills MCP servers and OpenCode's process group")
}
