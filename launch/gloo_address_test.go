package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch/launchtest"
)

// pytorch/pytorch 2.7, ProcessGroupGloo.cpp and GlooDeviceFactory.cpp;
// facebookincubator/gloo of May 2025, transport/tcp/device.cc.
func TestGloo(t *testing.T) {
	net := launchtest.Net("lo 127.0.0.1/8 ::1/128", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24 fd00::1/64", "!eth1 10.1.0.1/24", "ib0 fe80::2/64", "eth2")
	own := launchtest.Names("w1 10.0.0.1")
	for _, c := range []struct {
		name  string
		names *facts.Names
		env   []string
		want  string
	}{
		// lookupAddrForIface
		{"exactly named", own, []string{"GLOO_SOCKET_IFNAME=docker0"}, "docker0 172.17.0.1"},
		{"a prefix is no name", own, []string{"GLOO_SOCKET_IFNAME=eth"}, "Unable to find address for: eth"},
		{"NCCL's marks mean nothing", own, []string{"GLOO_SOCKET_IFNAME=^docker0"}, "Unable to find address for: ^docker0"},
		{"the first of a list", own, []string{"GLOO_SOCKET_IFNAME=eth0,docker0"}, "eth0 10.0.0.1"},
		{"all of a list must exist", own, []string{"GLOO_SOCKET_IFNAME=eth0,eth9"}, "Unable to find address for: eth9"},
		{"an empty name is none", own, []string{"GLOO_SOCKET_IFNAME=eth0,,docker0"}, "makeTCPDevice(): interface or hostname can't be empty"},
		{"a last comma is nothing", own, []string{"GLOO_SOCKET_IFNAME=eth0,"}, "eth0 10.0.0.1"},
		{"down", own, []string{"GLOO_SOCKET_IFNAME=eth1"}, "eth1 10.1.0.1"},
		{"IPv6 where there is nothing else", own, []string{"GLOO_SOCKET_IFNAME=ib0"}, "ib0 fe80::2"},
		{"no address", own, []string{"GLOO_SOCKET_IFNAME=eth2"}, "Unable to find address for: eth2"},
		{"two characters are not", own, []string{"GLOO_SOCKET_IFNAME=ib"}, "Unable to find address for: ib"},
		{"one character is unset", own, []string{"GLOO_SOCKET_IFNAME=x"}, "eth0 10.0.0.1"},

		// createDefaultDevice, lookupAddrForHostname
		{"by name", own, nil, "eth0 10.0.0.1"},
		{"IPv6 by name", launchtest.Names("w1 fd00::1"), nil, "eth0 fd00::1"},
		{"Debian's line", launchtest.Names("w1 127.0.1.1"), nil, "lo 127.0.1.1"},
		{"the first that can be bound", launchtest.Names("w1 203.0.113.5 127.0.0.1 10.0.0.1"), nil, "lo 127.0.0.1"},
		{"IPv6 loopback", launchtest.Names("w1 ::1"), nil, "lo ::1"},
		{"a mapped address", launchtest.Names("w1 ::ffff:10.0.0.1"), nil, "eth0 10.0.0.1"},
		{"with a zone", launchtest.Names("w1 fe80::2%ib0"), nil, "ib0 fe80::2"},
		{"nothing of this node", launchtest.Names("w1 203.0.113.5"), nil, "lo 127.0.0.1"},
		{"nothing at all", launchtest.Names("w1"), nil, "lo 127.0.0.1"},
		{"names not seen", nil, nil, "?"},
		{"no answer in time", &facts.Names{Own: "w1", Lookups: []facts.Lookup{{Name: "w1", Unanswered: true}}}, nil, "?"},
	} {
		if diff := cmp.Diff(c.want, place(Gloo(Prediction{}, launchtest.Node(net, c.names, c.env...)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
	if got := place(Gloo(Prediction{}, launchtest.Node(launchtest.Net("eth0 10.0.0.1/24", "lo 127.0.0.1/8"), own))); got != "eth0 10.0.0.1" {
		t.Errorf("the very first address: %s", got)
	}
	if got := place(Gloo(Prediction{}, launchtest.Node(nil, own))); got != "?" {
		t.Errorf("without interfaces: %s", got)
	}
	fallback := Gloo(Prediction{}, launchtest.Node(net, launchtest.Names("w1 203.0.113.5")))
	if !strings.Contains(fallback.Rule, "gloo falls back to the loopback") {
		t.Errorf("rule of the fallback: %s", fallback.Rule)
	}
}
