// Package npm gets prebuilt programs from npm, each in a pinned version, and
// keeps them in the user's cache. It never runs a package's scripts, never leaves
// half a package behind, and asks npm for nothing that is in the cache already.
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
	return binary("opencode-"+platform, version, "opencode")
}

// Nushell returns the path of nushell in the given version.
func Nushell(version string) (string, error) {
	platform, err := platform()
	if err != nil {
		return "", err
	}
	return binary("@nushell/"+platform, version, "nu")
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

// binary returns the path of bin/name in a package, which it installs first if it
// is not there yet.
func binary(pkg, version, name string) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	home := filepath.Join(cache, strings.ReplaceAll(pkg, "/", "+")+"@"+version)
	path := filepath.Join(home, "node_modules", filepath.FromSlash(pkg), "bin", name)
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
