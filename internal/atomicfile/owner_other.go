//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// keepOwner leaves the owner to the directory's access list.
func keepOwner(_ *os.File, info fs.FileInfo) (fs.FileMode, error) { return info.Mode().Perm(), nil }
