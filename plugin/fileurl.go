package plugin

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"runtime"
	"strings"
	"unicode/utf8"
)

// FileURL returns the file: URL of an absolute path on this system, byte for
// byte what Node's pathToFileURL(path).href gives. OpenCode compares and loads
// plugins by that spelling, so a merely equivalent URL will not do.
func FileURL(name string) (string, error) { return fileURL(name, runtime.GOOS == "windows") }

// fileURL is FileURL for either family of systems: both are tested on each.
func fileURL(name string, windows bool) (string, error) {
	if !utf8.ValidString(name) {
		return "", fmt.Errorf("the path %q is not valid UTF-8", name)
	}
	if !windows {
		if !strings.HasPrefix(name, "/") {
			return "", fmt.Errorf("the path %q is not absolute", name)
		}
		return "file://" + escapePath(cleanKeepingSlash(name)), nil
	}
	name = strings.ReplaceAll(name, `\`, "/")
	if host, rest, ok := cutUNC(name); ok {
		// Node writes other hosts in other ways, or not at all: 127.1 as 127.0.0.1.
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.$"
		if strings.Trim(host, plain) != "" || strings.Trim(host, "0123456789.") == "" && !isIPv4(host) || strings.EqualFold(host, "localhost") {
			return "", fmt.Errorf("the path %q is on a host whose name a file: URL cannot carry", name)
		}
		return "file://" + strings.ToLower(host) + escapePath(cleanKeepingSlash(rest)), nil
	}
	if len(name) < 3 || name[1] != ':' || name[2] != '/' || !isLetter(name[0]) {
		return "", fmt.Errorf("the path %q is not absolute", name)
	}
	return "file:///" + name[:2] + escapePath(cleanKeepingSlash(name[2:])), nil
}

// cutUNC splits //host/share/… into the host and the rest, which starts with a slash.
func cutUNC(name string) (host, rest string, ok bool) {
	unc, ok := strings.CutPrefix(name, "//")
	if !ok {
		return "", "", false
	}
	host, rest, ok = strings.Cut(unc, "/")
	return host, "/" + rest, ok && host != "" && host != "?" && host != "."
}

func isIPv4(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4()
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// cleanKeepingSlash resolves dots and repeated slashes as Node's path.resolve
// does; pathToFileURL gives a trailing slash back.
func cleanKeepingSlash(name string) string {
	clean := path.Clean(name)
	if strings.HasSuffix(name, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// escapePath percent-encodes what Node's pathToFileURL encodes: everything but
// letters, digits and this punctuation (measured; testdata/fileurls.json).
func escapePath(name string) string {
	const plain = "/!$&'()*+,-.:;=@_"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if isLetter(c) || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// pathOf returns the path that a plugin list's entry names: a file: URL in any
// spelling, or an absolute path without one. It is lenient where URL parsers
// are, so that no spelling of our own entry is taken for somebody else's.
func pathOf(entry string, windows bool) (string, bool) {
	name := entry
	if len(entry) >= 5 && strings.EqualFold(entry[:5], "file:") {
		name, _, _ = strings.Cut(entry[5:], "#")
		name, _, _ = strings.Cut(name, "?")
		name = unescapePath(name)
		if windows {
			name = strings.ReplaceAll(name, `\`, "/")
		}
		if authority, ok := strings.CutPrefix(name, "//"); ok {
			host, rest, _ := strings.Cut(authority, "/")
			switch {
			case host == "" || strings.EqualFold(host, "localhost"):
				name = "/" + rest
			case !windows:
				return "", false
			}
		}
		if windows && len(name) > 3 && name[0] == '/' && name[2] == ':' {
			name = name[1:] // file:///C:/x
		}
	}
	if windows {
		name = strings.ReplaceAll(name, `\`, "/")
		absolute := strings.HasPrefix(name, "//") || len(name) > 2 && name[1] == ':' && name[2] == '/'
		if !absolute {
			return "", false
		}
		unc := strings.HasPrefix(name, "//")
		name = strings.ToLower(path.Clean(name)) // Windows compares names without case
		if unc {
			name = "/" + name
		}
		return name, true
	}
	if !strings.HasPrefix(name, "/") {
		return "", false
	}
	return path.Clean(name), true
}

// unescapePath decodes percent-encoding and leaves what is not valid as it is, as URL parsers do.
func unescapePath(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+3 <= len(s) && s[i] == '%' {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
