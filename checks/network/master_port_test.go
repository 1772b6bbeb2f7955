// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	"preflight/facts"
)

func TestReserved(t *testing.T) {
	for _, test := range []struct {
		list string
		port int
		want bool
	}{
		{"", 29500, false},
		{"29500", 29500, true},
		{"8080,29500-29510", 29510, true},
		{"8080,29500-29510", 29511, false},
		{"8080,29500-29510", 8080, true},
		{"29501-", 29501, false}, // the kernel never prints such a list
	} {
		if got := reserved(test.list, test.port); got != test.want {
			t.Errorf("reserved(%q, %d) = %v", test.list, test.port, got)
		}
	}
}

func TestFreePort(t *testing.T) {
	net := &facts.Net{EphemeralLow: 32768, EphemeralHigh: 60999}
	for after, want := range map[int]int{29499: 29500, 32767: 61000, 40000: 61000, 65535: 1024, 22: 1025} {
		if got := freePort(net, after); got != want {
			t.Errorf("freePort after %d = %d, want %d", after, got, want)
		}
	}
	net.Listening = []facts.Listener{{Port: 29500}, {Port: 29501}}
	if got := freePort(net, 29499); got != 29502 {
		t.Errorf("freePort past two listeners = %d, want 29502", got)
	}
	full := &facts.Net{EphemeralLow: 1024, EphemeralHigh: 65535}
	if got := freePort(full, 29500); got != 29500 {
		t.Errorf("freePort where every port is handed out = %d, want the port asked about", got)
	}
}
