// Package npm gets programs from npm, each in a pinned version, and keeps them in
// the user's cache. It never runs a package's scripts, never leaves half a package
// behind, and asks npm for nothing that is in the cache already.
package npm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// OpenCode returns the path of the OpenCode binary of the given version.
func OpenCode(version string) (string, error) {
	platform, err := platform()
	if err != nil {
		return "", err
	}
	return file("opencode-"+platform, version, "bin", executable("opencode"))
}

// Nushell returns the path of nushell in the given version.
func Nushell(version string) (string, error) {
	platform, err := platform()
	if err != nil {
		return "", err
	}
	return file("@nushell/"+platform, version, "bin", executable("nu"))
}

// ReferenceServer returns the path of the script of the MCP project's own reference
// server in the given version. Node runs it.
func ReferenceServer(version string) (string, error) {
	return file("@modelcontextprotocol/server-everything", version, "dist", "index.js")
}

// Cache is the directory that holds the packages, each in one of its own.
func Cache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for npm packages: %w", err)
	}
	return filepath.Join(cache, "mcp-reconnect-test"), nil
}

// platform names this platform as packages of prebuilt binaries on npm do.
func platform() (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" {
		return "", fmt.Errorf("npm has no binaries for %s", runtime.GOARCH)
	}
	return runtime.GOOS + "-" + arch, nil
}

// executable is the name of a program's file on this platform.
func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// file returns the path of a file in a package, which it installs first, with what
// the package depends on, if the file is not there yet.
func file(pkg, version string, name ...string) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, strings.ReplaceAll(pkg, "/", "+")+"@"+version)
	path := filepath.Join(append([]string{home, "node_modules", filepath.FromSlash(pkg)}, name...)...)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := install(cache, home, pkg+"@"+version); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("npm installed %s@%s, but: %w", pkg, version, err)
	}
	return path, nil
}

// install installs spec beside its final place and renames it into it, so that
// neither a broken download nor a second process leaves half a package there.
func install(cache, home, spec string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%s is needed from npm, and npm is not installed", spec)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command(npm, "install", "--prefix", tmp, "--ignore-scripts", "--no-save",
		"--no-package-lock", "--no-audit", "--no-fund", spec)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("npm could not install %s: %w: %s", spec, err, lines[0])
	}
	if err := os.Rename(tmp, home); err != nil {
		if _, statErr := os.Stat(home); statErr == nil {
			return nil // another process was faster
		}
		return err
	}
	return nil
}
