package plugin

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// onItsWay is the name of a file of ours that was not renamed into its place.
// It is compiled at its first use, not at every start.
var onItsWay = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\.(plugin\.js|server\.js|package\.json)\.[0-9]+\.tmp$`)
})

// Files returns what Install has put into l.Dir, by whatever version. What does not carry our marker is
// somebody else's, and so is a symbolic link.
func (l Location) Files() ([]string, error) {
	info, err := os.Lstat(l.Dir)
	if os.IsNotExist(err) || err == nil && !info.IsDir() {
		return nil, nil
	}
	entries, err := os.ReadDir(l.Dir)
	var ours []string
	for _, entry := range entries {
		name := entry.Name()
		marker := template.Marker
		switch {
		case onItsWay().MatchString(name):
			marker = "" // perhaps nothing of it was written
		case name == packageName:
			marker = packageMarker
		case name != pluginName && name != serverName:
			continue
		}
		path := filepath.Join(l.Dir, name)
		if entry.Type().IsRegular() && startsWith(path, marker) {
			ours = append(ours, path)
		}
	}
	return ours, err
}

func startsWith(path, marker string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(marker))
	_, err = io.ReadFull(f, start)
	return err == nil && bytes.Equal(start, []byte(marker))
}
