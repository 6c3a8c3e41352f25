package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-reconnect/mcp-reconnect/template"
)

// A Flaw is something that Install would mend, or refuse, about what stands on disk.
type Flaw struct {
	Kind FlawKind
	Path string // of the directory, or of the file in it
	Line int    // of Differs: the first line that differs, from 1
	// Detail says more, in a few words without a secret: of Differs the likely cause, of Mode the mode.
	Detail string
	// Grave says, of Mode, that others may write, and of Owner that it is not root either.
	Grave bool
}

// A FlawKind says what is wrong.
type FlawKind int

const (
	Missing FlawKind = iota
	Symlink          // at one of our names, where Install puts no link
	Foreign          // at one of our names, without our marker
	Differs          // other bytes than this version renders for the policy
	Mode             // not 0700 or 0600; not on Windows
	Owner            // another user than the one who runs this; not on Windows
)

// Inspect compares what stands below the data directory with what Install would
// put there for a policy, and changes nothing. An error is about what cannot be
// looked at.
func Inspect(dataDir string, p Policy) ([]Flaw, error) {
	l, err := Locate(dataDir)
	if err != nil {
		return nil, err
	}
	files, err := l.files(p)
	if err != nil {
		return nil, err
	}
	flaws, ok, err := inspectName(l.Dir, fs.ModeDir|0o700)
	if err != nil || !ok {
		return flaws, err
	}
	for _, f := range files {
		of, ok, err := inspectName(f.path, 0o600)
		if err != nil {
			return nil, err
		}
		if ok {
			flaw, err := f.compare()
			if err != nil {
				return nil, err
			}
			of = append(of, flaw...)
		}
		flaws = append(flaws, of...)
	}
	return flaws, nil
}

// inspectName looks at what stands at one of our names, and reports whether it is
// of the right type, so that one can look further.
func inspectName(path string, want fs.FileMode) (flaws []Flaw, ok bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Flaw{{Kind: Missing, Path: path}}, false, nil
	case err != nil:
		return nil, false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return []Flaw{{Kind: Symlink, Path: path}}, false, nil
	case info.Mode().Type() != want.Type():
		return []Flaw{{Kind: Foreign, Path: path}}, false, nil
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != want.Perm() {
		detail := fmt.Sprintf("%04o instead of %04o", mode, want.Perm())
		flaws = append(flaws, Flaw{Kind: Mode, Path: path, Detail: detail, Grave: mode&0o022 != 0})
	}
	if own, root := ownedBy(info); !own {
		flaws = append(flaws, Flaw{Kind: Owner, Path: path, Grave: !root})
	}
	return flaws, true, nil
}

// compare compares a file's bytes with what we would write.
func (f *file) compare() ([]Flaw, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content := f.content.Bytes()
	// An edit may have made it longer, but not so much that it were worth reading whatever there is.
	old, err := io.ReadAll(io.LimitReader(r, int64(2*len(content)+1<<20)))
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(old, content):
		return nil, nil
	case !bytes.HasPrefix(old, []byte(f.marker)):
		return []Flaw{{Kind: Foreign, Path: f.path}}, nil
	}
	return []Flaw{{Kind: Differs, Path: f.path, Line: firstDifference(old, content), Detail: cause(old, content)}}, nil
}

// firstDifference returns the number of the first line in which two different texts differ.
func firstDifference(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return 1 + bytes.Count(a[:n], []byte("\n"))
}

// cause says why a file of ours may differ from what is rendered now.
func cause(old, now []byte) string {
	if was, is := versionIn(old), versionIn(now); was != is {
		return "it is of version " + was + ", and this is " + is
	}
	before, settings, after, found := template.CutSettings(old)
	beforeNow, settingsNow, afterNow, _ := template.CutSettings(now)
	if !found || !bytes.Equal(before, beforeNow) || !bytes.Equal(after, afterNow) {
		return "it was edited"
	}
	names := differentSettings(settings, settingsNow)
	if len(names) == 0 {
		return "its settings were edited"
	}
	return "it was rendered for another policy, or its settings were edited: " + strings.Join(names, ", ")
}

// versionIn returns the version that a rendered file, or our package.json, names.
func versionIn(content []byte) string {
	text, ok := bytes.CutPrefix(content, []byte(template.Marker))
	if !ok {
		text, ok = bytes.CutPrefix(content, []byte(packageMarker+`,"version":"`))
	}
	const version = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-"
	end := bytes.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(version, r) })
	if !ok || end < 1 || end > 50 {
		return "unknown"
	}
	return strings.TrimSuffix(string(text[:end]), ".") // the marker's line is a sentence
}

// differentSettings returns the names, as flags spell them, of the settings that differ.
func differentSettings(old, now []byte) []string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(old, &was) != nil || json.Unmarshal(now, &is) != nil {
		return nil
	}
	var names []string
	for key, value := range is {
		if !bytes.Equal(was[key], value) {
			names = append(names, flagName(key))
		}
	}
	slices.Sort(names)
	return names
}

// flagName turns maxDelay into max-delay.
func flagName(key string) string {
	var b strings.Builder
	for _, r := range key {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Recognize reports whether an entry of a plugin list, or the path of a file, names
// a plugin that mcp-reconnect rendered, in whatever data directory, and where
// it stands. What cannot be read is not recognized.
func Recognize(entry string) (path string, ok bool) {
	path, ok = pathOf(entry, runtime.GOOS == "windows")
	if !ok {
		return "", false
	}
	path = filepath.FromSlash(path)
	if info, err := os.Stat(path); err != nil {
		return "", false
	} else if info.IsDir() {
		path = filepath.Join(path, pluginName)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // a pipe would make us wait
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	start := make([]byte, len(template.Marker))
	if _, err := io.ReadFull(f, start); err != nil || string(start) != template.Marker {
		return "", false
	}
	return path, true
}
