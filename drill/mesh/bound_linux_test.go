// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"preflight/facts"
)

// TestBound checks a listener that is bound to one interface. It must not get calls that arrive on
// another interface. The kernel treats a machine's calls to itself as arriving on the interface
// that has the address.
func TestBound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a network namespace needs root")
	}
	runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	adapter := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "rail0"}, PeerName: "leaf0"}
	address, _ := netlink.ParseAddr("192.0.2.1/24")
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{netlink.LinkAdd(adapter), netlink.AddrAdd(adapter, address), netlink.LinkSetUp(adapter), netlink.LinkSetUp(lo)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name    string
		heard   string // the interface on which the call arrived
		by, own string // the caller's interface and address
		want    facts.PathOutcome
	}{
		{"by any", "", "", "", ""},
		{"by the one that holds it", "rail0", "", "", ""},
		{"by another one", "lo", "", "", facts.PathRefused},
		{"from its own address by its own interface", "rail0", "rail0", "192.0.2.1", ""},
		{"by one that is not there", "", "rail9", "", facts.PathBroken},
		{"from an address of nobody", "", "", "192.0.2.9", facts.PathBroken},
	} {
		listener, err := Open(Listen{Token: "token", Node: "w2", Addresses: []string{"192.0.2.1"}, Bound: map[string]string{"192.0.2.1": tt.heard}})
		if err != nil || listener.Listening()[0].Error != "" {
			t.Fatal(err, listener.Listening())
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() { listener.Serve(ctx); close(served) }()
		seen := Calls{
			Token: "token", Node: "w1", Peers: []Peer{{Name: "w2", Address: "192.0.2.1", Ports: listener.Listening()[0].Ports}},
			Deadline: callsTime, Interface: tt.by, From: tt.own,
		}.Run(ctx)
		cancel()
		<-served
		got := facts.PathOutcome("")
		if len(seen.Failed) > 0 {
			got = seen.Failed[0].Outcome
		}
		if got != tt.want || tt.want == "" && len(seen.Reached) != 1 {
			t.Errorf("%s: %q, want %q: %+v", tt.name, got, tt.want, seen)
		}
	}
}
