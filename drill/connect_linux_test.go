// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"preflight/drill/outcome"
	"preflight/facts"
)

// takesNoCall returns a port on which no call is answered, because the listener's queue is full.
func takesNoCall(t *testing.T) (port int) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := errors.Join(unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(socket, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	port = name.(*unix.SockaddrInet4).Port
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return port
}

// TestHurriedCall checks a call that ended before the kernel would have resent a lost packet. Such
// a call must say nothing about the silent peer.
func TestHurriedCall(t *testing.T) {
	port := takesNoCall(t)
	for _, tt := range []struct {
		time    time.Duration
		outcome facts.PathOutcome
	}{
		{leastTime / 10, facts.PathUntried},
		{leastTime + 100*time.Millisecond, facts.PathDropped},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tt.time)
		defer cancel()
		_, err := callFirst(ctx, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, port)
		if got := outcome.Of(err); got != tt.outcome {
			t.Errorf("within %v: %v, which is %q, want %q", tt.time, err, got, tt.outcome)
		}
	}
}
