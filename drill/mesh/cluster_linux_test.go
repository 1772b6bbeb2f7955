// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts"
)

// asNode is the variable that makes the test binary run the mesh on a node of a cluster.
const asNode = "MESH_AS_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) == "" {
		os.Exit(m.Run())
	}
	if err := beNode(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beNode carries out orders until there are no more. A listener reports where it listens, and
// callers report their results.
func beNode(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var order struct {
			Listen *Listen
			Calls  *Calls
			CPU    bool
		}
		if err := orders.Decode(&order); err != nil {
			return nil // no process is left to receive the answer
		}
		var answer any
		switch {
		case order.Listen != nil:
			listener, err := Open(*order.Listen)
			if err != nil {
				return err
			}
			go listener.Serve(ctx)
			answer = listener.Listening()
		case order.Calls != nil:
			answer = order.Calls.Run(ctx)
		case order.CPU:
			answer = cpu()
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

// order returns a function that makes a node carry out orders in a separate process. The process
// ends with the test.
func order(t *testing.T, node *testhosts.Node) func(order, answer any) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := node.Command(t.Context(), self)
	cmd.Env = append(cmd.Env, asNode+"=1")
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	orders, answers := json.NewEncoder(in), json.NewDecoder(out)
	return func(order, answer any) {
		if err := orders.Encode(order); err != nil {
			t.Errorf("%s: %v", node.Name, err)
		}
		if err := answers.Decode(answer); err != nil {
			t.Errorf("%s: %v", node.Name, err)
		}
	}
}

// three returns the options for three real nodes that can run this test binary.
func three(t *testing.T) testhosts.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return testhosts.Options{Name: "mesh", Nodes: 3, Share: []string{filepath.Dir(self)}}
}

// run plants a fault with a command on a node.
func run(argv string, undo string) func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) {
	return func(ctx context.Context, c *testhosts.Cluster) (testhosts.Undo, error) {
		if _, err := c.Nodes[1].Run(ctx, strings.Fields(argv)...); err != nil {
			return nil, err
		}
		return func() error {
			_, err := c.Nodes[1].Run(context.Background(), strings.Fields(undo)...)
			return err
		}, nil
	}
}

// iptables inserts a rule at the head of one of w2's chains.
func iptables(rule string) func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) {
	return run("iptables -w -I "+rule, "iptables -w -D "+rule)
}

// TestFaultsOfTheNetwork plants real network faults on w2 of three nodes. It checks which node
// reports what about which other node. A node that a case does not mention must reach all others.
func TestFaultsOfTheNetwork(t *testing.T) { testhosts.InParts(t, three(t), faultsOfTheNetwork) }

