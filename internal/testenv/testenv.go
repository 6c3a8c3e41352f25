// Package testenv finds what tests need from outside the repository: programs on
// the machine, and packages that internal/npm keeps in the user's cache. It never
// writes into the repository, and it alone decides what becomes of a test whose
// need cannot be met: skipped with the reason, or, in CI, failed.
package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-reconnect/mcp-reconnect/internal/npm"
)

// ForbidSkip is the variable that turns every skip into a failure; .ci/run sets it.
const ForbidSkip = "TEST_FORBID_SKIP"

// Matrix is the variable that makes the tests run with every OpenCode in the
// README's table, which are 160 MB each; .ci/run sets it.
const Matrix = "TEST_OPENCODE_MATRIX"

// NushellVersion is the pinned version of nushell.
const NushellVersion = "0.115.1"

// ReferenceServerVersion is the pinned version of the MCP project's reference server.
const ReferenceServerVersion = "2026.8.31"

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
	path, err := npm.OpenCode(version)
	if err != nil {
		Skip(t, "%v", err)
	}
	return path
}

// Nushell returns the path of the pinned nushell, which Debian does not have.
func Nushell(t testing.TB) string {
	t.Helper()
	path, err := npm.Nushell(NushellVersion)
	if err != nil {
		Skip(t, "%v", err)
	}
	return path
}

// ReferenceServer returns the path of the MCP project's reference server, which Node runs.
func ReferenceServer(t testing.TB) string {
	t.Helper()
	path, err := npm.ReferenceServer(ReferenceServerVersion)
	if err != nil {
		Skip(t, "%v", err)
	}
	return path
}
