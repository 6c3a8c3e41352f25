//go:build linux

package watch

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestDialsEnd: one that nobody answers does not go on for as long as the system would,
// which is two minutes.
func TestDialsEnd(t *testing.T) {
	// What listens has room for one connection, and takes no packet for another one.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))

	o := Options{Policy: steady()}
	o.Policy.ConnectTimeout = 100 * time.Millisecond
	w := newWatcher(o, time.Now)
	defer w.Close()
	begun := time.Now()
	for {
		c, err := w.own.DialContext(t.Context(), "tcp", address)
		if err == nil {
			defer c.Close()
			continue
		}
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() || time.Since(begun) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		return
	}
}
