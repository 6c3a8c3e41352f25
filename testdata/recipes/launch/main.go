package main

import (
	"log"
	"os"
	"os/exec"

	"github.com/adrg/xdg"
	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
)

func main() {
	policy := plugin.DefaultPolicy()
	policy.MaxAttempts = 20
	installed, err := plugin.Install(xdg.DataHome, policy)
	if err != nil {
		log.Fatal(err)
	}
	entry := configmerge.Entry{URL: installed.Entry, Means: installed.Means}
	merged, err := configmerge.Merge(os.Getenv("OPENCODE_CONFIG_CONTENT"), entry)
	if err != nil {
		log.Fatal(err)
	}
	opencode := exec.Command("opencode", "serve", "--port", "4242")
	opencode.Env = append(os.Environ(), "OPENCODE_CONFIG_CONTENT="+merged) // os/exec takes the last one
	opencode.Stdout, opencode.Stderr = os.Stdout, os.Stderr
	if err := opencode.Run(); err != nil {
		log.Fatal(err)
	}
}
