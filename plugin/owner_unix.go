//go:build unix

package plugin

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedBy reports whether something on disk belongs to the user who runs this, and whether to root.
func ownedBy(info fs.FileInfo) (own, root bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid(), ok && stat.Uid == 0
}
