package watch

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
)

var (
	errNoTarget = errors.New("a target's URL is http://HOST:PORT or https://HOST:PORT")
	defaultPort = map[string]string{"http": "80", "https": "443"}
)

// ID returns what names a target: its URL in one spelling.
func ID(raw string) (string, error) {
	a, err := parseAddress(raw)
	return a.String(), err
}

// An address is a target's URL in its parts, each in one spelling.
type address struct {
	scheme string
	host   string // a name, or an IP address
	port   string // never empty
	path   string // as it is in a URL, without a slash at its end
}

func parseAddress(raw string) (address, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		u = &url.URL{} // the error repeats the text, perhaps with a password in it
	}
	a := address{scheme: strings.ToLower(u.Scheme), host: oneHost(u.Hostname())}
	ordinary := defaultPort[a.scheme]
	switch {
	case ordinary == "", a.host == "", u.Opaque != "":
		return address{}, errNoTarget
	case u.User != nil:
		return address{}, errors.New("a target's URL holds no credentials: others can read it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return address{}, errors.New("a target's URL has no query and no fragment")
	}
	a.port = ordinary
	if u.Port() != "" {
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || port == 0 {
			return address{}, errNoTarget
		}
		a.port = strconv.FormatUint(port, 10)
	}
	if u.Path != "" {
		a.path = strings.TrimSuffix(path.Clean(u.EscapedPath()), "/")
	}
	return a, nil
}

// oneHost spells a host in one way. The zone of an IPv6 address is the name of a network
// interface, whose case matters.
func oneHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimRight(host, "."))
}

func (a address) String() string {
	if a == (address{}) {
		return ""
	}
	host := a.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.port != defaultPort[a.scheme] {
		host += ":" + a.port
	}
	return (&url.URL{Scheme: a.scheme, Host: host}).String() + a.path
}

// place is the same for two addresses of one server on this machine's loopback, which
// are several targets to nobody.
func (a address) place() string {
	a.host = oneLoopback(a.host)
	return a.String()
}

// oneLoopback spells the usual loopback in one way. To ask the unspecified address is to
// ask it, too. 127.0.0.2 is another one: two servers can have the same port there.
func oneLoopback(host string) string {
	switch host {
	case "127.0.0.1", "::1", "0.0.0.0", "::":
		return "localhost"
	}
	return host
}

// serves reports whether the server that says of itself that it listens at a is the one
// that is known as target: a person may call it by another name than it does.
func (a address) serves(target address) bool {
	if a.port != target.port {
		return false
	}
	if ip, err := netip.ParseAddr(a.host); err == nil && ip.IsUnspecified() {
		return ofThisMachine(oneLoopback(target.host))
	}
	return oneLoopback(a.host) == oneLoopback(target.host)
}

// ofThisMachine reports whether a target is on this machine. To ask the unspecified address
// is to ask it.
func (a address) ofThisMachine() bool { return ofThisMachine(oneLoopback(a.host)) }

// ofThisMachine reports whether a host is an address or a name of this machine.
func ofThisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ofAnInterface(ip)
	}
	name, _ := os.Hostname()
	name = oneHost(name)
	return host == "localhost" || name != "" && (host == name || host == name+".local")
}

func ofAnInterface(ip netip.Addr) bool {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == ip.WithZone("") {
			return true
		}
	}
	return false
}
