// Package testenv finds what tests need from outside the repository: programs on
// the machine and packages from npm, which it fetches into the user's cache.
// It never writes into the repository, and it alone decides what becomes of a
// test whose need cannot be met: skipped with the reason, or, in CI, failed.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ForbidSkip is the variable that turns every skip into a failure; .ci/run sets it.
const ForbidSkip = "TEST_FORBID_SKIP"

// NushellVersion is the pinned version of nushell.
const NushellVersion = "0.115.1"

// OpenCodeVersion is the version of OpenCode that the tests use: the pinned one,
// or another that TEST_OPENCODE_VERSION names.
func OpenCodeVersion() string {
	if version := os.Getenv("TEST_OPENCODE_VERSION"); version != "" {
		return version
	}
	return "1.18.33"
}

// Skip ends the test as skipped for the given reason, or as failed where
// nothing may be skipped.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(ForbidSkip) != "" {
		t.Fatalf("skipping is forbidden ("+ForbidSkip+" is set): "+format, args...)
	}
	t.Skipf(format, args...)
}

// Program returns the path of the first of the named programs that is installed,
// or skips the test.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Skip(t, "%s is not installed", strings.Join(names, " or "))
	return ""
}

// OpenCode returns the path of the OpenCode binary of the given version.
func OpenCode(t testing.TB, version string) string {
	t.Helper()
	return npmBinary(t, "opencode-"+npmPlatform(t), version, "opencode")
}

// Nushell returns the path of the pinned nushell, which Debian does not have.
func Nushell(t testing.TB) string {
	t.Helper()
	return npmBinary(t, "@nushell/"+npmPlatform(t), NushellVersion, "nu")
}

// npmPlatform names this platform as packages of prebuilt binaries on npm do.
func npmPlatform(t testing.TB) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" {
		Skip(t, "npm has no binaries for %s", runtime.GOARCH)
	}
	return runtime.GOOS + "-" + arch
}

// npmBinary returns the path of bin/name in an npm package, which it installs
// into the user's cache first if it is not there yet.
func npmBinary(t testing.TB, pkg, version, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		Skip(t, "no cache directory for npm packages: %v", err)
	}
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	root := filepath.Join(cache, "mcp-reconnect-test")
	home := filepath.Join(root, strings.ReplaceAll(pkg, "/", "+")+"@"+version)
	binary := filepath.Join(home, "node_modules", filepath.FromSlash(pkg), "bin", name)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	if err := npmInstall(root, home, pkg+"@"+version); err != nil {
		Skip(t, "%v", err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("npm installed %s@%s, but: %v", pkg, version, err)
	}
	return binary
}

// npmInstall installs spec beside its final place and renames it into it, so that
// neither a broken download nor a second test process leaves half a package there.
func npmInstall(root, home, spec string) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%s is needed from npm, and npm is not installed", spec)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(root, "install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command(npm, "install", "--prefix", tmp, "--ignore-scripts", "--no-save",
		"--no-package-lock", "--no-audit", "--no-fund", spec)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("npm could not install %s: %v: %s", spec, err, lines[0])
	}
	if err := os.Rename(tmp, home); err != nil {
		if _, statErr := os.Stat(home); statErr == nil {
			return nil // another test process was faster
		}
		return err
	}
	return nil
}
