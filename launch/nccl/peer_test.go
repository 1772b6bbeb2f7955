// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/launchtest"
)

func TestPeerAddress(t *testing.T) {
	net := launchtest.Net("lo 127.0.0.1/8 10.9.9.9/32", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24 192.168.0.1/24 fd00::1/64", "eth1 10.1.0.1/24 fe80::1/64")
	way := func(name, source string) facts.Route { return facts.Route{Interface: name, Source: source} }
	for _, c := range []struct {
		name    string
		address string
		routes  []facts.Route
		want    string
	}{
		{"reached there", "10.1.0.1", []facts.Route{way("eth0", "10.0.0.1")}, "eth1 10.1.0.1"},
		{"an interface's second address", "192.168.0.1", nil, "eth0 192.168.0.1"},
		{"IPv6", "fd00::1", nil, "eth0 fd00::1"},
		{"link-local", "fe80::1%eth1", nil, "eth1 fe80::1"},
		{"mapped", "::ffff:10.1.0.1", nil, "eth1 10.1.0.1"},
		{"translated", "203.0.113.5", []facts.Route{way("lo", "10.0.0.1"), way("eth0", "192.168.0.1"), {Error: "no route"}, way("eth0", "192.168.0.1")}, "eth0 192.168.0.1"},
		{"routes of several sources", "203.0.113.5", []facts.Route{way("eth0", "192.168.0.1"), way("eth0", "10.0.0.1")}, "eth0 10.0.0.1"},
		{"routes that name no source", "203.0.113.5", []facts.Route{way("eth1", "")}, "eth1 10.1.0.1"},
		{"routes by IPv6", "203.0.113.5", []facts.Route{way("eth0", "fd00::1")}, "eth0 fd00::1"},
		{"the launching machine", "127.0.0.1", []facts.Route{way("lo", "127.0.0.1"), way("eth0", "10.0.0.1")}, "eth0 10.0.0.1"},
		{"an address that a loopback holds", "10.9.9.9", []facts.Route{way("eth0", "10.0.0.1")}, "eth0 10.0.0.1"},
		{"several ways", "203.0.113.5", []facts.Route{way("eth0", "10.0.0.1"), way("eth1", "10.1.0.1")}, "?"},
		{"no way", "203.0.113.5", []facts.Route{way("lo", "10.0.0.1")}, "?"},
		{"not reached", "", nil, "?"},
		{"a way without an address", "", []facts.Route{way("eth7", "")}, "?"},
	} {
		node := launchtest.Node(net, nil)
		node.Address = c.address
		node.Net.Routes = c.routes
		if diff := cmp.Diff(c.want, place(PeerAddress(node))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
	if got := place(PeerAddress(&facts.Node{Address: "10.0.0.1"})); got != "?" {
		t.Errorf("without interfaces: %s", got)
	}
}
