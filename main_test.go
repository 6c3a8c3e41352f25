package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain puts this program, as the test binary contains it, into PATH for
// every test: under its own name, as users run it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mcp-reconnect": main})
}
