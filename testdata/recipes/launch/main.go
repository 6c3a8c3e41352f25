package main

import (
	"errors"
	"log"
	"os"
	"os/exec"

	"github.com/adrg/xdg"
	"github.com/mcp-reconnect/mcp-reconnect/configmerge"
	"github.com/mcp-reconnect/mcp-reconnect/plugin"
	"github.com/mcp-reconnect/mcp-reconnect/shellenv"
)

const variable = "OPENCODE_CONFIG_CONTENT"

func main() {
	log.SetFlags(0)
	installed, err := plugin.Install(xdg.DataHome, plugin.DefaultPolicy())
	if err != nil {
		log.Fatal(err)
	}
	entry := configmerge.Entry{URL: installed.Entry, Means: installed.Means}
	merged, err := configmerge.Merge(os.Getenv(variable), entry)
	if err != nil {
		log.Fatal(err)
	}
	if err := shellenv.CheckSize(variable, merged); err != nil {
		log.Fatal(err)
	}
	opencode := exec.Command("opencode", "serve", "--port", "4242")
	opencode.Env = append(os.Environ(), variable+"="+merged) // os/exec takes the last one
	opencode.Stdin, opencode.Stdout, opencode.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = opencode.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		log.Fatal(err)
	}
}