func faultsOfTheNetwork(t *testing.T, cluster *testhosts.Cluster, mine func(row int) bool) {
	w2 := cluster.Nodes[1]
	// Many callers of a real node get more than one "unreachable" per second, so this removes
	// the rate limit.
	for _, node := range cluster.Nodes {
		if _, err := node.Run(t.Context(), "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0"); err != nil {
			t.Fatal(err)
		}
	}
	toW2 := func(what string) []string { return []string{"w1 to w2: " + what, "w3 to w2: " + what} }
	both := func(to, from string) []string {
		return []string{"w1 to w2: " + to, "w2 to w1: " + from, "w2 to w3: " + from, "w3 to w2: " + to}
	}
	tests := []struct {
		name  string
		plant func(context.Context, *testhosts.Cluster) (testhosts.Undo, error)
		want  []string
	}{
		{"none", nil, nil},
		{"a firewall without a memory drops all but ssh", iptables("INPUT -i eth0 -p tcp --dport 1024:65535 -j DROP"),
			both("dropped, ports 0 open 2 shut, ssh true", "dropped, ports 0 open 2 shut, ssh false")},
		{"a firewall drops new calls but ssh", iptables("INPUT -i eth0 -p tcp --syn --dport 1024:65535 -j DROP"),
			toW2("dropped, ports 0 open 2 shut, ssh true")},
		{"a firewall drops all new calls", iptables("INPUT -i eth0 -p tcp --syn -j DROP"), toW2("dropped, ports 0 open 2 shut, ssh false")},
		// This range is the whole first third, which contains one of the listener's ports.
		{"a firewall drops a part of the range", iptables("INPUT -i eth0 -p tcp --syn --dport 32768:42177 -j DROP"),
			toW2("dropped, ports 2 open 0 shut, ssh true")},
		{"a firewall refuses", iptables("INPUT -i eth0 -p tcp --dport 32768:60999 --syn -j REJECT --reject-with tcp-reset"),
			toW2("refused, ports 0 open 2 shut, ssh true")},
		{"a firewall prohibits", iptables("INPUT -i eth0 -p tcp --dport 1024:65535 --syn -j REJECT --reject-with icmp-host-prohibited"),
			toW2("rejected, ports 0 open 2 shut, ssh true")},
		{"a router knows no host", iptables("INPUT -i eth0 -p tcp --syn -j REJECT --reject-with icmp-host-unreachable"),
			toW2("rejected, ports 0 open 2 shut, ssh false")},
		{"a router knows no network", iptables("INPUT -i eth0 -p tcp --syn -j REJECT --reject-with icmp-net-unreachable"),
			toW2("rejected, ports 0 open 2 shut, ssh false")},
		{"one way is dropped", iptables("INPUT -s 10.77.1.1 -p tcp --syn -j DROP"), []string{
			"w1 to w2: dropped, ports 0 open 2 shut, ssh false"}},
		{"its own calls are dropped", iptables("OUTPUT -o eth0 -p tcp --syn -j DROP"), []string{
			"w2 to w1: dropped, ports 0 open 2 shut, ssh false", "w2 to w3: dropped, ports 0 open 2 shut, ssh false"}},
		{"its own calls are rejected", iptables("OUTPUT -o eth0 -p tcp --syn -j REJECT --reject-with icmp-admin-prohibited"), []string{
			"w2 to w1: rejected, ports 0 open 2 shut, ssh false", "w2 to w3: rejected, ports 0 open 2 shut, ssh false"}},
		{"calls to itself are dropped", iptables("INPUT -i lo -p tcp --syn -j DROP"), []string{"w2 to w2: dropped, ports 0 open 2 shut, ssh false"}},
		{"an unreachable route", run("ip route add unreachable 10.77.1.1/32", "ip route del unreachable 10.77.1.1/32"),
			[]string{"w1 to w2: dropped, ports 0 open 2 shut, ssh false", "w2 to w1: unroutable"}},
		{"a blackhole route", run("ip route add blackhole 10.77.1.1/32", "ip route del blackhole 10.77.1.1/32"),
			[]string{"w1 to w2: dropped, ports 0 open 2 shut, ssh false", "w2 to w1: unroutable"}},
		{"a prohibiting route", run("ip route add prohibit 10.77.1.1/32", "ip route del prohibit 10.77.1.1/32"),
			[]string{"w1 to w2: dropped, ports 0 open 2 shut, ssh false", "w2 to w1: unroutable"}},
		{"no route at all", run("ip route del 10.77.0.0/16", "ip route add 10.77.0.0/16 dev eth0 src "+w2.Address),
			both("dropped, ports 0 open 2 shut, ssh false", "unroutable")},
		{"nobody answers ARP for it", func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) { return w2.IgnoreARP() },
			both("unresolved", "dropped, ports 0 open 2 shut, ssh false")},
		{"a router that is not there", run("ip route add 10.77.1.1/32 via 10.77.200.1", "ip route del 10.77.1.1/32"),
			[]string{"w1 to w2: dropped, ports 0 open 2 shut, ssh false", "w2 to w1: unresolved by 10.77.200.1"}},
		{"full packets vanish", func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) { return w2.NarrowPath(1400) },
			both("blackhole to, segment 1448", "blackhole to, segment 1448")},
		{"full packets from it vanish", iptables("OUTPUT -o eth0 -p tcp -m length --length 1400: -j DROP"), []string{
			"w1 to w2: blackhole from, segment 1448", "w2 to w1: blackhole to, segment 1448",
			"w2 to w3: blackhole to, segment 1448", "w3 to w2: blackhole from, segment 1448"}},
		{"a smaller packet there is no trouble", func(context.Context, *testhosts.Cluster) (testhosts.Undo, error) { return w2.SetMTU(1400) }, nil},
		{"its address leads to another", run("iptables -w -t nat -I OUTPUT -p tcp -d 10.77.1.3 -j DNAT --to-destination 10.77.1.1",
			"iptables -w -t nat -D OUTPUT -p tcp -d 10.77.1.3 -j DNAT --to-destination 10.77.1.1"),
			[]string{"w2 to w3: refused, ports 0 open 2 shut, ssh true"}},
	}
	for i, tt := range tests {
		if !mine(i) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.plant != nil {
				undo, err := tt.plant(t.Context(), cluster)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				})
			}
			if diff := cmp.Diff(tt.want, failures(callAll(t, cluster))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// callAll makes all nodes of the cluster call each other.
func callAll(t *testing.T, cluster *testhosts.Cluster) map[string]facts.Mesh {
	t.Helper()
	var peers []Peer
	var nodes []func(order, answer any)
	for _, node := range cluster.Nodes {
		do := order(t, node)
		var there []Listening
		do(map[string]any{"Listen": Listen{Token: "token", Node: node.Name, Addresses: []string{node.Address}}}, &there)
		if len(there) != 1 || there[0].Error != "" {
			t.Fatalf("%s: %+v", node.Name, there)
		}
		nodes = append(nodes, do)
		peers = append(peers, Peer{Name: node.Name, Address: node.Address, Ports: there[0].Ports, Control: 22})
	}
	meshes := make([]facts.Mesh, len(nodes))
	done := make(chan struct{})
	for i, do := range nodes {
		go func() {
			do(map[string]any{"Calls": Calls{Deadline: callsTime, Token: "token", Node: peers[i].Name, Peers: peers, AllPorts: true}}, &meshes[i])
			done <- struct{}{}
		}()
	}
	for range nodes {
		<-done
	}
	all := map[string]facts.Mesh{}
	for i, m := range meshes {
		all[peers[i].Name] = m
		if len(m.Reached)+len(m.Failed) != len(peers) {
			t.Errorf("%s: %+v", peers[i].Name, m)
		}
	}
	return all
}

// failures describes the failed paths.
func failures(meshes map[string]facts.Mesh) (all []string) {
	for node, mesh := range meshes {
		for _, path := range mesh.Failed {
			words := fmt.Sprintf("%s to %s: %s", node, path.Peer, path.Outcome)
			if path.Gateway != "" {
				words += " by " + path.Gateway
			}
			if path.Outcome == facts.PathBlackhole {
				words += fmt.Sprintf(" %s, segment %d", path.Stuck, path.MSS)
			}
			if len(path.Open)+len(path.Shut) > 0 {
				words += fmt.Sprintf(", ports %d open %d shut", len(path.Open), len(path.Shut))
			}
			if path.Control != nil {
				words += fmt.Sprintf(", ssh %t", *path.Control)
			}
			all = append(all, words)
		}
	}
	slices.Sort(all)
	return all
}
