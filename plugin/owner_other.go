//go:build !unix

package plugin

import "io/fs"

// ownedBy knows no owner that could be compared: access is a matter of lists there.
func ownedBy(fs.FileInfo) (own, root bool) { return true, false }
