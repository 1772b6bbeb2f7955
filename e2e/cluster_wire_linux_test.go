// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts"
)

// wireFaults lists real faults between real nodes. Each has the only finding that must result.
// advice is the address or interface that the run must have proven to work instead.
var wireFaults = []struct {
	name   string
	nodes  []string // the nodes with the fault
	plant  plant
	args   []string
	want   string
	env    []string
	master string
}{
	{"ranks' ports are dropped", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop(testhosts.Ephemeral)
	}, nil, "fail node-mesh [w3]", nil, ""},
	{"ranks' ports are refused", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Reject(testhosts.Ephemeral)
	}, nil, "fail node-mesh [w3]", nil, ""},
	{"ranks' ports are prohibited", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Prohibit(testhosts.Ephemeral)
	}, nil, "fail node-mesh [w3]", nil, ""},
	{"only ssh passes", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop("1:21", "23:65535")
	}, nil, "fail node-mesh [w3]", nil, ""},
	{"only ssh passes to node 0", []string{"w1"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop("1:21", "23:65535")
	}, nil, "fail node-mesh [w1]", nil, ""},
	{"the master port alone is dropped", []string{"w1"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.Drop("29500")
	}, nil, "fail rendezvous [w1]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, ""},
	{"one direction is dropped", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.DropFrom(n.Peers()[0], testhosts.Ephemeral)
	}, nil, "fail node-mesh [w3]", nil, ""},
	{"a node has no routes", []string{"w3"}, (*testhosts.Node).LoseRoutes, nil, "fail node-mesh [w3]", nil, ""},
	{"a node answers no ARP", []string{"w3"}, (*testhosts.Node).IgnoreARP, nil, "fail node-mesh [w3]", nil, ""},
	{"node 0 answers no ARP", []string{"w1"}, (*testhosts.Node).IgnoreARP, nil, "fail node-mesh [w1]", nil, ""},
	{"docker0 comes first on node 0", []string{"w1"}, (*testhosts.Node).AddDocker0First, nil,
		"fail master-address [w1]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, "--master_addr=10.77.1.1"},
	{"docker0 comes first everywhere", []string{"w1", "w2", "w3", "w4"}, (*testhosts.Node).AddDocker0First, nil,
		"fail master-address [w1]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, "--master_addr=10.77.1.1"},
	{"a dead second network comes first", []string{"w1", "w2", "w3", "w4"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.AddNIC(testhosts.NIC{Name: "tailscale0", Prefix: "10.78.1." + n.Name[1:] + "/16", First: true})
	}, []string{"--master_addr", "10.77.1.1"}, "fail nic-choice [w1 w2 w3 w4]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, ""},
	{"every node names its card differently", []string{"w1", "w2", "w3", "w4"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.RenameNIC("enp" + n.Name[1:] + "s0")
	}, nil, "warn nic-same [w1 w2 w3 w4]", []string{"NCCL_SOCKET_IFNAME=enp"}, ""},
	{"the master's name leads one node elsewhere", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) {
		return n.WrongHosts("w1", "10.77.250.1")
	}, []string{"--master_addr", "w1"}, "fail host-names [w3]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, "--master_addr=10.77.1.1"},
	{"the master's name is another node's", nil, nil, []string{"--master_addr", "w2"},
		"fail master-address [w1]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, "--master_addr=10.77.1.1"},
	{"jumbo frames on one side", []string{"w3"}, func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetMTU(9000) }, nil,
		"warn path-mtu [w3]", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, ""},
	{"a node cannot log in to others, as pdsh need not", []string{"w3"}, (*testhosts.Node).RemovePrivateKey, []string{"--strict"},
		"", []string{"NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"}, ""},
	{"gloo's own name is loopback", []string{"w3"}, (*testhosts.Node).LoopbackHostname, []string{"--accelerator", "cpu"},
		"warn host-names [w3]", []string{"GLOO_SOCKET_IFNAME=eth0"}, ""},
	{"nobody hosts the c10d store", []string{"w1"}, (*testhosts.Node).LoopbackHostname,
		[]string{"--accelerator", "cpu", "--rendezvous", "c10d", "--rdzv-endpoint", "10.77.1.1"}, "fail host-names [w1]", []string{"GLOO_SOCKET_IFNAME=eth0"}, ""},
}

// TestWire runs the real binary on real hosts. preflight must find every fault between the hosts,
// and nothing else, on the right node. It must do so within five seconds after the first
// connection.
func TestWire(t *testing.T) {
	cluster := raise(t, "wire")
	installTorch(t, cluster)
	for _, fault := range wireFaults {
		t.Run(fault.name, func(t *testing.T) {
			for _, name := range fault.nodes {
				plantOn(t, cluster, name, fault.plant)
			}
			// preflight must name the fault within five seconds after the first connection.
			inTime(t, 5*time.Second+slack, func() {
				report := judge(t, cluster, fault.args...)
				want := []string{}
				if fault.want != "" {
					want = []string{fault.want}
				}
				if diff := cmp.Diff(want, short(report.Findings)); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
					for _, f := range report.Findings {
						t.Logf("%s: %s", f.Check, f.Summary)
					}
				}
				if diff := cmp.Diff(fault.env, environment(report.Advice)); diff != "" {
					t.Errorf("advised environment (-want +got):\n%s", diff)
				}
				var args []string
				if fault.master != "" {
					args = []string{fault.master}
				}
				if diff := cmp.Diff(args, append([]string(nil), report.Advice.Args...)); diff != "" {
					t.Errorf("advised arguments (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func environment(advice checks.Advice) (lines []string) {
	for _, env := range advice.Env {
		lines = append(lines, env.Name+"="+env.Value)
	}
	return lines
}

// plantOn causes a fault until the end of the test.
func plantOn(t *testing.T, cluster *testhosts.Cluster, name string, plant plant) {
	t.Helper()
	node, err := cluster.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	undo, err := plant(node)
	if err != nil {
		t.Fatal(err)
	}
	// However this test ends, the next test must find a healthy node.
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
}
