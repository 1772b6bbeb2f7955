package launch

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	badPort = "ValueError: The port number of the rendezvous endpoint '%s' must be an integer between 0 and 65536"
	badHost = "ValueError: The hostname of the rendezvous endpoint '%s' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address"
)

// pytorch/pytorch, parse_rendezvous_endpoint; every row was given to that of 2.15.
func TestParseEndpoint(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		want     string // host and port, or the error
	}{
		{"", "localhost 29400"},
		{"  ", "localhost 29400"},
		{"w1", "w1 29400"},
		{" w1:29500\n", "w1 29500"},
		{"w1.cluster:0", "w1.cluster 0"},
		{"10.0.0.1:65535", "10.0.0.1 65535"},
		{"10.0.0.1:65536", badPort},
		{"w1:", badPort},
		{"w1:x", badPort},
		{"w1:+1", badPort},
		{"w1:123456", badPort},
		{"w1:000001", badPort},
		{"w1:00001", "w1 1"},
		{"[fd00::1]", "fd00::1 29400"},
		{"[fd00::1]:29500", "fd00::1 29500"},
		{"fd00::1", "fd00: 1"}, // the trap of a missing bracket
		{"fd00::1:29500", "fd00::1 29500"},
		{"fd00::", badPort},
		{"[]", badHost},
		{"[w1", badHost},
		{":29500", badHost},
		{"user@w1:29500", badHost},
		{"fe80::1%eth0:29500", badHost},
		{"w_1-a:29500", "w_1-a 29500"},
		{"wö:29500", "wö 29500"},
		{"w 1:29500", badHost},
	} {
		got := ""
		host, port, err := ParseEndpoint(c.endpoint, 29400)
		if got = fmt.Sprintf("%s %d", host, port); err != nil {
			got = err.Error()
		}
		want := c.want
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, strings.TrimSpace(c.endpoint))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", c.endpoint, diff)
		}
	}
}

// What is accepted has a host of the allowed characters and a port in range, and
// reads the same when it is written in full.
func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"", "w1", "w1:29500", "[fd00::1]:1", "[fd00::1]", "fd00::1", "a:b:c", "[[a]]", "w1:65536", ":1", "[", "]:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		host, port, err := ParseEndpoint(endpoint, 29400)
		if err != nil {
			return
		}
		if host == "" || port < 0 || port > 65535 || strings.ContainsAny(host, "[]@%/ \t\n") {
			t.Fatalf("%q: %q, %d", endpoint, host, port)
		}
		full := fmt.Sprintf("%s:%d", host, port)
		if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
			full = fmt.Sprintf("[%s]:%d", host, port)
		}
		if again, samePort, err := ParseEndpoint(full, 0); err != nil || again != host || samePort != port {
			t.Fatalf("%q: %q, %d; again by %q: %q, %d, %v", endpoint, host, port, full, again, samePort, err)
		}
	})
}
