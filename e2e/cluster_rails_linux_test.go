// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts"
)

// rails returns the interfaces of a node in addition to eth0, one for each of the given networks.
func rails(n *testhosts.Node, networks ...string) (nics []testhosts.NIC) {
	for i, network := range networks {
		nics = append(nics, testhosts.NIC{Name: fmt.Sprintf("rail%d", i), Prefix: fmt.Sprintf("10.79.%d.%s/24", i, n.Name[1:]), Network: network})
	}
	return nics
}

// TestRails uses nodes with two additional interfaces each. NCCL uses these interfaces as RoCE
// ports or with sockets. A fault of one interface must be reported for the right node and rail, and
// the advice must name the interfaces that answered.
func TestRails(t *testing.T) {
	cluster := raise(t, "rails")
	installTorch(t, cluster)
	apart := []string{"leaf0", "leaf1"}
	deaf := func(t *testing.T, n *testhosts.Node) {
		if _, err := n.Run(context.Background(), "ip", "link", "set", "dev", "rail1", "arp", "off"); err != nil {
			t.Fatal(err)
		}
	}
	const gloo = "GLOO_SOCKET_IFNAME=eth0"
	toEth0 := []string{"NCCL_SOCKET_IFNAME=eth0", gloo}
	for _, tt := range []struct {
		name     string
		networks map[string][]string // networks of the interfaces, by node; separate networks by default
		adapters bool
		plant    func(*testing.T, *testhosts.Node) // causes the fault on w3
		env      string                            // contents of /etc/nccl.conf on all nodes
		want     []string
		says     string // text that the summary must contain
		advised  []string
	}{
		{"RoCE, a switch for each rail", nil, true, nil, "", nil, "", append([]string{"NCCL_CROSS_NIC=0"}, toEth0...)},
		{"RoCE, a switch for each rail, and rings that cross", nil, true, nil, "NCCL_CROSS_NIC=1",
			[]string{"fail rail-mesh [w1 w2 w3 w4]"}, "joins rails that cannot reach each other", append([]string{"NCCL_CROSS_NIC=0"}, toEth0...)},
		{"RoCE, a node without ARP on one rail", nil, true, deaf, "",
			[]string{"fail rail-mesh [w3]"}, "neither reaches other nodes nor is reached on rail mlx5_1:1 (rail1): no machine on the rail answers", append([]string{"NCCL_IB_HCA==mlx5_0:1"}, toEth0...)},
		{"RoCE, a node with crossed cables", map[string][]string{"w3": {"leaf1", "leaf0"}}, true, nil, "",
			[]string{"fail rail-mesh [w3]", "fail rail-mesh [w3]"}, "cables or addresses look swapped", toEth0},
		{"sockets", nil, false, nil, "NCCL_SOCKET_IFNAME=eth0,rail", nil, "", []string{"NCCL_SOCKET_IFNAME==eth0,rail0,rail1", gloo}},
		{"sockets, a node without ARP on one rail", nil, false, deaf, "NCCL_SOCKET_IFNAME=eth0,rail",
			[]string{"fail rail-mesh [w3]"}, "neither reaches other nodes nor is reached on rail rail1: no machine on the rail answers", []string{"NCCL_SOCKET_IFNAME==eth0,rail0", gloo}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, node := range cluster.Nodes {
				networks := apart
				if other := tt.networks[node.Name]; other != nil {
					networks = other
				}
				nics := rails(node, networks...)
				for _, nic := range nics {
					plantOn(t, cluster, node.Name, func(n *testhosts.Node) (testhosts.Undo, error) { return n.AddNIC(nic) })
				}
				if tt.adapters {
					plantOn(t, cluster, node.Name, func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetAdapters(nics...) })
				}
				if tt.env != "" {
					plantOn(t, cluster, node.Name, func(n *testhosts.Node) (testhosts.Undo, error) { return n.Configure("/etc/nccl.conf", tt.env+"\n") })
				}
				if tt.plant != nil && node.Name == "w3" {
					tt.plant(t, node)
				}
			}
			report := judge(t, cluster, "--accelerator", "cuda")
			if diff := cmp.Diff(append([]string{}, tt.want...), short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, f := range report.Findings {
				if !strings.Contains(f.Summary, tt.says) {
					t.Errorf("%s %v does not say %q: %s; got %s", f.Check, f.Nodes, tt.says, f.Summary, f.Got)
				}
			}
			if diff := cmp.Diff(tt.advised, environment(report.Advice)); diff != "" {
				t.Errorf("advised (-want +got):\n%s", diff)
			}
		})
	}
}
