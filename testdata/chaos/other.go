//go:build !linux

package main

import "log"

func main() {
	log.Fatal("chaos: needs Linux: it kills MCP servers, and reads /proc")
}
