// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/launchtest"
)

const (
	noBootstrap = "Bootstrap : no socket interface found"
	noSubnet    = "NET/Socket : No usable listening interface found"
	badCommID   = "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>"
)

// TestNCCL: each group of rows names the source of its rule. Groups marked "seen" were also
// compared with the real library (ncclGetUniqueId of NCCL 2.20.5 and 2.30.7) over random interfaces
// and environments in network namespaces.
func TestNCCL(t *testing.T) {
	plain := launchtest.Net("lo 127.0.0.1/8 ::1/128", "eth0 10.0.0.1/24 fe80::1/64", "eth1 10.1.0.1/24")
	docker := launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24")
	for _, c := range []struct {
		name    string
		net     *facts.Net
		version string
		env     []string
		want    string
	}{
		// The defaults in misc/socket.cc, ncclFindInterfaces (seen).
		{"the first interface", plain, "", nil, "eth0 10.0.0.1"},
		{"not docker", docker, "", nil, "eth0 10.0.0.1"},
		{"ib first", launchtest.Net("lo 127.0.0.1/8", "eth0 10.0.0.1/24", "ib0 10.9.0.1/24"), "", nil, "ib0 10.9.0.1"},
		{"ib with nothing but a link-local address", launchtest.Net("eth0 10.0.0.1/24", "ib0 fe80::2/64"), "", nil, "ib0 fe80::2"},
		{"docker before lo", launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16"), "", nil, "docker0 172.17.0.1"},
		{"lo", launchtest.Net("lo 127.0.0.1/8 ::1/128"), "", nil, "lo 127.0.0.1"},
		{"lo hides all that begins with it", launchtest.Net("lo 127.0.0.1/8", "local0 10.0.0.1/24"), "", nil, "lo 127.0.0.1"},
		{"virbr is avoided", launchtest.Net("virbr0 192.168.122.1/24", "eth0 10.0.0.1/24"), "2.28.3", nil, "eth0 10.0.0.1"},
		{"before 2.28.3 it is not", launchtest.Net("virbr0 192.168.122.1/24", "eth0 10.0.0.1/24"), "2.27.7", nil, "virbr0 192.168.122.1"},
		{"virbr last of all", launchtest.Net("virbr0 192.168.122.1/24", "lo 127.0.0.1/8"), "2.30.7", nil, "lo 127.0.0.1"},
		{"virbr rather than nothing", launchtest.Net("virbr0 192.168.122.1/24"), "2.30.7", nil, "virbr0 192.168.122.1"},
		{"bridges of compose and tunnels are not avoided", launchtest.Net("br-12 172.18.0.1/16", "eth0 10.0.0.1/24"), "", nil, "br-12 172.18.0.1"},
		{"nothing at all", launchtest.Net("eth0", "lo"), "", nil, noBootstrap},

		// The interfaces that are candidates in os/linux.cc, ncclOsFindInterfaces (seen).
		{"all IPv4 before any IPv6", launchtest.Net("eth0 fd00::1/64", "eth1 10.1.0.1/24"), "", nil, "eth1 10.1.0.1"},
		{"an interface's first address", launchtest.Net("eth0 10.0.0.1/24 10.0.0.2/24"), "", nil, "eth0 10.0.0.1"},
		{"by index, not by position", &facts.Net{Interfaces: []facts.Interface{
			{Name: "eth1", Index: 9, Running: true, Addresses: []string{"10.1.0.1/24"}},
			{Name: "eth0", Index: 2, Running: true, Addresses: []string{"10.0.0.1/24"}}}}, "", nil, "eth0 10.0.0.1"},
		{"no carrier", launchtest.Net("~eth0 10.0.0.1/24", "eth1 10.1.0.1/24"), "2.28.3", nil, "eth1 10.1.0.1"},
		{"no carrier, unknown version", launchtest.Net("~eth0 10.0.0.1/24", "eth1 10.1.0.1/24"), "", nil, "eth1 10.1.0.1"},
		{"no carrier before 2.28.3", launchtest.Net("~eth0 10.0.0.1/24", "eth1 10.1.0.1/24"), "2.27.7", nil, "eth0 10.0.0.1"},
		{"down before 2.28.3", launchtest.Net("!eth0 10.0.0.1/24", "eth1 10.1.0.1/24"), "2.20.5+cuda12.4", nil, "eth0 10.0.0.1"},
		{"family 6", plain, "", []string{"NCCL_SOCKET_FAMILY=AF_INET6"}, "eth0 fe80::1"},
		{"family 4", launchtest.Net("ib0 fd00::1/64", "eth0 10.0.0.1/24"), "", []string{"NCCL_SOCKET_FAMILY=AF_INET"}, "eth0 10.0.0.1"},
		{"another family is no family", launchtest.Net("ib0 fd00::1/64", "eth0 10.0.0.1/24"), "", []string{"NCCL_SOCKET_FAMILY=inet"}, "ib0 fd00::1"},
		{"::1 never", launchtest.Net("lo ::1/128"), "", []string{"NCCL_SOCKET_FAMILY=AF_INET6"}, noBootstrap},

		// The value of NCCL_SOCKET_IFNAME (seen). TestMatchIfname covers the grammar.
		{"a prefix", plain, "", []string{"NCCL_SOCKET_IFNAME=eth1"}, "eth1 10.1.0.1"},
		{"several, in the kernel's order", plain, "", []string{"NCCL_SOCKET_IFNAME=eth1,eth0"}, "eth0 10.0.0.1"},
		{"no fallback", plain, "", []string{"NCCL_SOCKET_IFNAME=enp"}, noBootstrap},
		{"lo when asked for", plain, "", []string{"NCCL_SOCKET_IFNAME=lo"}, "lo 127.0.0.1"},
		{"too short to count", docker, "", []string{"NCCL_SOCKET_IFNAME=d"}, "eth0 10.0.0.1"},
		{"no carrier, although named", launchtest.Net("~eth0 10.0.0.1/24"), "2.30.7", []string{"NCCL_SOCKET_IFNAME=eth0"}, noBootstrap},

		// NCCL_COMM_ID in bootstrap.cc, bootstrapNetInit (seen).
		{"in its subnet", plain, "", []string{"NCCL_COMM_ID=10.1.0.7:4000"}, "eth1 10.1.0.1"},
		{"whatever the names say", plain, "", []string{"NCCL_COMM_ID=10.1.0.7:4000", "NCCL_SOCKET_IFNAME=eth0"}, "eth1 10.1.0.1"},
		{"whatever the carrier", launchtest.Net("~eth0 10.0.0.1/24"), "2.30.7", []string{"NCCL_COMM_ID=10.0.0.7:1"}, "eth0 10.0.0.1"},
		{"an interface's second address", launchtest.Net("eth0 10.0.0.1/24 10.5.0.1/24"), "", []string{"NCCL_COMM_ID=10.5.0.9:1"}, "eth0 10.5.0.1"},
		{"IPv6", launchtest.Net("eth0 10.0.0.1/24 fd00::1/64"), "", []string{"NCCL_COMM_ID=[fd00::9]:1"}, "eth0 fd00::1"},
		{"link-local", launchtest.Net("eth0 fe80::1/64", "eth1 fe80::2/64"), "", []string{"NCCL_COMM_ID=[fe80::9%eth1]:1"}, "eth1 fe80::2"},
		{"link-local without an interface", launchtest.Net("eth0 fe80::1/64"), "", []string{"NCCL_COMM_ID=[fe80::9]:1"}, noSubnet},
		{"two characters", plain, "", []string{"NCCL_COMM_ID=w2"}, "eth0 10.0.0.1"},
		{"in no subnet", plain, "", []string{"NCCL_COMM_ID=192.168.0.1:1"}, noSubnet},
		{"a name", plain, "", []string{"NCCL_COMM_ID=w2:4000"}, "eth0 10.0.0.1"},
		{"no port", plain, "", []string{"NCCL_COMM_ID=10.1.0.7"}, "eth1 10.1.0.1"},
		{"a name nobody asked for", plain, "", []string{"NCCL_COMM_ID=w9:4000"}, "?"},
		{"a name without an address", plain, "", []string{"NCCL_COMM_ID=w3:4000"}, badCommID},
		{"empty", plain, "", []string{"NCCL_COMM_ID="}, badCommID},
		{"one character", plain, "", []string{"NCCL_COMM_ID=1"}, badCommID},
		{"no host", plain, "", []string{"NCCL_COMM_ID=:4000"}, badCommID},
		{"no bracket", plain, "", []string{"NCCL_COMM_ID=[fd00::1:4000"}, badCommID},

		// The ring in bootstrap.cc, netGetDevice, since 2.23.4.
		{"a ring over no interface", plain, "", []string{"NCCL_NET=socket", "NCCL_OOB_NET_ENABLE=1", "NCCL_OOB_NET_IFNAME=ib"},
			"no device found matching ib, verify NCCL_OOB_NET_IFNAME"},
		{"a ring over another interface", plain, "", []string{"NCCL_NET=socket", "NCCL_OOB_NET_ENABLE=1", "NCCL_OOB_NET_IFNAME==eth1"}, "eth0 10.0.0.1"},
		{"names of adapters mean nothing here", plain, "", []string{"NCCL_OOB_NET_ENABLE=1", "NCCL_OOB_NET_IFNAME=mlx5"}, "eth0 10.0.0.1"},
		{"not enabled", plain, "", []string{"NCCL_NET=Socket", "NCCL_OOB_NET_IFNAME=ib"}, "eth0 10.0.0.1"},
		{"before there was one", plain, "2.22.3", []string{"NCCL_NET=Socket", "NCCL_OOB_NET_ENABLE=1", "NCCL_OOB_NET_IFNAME=ib"}, "eth0 10.0.0.1"},
	} {
		node := launchtest.Node(c.net, launchtest.Names("w1 10.0.0.1", "w2 10.0.0.2 10.1.0.2", "w3"), c.env...)
		node.Python = &facts.Python{NCCL: []facts.NCCLLibrary{{Version: c.version}}}
		if diff := cmp.Diff(c.want, place(Bootstrap(launch.Prediction{}, node))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestNCCLSockets follows NVIDIA/nccl 2.30.7: misc/socket.cc, ncclFindInterfaces, and
// transport/net_socket.cc.
func TestNCCLSockets(t *testing.T) {
	var many, first16 []string
	for i := range 18 {
		many = append(many, fmt.Sprintf("eth%d 10.0.%d.1/24", i, i))
		if i < 16 {
			first16 = append(first16, fmt.Sprintf("eth%d 10.0.%d.1", i, i))
		}
	}
	two := launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24 fd00::1/64", "cni0 10.244.0.1/24")
	for _, c := range []struct {
		name string
		net  *facts.Net
		env  []string
		want []string
	}{
		{"all of the first default that finds any", two, nil, []string{"eth0 10.0.0.1", "cni0 10.244.0.1"}},
		{"all that are selected", two, []string{"NCCL_SOCKET_IFNAME=eth,docker"}, []string{"docker0 172.17.0.1", "eth0 10.0.0.1"}},
		{"only ib", launchtest.Net("eth0 10.0.0.1/24", "ib0 10.1.0.1/24", "ib1 10.2.0.1/24"), nil, []string{"ib0 10.1.0.1", "ib1 10.2.0.1"}},
		{"one in the subnet of NCCL_COMM_ID", two, []string{"NCCL_COMM_ID=10.244.0.9:1"}, []string{"cni0 10.244.0.1"}},
		{"none in it", two, []string{"NCCL_COMM_ID=10.99.0.9:1"}, []string{"eth0 10.0.0.1", "cni0 10.244.0.1"}},
		{"ib counts for more", launchtest.Net("ib0 10.0.0.1/24", "eth0 10.1.0.1/24"), []string{"NCCL_COMM_ID=10.1.0.9:1"}, []string{"ib0 10.0.0.1"}},
		{"names count for more", two, []string{"NCCL_COMM_ID=10.244.0.9:1", "NCCL_SOCKET_IFNAME=eth0"}, []string{"eth0 10.0.0.1"}},
		{"sixteen", launchtest.Net(many...), nil, first16},
		{"none", two, []string{"NCCL_SOCKET_IFNAME=enp"}, []string{"NET/Socket : no interface found"}},
	} {
		if diff := cmp.Diff(c.want, places(Sockets(launch.Prediction{}, launchtest.Node(c.net, nil, c.env...)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestNCCLCandidates(t *testing.T) {
	node := launchtest.Node(launchtest.Net("lo 127.0.0.1/8 ::1/128", "~eth0 10.0.0.1/24", "eth1 10.1.0.1/24 fd00::1/64", "eth2"), nil, "NCCL_SOCKET_IFNAME=eth0")
	if diff := cmp.Diff([]string{"lo 127.0.0.1", "eth1 10.1.0.1"}, places(Candidates(launch.Prediction{}, node))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNCCLWithoutNet(t *testing.T) {
	node := &facts.Node{Name: "w1"}
	if got := place(Bootstrap(launch.Prediction{}, node)); got != "?" {
		t.Errorf("NCCL: %s", got)
	}
	if diff := cmp.Diff([]string{"?"}, places(Sockets(launch.Prediction{}, node))); diff != "" {
		t.Errorf("NCCLSockets: (-want +got)\n%s", diff)
	}
	if got := Candidates((launch.Prediction{}), node); got != nil {
		t.Errorf("NCCLCandidates: %v", got)
	}
}

func TestNCCLWithoutNames(t *testing.T) {
	node := launchtest.Node(launchtest.Net("eth0 10.0.0.1/24"), nil, "NCCL_COMM_ID=w2:4000")
	if got := place(Bootstrap(launch.Prediction{}, node)); got != "?" {
		t.Errorf("%s", got)
	}
}

func TestChoiceRule(t *testing.T) {
	exports := launchtest.Env("environment", "NCCL_SOCKET_IFNAME=eth0")
	session := launchtest.Node(launchtest.Net("eth0 10.0.0.1/24"), nil, "NCCL_SOCKET_IFNAME=eth")
	file := launchtest.Node(launchtest.Net("eth0 10.0.0.1/24"), nil)
	file.Env.NCCL = launchtest.Env("/etc/nccl.conf", "NCCL_SOCKET_IFNAME==eth0")
	for _, c := range []struct {
		p    launch.Prediction
		node *facts.Node
		want string
	}{
		{launch.Prediction{}, session, "NCCL_SOCKET_IFNAME=eth from the ssh session's environment"},
		{launch.Prediction{Exports: exports}, session, "NCCL_SOCKET_IFNAME=eth0 from the launching machine's environment"},
		{launch.Prediction{}, file, "NCCL_SOCKET_IFNAME==eth0 from /etc/nccl.conf"},
		{launch.Prediction{}, launchtest.Node(launchtest.Net("docker0 172.17.0.1/16"), nil), "NCCL's default: there is only docker…"},
		{launch.Prediction{}, launchtest.Node(launchtest.Net("ib0 10.0.0.1/16"), nil), "NCCL's default: interfaces named ib… come first"},
		{launch.Prediction{}, launchtest.Node(launchtest.Net("eth0 10.0.0.1/16"), nil), "NCCL's default: all but docker…, lo…, virbr…"},
	} {
		if diff := cmp.Diff(c.want, Bootstrap(c.p, c.node).Rule); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestOldKernelOrder follows inet_dump_ifaddr of Linux 6.8. It checks the first address of a node
// whose interfaces have the indexes 2, 45, 258 and 300.
func TestOldKernelOrder(t *testing.T) {
	net := launchtest.Net("br-2 10.0.1.44/24", "eth0 10.0.0.2/24", "br-1 10.0.1.2/24", "eth1 10.0.0.45/24")
	for i, index := range []int{300, 2, 258, 45} {
		net.Interfaces[i].Index = index
	}
	old := []string{"br-1 10.0.1.2", "eth0 10.0.0.2", "br-2 10.0.1.44", "eth1 10.0.0.45"}
	straight := []string{"eth0 10.0.0.2", "eth1 10.0.0.45", "br-1 10.0.1.2", "br-2 10.0.1.44"}
	for kernel, want := range map[string][]string{
		"5.15.0-91-generic": old, "5.14.0-362.8.1.el9_3.x86_64": old, "6.8.0-31-generic": old,
		"6.9.0": straight, "6.18.44-fc-v657": straight, "": straight,
	} {
		node := launchtest.Node(net, nil)
		node.Host = &facts.Host{Kernel: kernel}
		if diff := cmp.Diff(want, places(Candidates(launch.Prediction{}, node))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", kernel, diff)
		}
	}
}

func TestRankAddress(t *testing.T) {
	node := launchtest.Node(launchtest.Net("lo 127.0.0.1/8", "eth0 10.0.0.1/24"), launchtest.Names("w1 127.0.1.1"))
	for accelerator, want := range map[string]string{"cuda": "eth0 10.0.0.1", "": "eth0 10.0.0.1", "cpu": "lo 127.0.1.1"} {
		if got := place(RankAddress(launch.Prediction{Accelerator: accelerator}, node)); got != want {
			t.Errorf("%q: %s, want %s", accelerator, got, want)
		}
	}
}

func BenchmarkNCCL(b *testing.B) {
	var pairs []string
	for i := range 40 {
		pairs = append(pairs, fmt.Sprintf("NCCL_%d=1", i))
	}
	node := launchtest.Node(launchtest.Net("lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24", "eth1 10.1.0.1/24"), nil, pairs...)
	for b.Loop() {
		if !strings.HasPrefix(place(Bootstrap(launch.Prediction{}, node)), "eth0") {
			b.Fatal("not eth0")
		}
	}
}

// place returns the interface and address of a choice, or its error.
func place(c Choice) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.Address == "":
		return "?"
	}
	return c.Interface + " " + c.Address
}

func places(choices []Choice) []string {
	var all []string
	for _, c := range choices {
		all = append(all, place(c))
	}
	return all
}

// TestGloo follows pytorch/pytorch 2.7, ProcessGroupGloo.cpp and GlooDeviceFactory.cpp, and
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
		// GLOO_SOCKET_IFNAME in lookupAddrForIface.
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

		// The node's own name in createDefaultDevice and lookupAddrForHostname.
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
		if diff := cmp.Diff(c.want, place(Gloo(launch.Prediction{}, launchtest.Node(net, c.names, c.env...)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
	if got := place(Gloo(launch.Prediction{}, launchtest.Node(launchtest.Net("eth0 10.0.0.1/24", "lo 127.0.0.1/8"), own))); got != "eth0 10.0.0.1" {
		t.Errorf("the very first address: %s", got)
	}
	if got := place(Gloo(launch.Prediction{}, launchtest.Node(nil, own))); got != "?" {
		t.Errorf("without interfaces: %s", got)
	}
	fallback := Gloo(launch.Prediction{}, launchtest.Node(net, launchtest.Names("w1 203.0.113.5")))
	if !strings.Contains(fallback.Rule, "gloo falls back to the loopback") {
		t.Errorf("rule of the fallback: %s", fallback.Rule)
	}
}
