//go:build !linux

package check

import (
	"net"
	"strconv"
)

// dial connects to a port on loopback.
func dial(port int) (net.Conn, error) {
	return net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
