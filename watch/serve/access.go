package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// An access decides who may ask.
type access struct {
	token   string
	cookie  http.Cookie     // what a browser gets for the token
	origins map[string]bool // of pages that may read besides our own
	hosts   map[string]bool // names of this server besides its addresses and the machine's name
}

func newAccess(o Options) (*access, error) {
	a := &access{token: o.Token, origins: map[string]bool{}, hosts: map[string]bool{"localhost": true}}
	if o.Token != "" {
		if !regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,}$`).MatchString(o.Token) {
			return nil, errors.New("a token has at least 16 characters, which are letters, digits and . _ ~ + / = -")
		}
		// Browsers send a cookie to every port of a host. So other servers there get
		// neither the token nor, where they are a watch too, a cookie of the same name.
		a.cookie = http.Cookie{
			Name:     "mcp-reconnect-" + derive(o.Token, "name")[:8],
			Value:    derive(o.Token, "value"),
			Path:     "/",
			HttpOnly: true,
			// Strict would leave it out where a link elsewhere led to the page.
			SameSite: http.SameSiteLaxMode,
		}
	}
	for _, text := range o.Origins {
		origin, err := parseOrigin(text)
		if err != nil {
			return nil, err
		}
		a.origins[origin] = true
		_, host, _ := strings.Cut(origin, "://")
		a.hosts[hostName(host)] = true // that of a proxy before this server, perhaps
	}
	for _, host := range o.Hosts {
		a.hosts[hostName(host)] = true
	}
	return a, nil
}

// derive returns a secret that does not tell the token, for one purpose.
func derive(token, purpose string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil))
}

// parseOrigin returns an origin as browsers write it. Desktop applications have schemes
// of their own.
func parseOrigin(text string) (string, error) {
	origin := strings.ToLower(text)
	parts := regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`).FindStringSubmatch(origin)
	if parts == nil {
		return "", fmt.Errorf("%q is no origin such as http://localhost:3000", text)
	}
	if scheme, port := parts[1], parts[3]; scheme == "http" && port == ":80" || scheme == "https" && port == ":443" {
		origin = strings.TrimSuffix(origin, port)
	}
	return origin, nil
}

// hostName is the name in a Host header, in one spelling.
func hostName(host string) string {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
}

// knows reports whether a Host header names this server. A page elsewhere whose name was
// made to lead here would read everything as its own. It cannot do so with an address,
// nor has it a token: where one is needed, any name will do.
func (a *access) knows(host string) bool {
	name := hostName(host)
	machine, err := os.Hostname() // anew, as it changes with the network of some machines
	return a.token != "" || a.hosts[name] || net.ParseIP(name) != nil || err == nil && name == hostName(machine)
}

// trusts reports whether the page that a request comes from may make it. A browser says
// which page that is, and no page can change what it says. Other programs say nothing,
// and are no danger: what they ask is what somebody here had them ask.
func (a *access) trusts(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if a.origins[origin] {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // our own page, by whatever name a proxy calls this server; or a person
		return true
	case "": // no browser, an old one, or one that asks without TLS
		return origin == "" || sameHost(origin, r.Host)
	default: // a page elsewhere, which may lead to ours: it learns nothing from that
		return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
}

// sameHost leaves the scheme out: behind a proxy with TLS it is another one here.
func sameHost(origin, host string) bool {
	_, its, _ := strings.Cut(origin, "://")
	return strings.EqualFold(its, host)
}

// admits reports whether a request has the token, or the cookie that a browser gets for it.
func (a *access) admits(r *http.Request) bool {
	if a.token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && equal(token, a.token) {
		return true
	}
	if cookie, err := r.Cookie(a.cookie.Name); err == nil && equal(cookie.Value, a.cookie.Value) {
		return true
	}
	return a.tokenInAddress(r)
}

// tokenInAddress is for browsers: neither a person nor an EventSource can send a header.
func (a *access) tokenInAddress(r *http.Request) bool {
	return a.token != "" && equal(r.URL.Query().Get("token"), a.token)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// setCookie lets a browser in from now on.
func (a *access) setCookie(w http.ResponseWriter, r *http.Request) {
	cookie := a.cookie
	cookie.Secure = r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	http.SetCookie(w, &cookie)
}
