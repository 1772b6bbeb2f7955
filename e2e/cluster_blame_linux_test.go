// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/catalogue"
	"preflight/testhosts"
)

// ofAll returns Python code that makes w2 report the same outcome for its connections to all other
// nodes. path holds the Python arguments that describe the outcome.
func ofAll(path string) string {
	return `
def answered(body):
    if "reached" in body:
        body["failed"] = [dict(` + path + `, peer=peer, to="", port=44111, seconds=0.2) for peer in list(body["reached"]) if peer != "w2"]
        body["reached"] = {"w2": 0.0001}
`
}

// holdsAll makes w2 report the addresses of all other nodes as its own.
const holdsAll = `
def answered(body):
    for i in body["seen"]["net"]["interfaces"]:
        if i["name"] == "eth0":
            i["addresses"] += ["10.77.1.1/16", "10.77.1.3/16", "10.77.1.4/16"]
`

// TestOneBrokenNode breaks one node so that its reports blame the other nodes. The finding must
// name only the broken node, and all other nodes must be good hosts.
func TestOneBrokenNode(t *testing.T) {
	cluster := raise(t, "broken")
	installTorch(t, cluster)
	for _, c := range []struct{ name, changes, want string }{
		{"it works", "", ""},
		{"its calls are translated to another node", ofAll(`outcome="misdirected", answered="w4"`), "fail node-mesh [w2]"},
		{"a proxy answers all its calls", ofAll(`outcome="stranger"`), "fail node-mesh [w2]"},
		{"a firewall drops all its calls", ofAll(`outcome="dropped"`), "fail node-mesh [w2]"},
		{"it holds all addresses", holdsAll, "fail nic-choice [w2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plantOn(t, cluster, "w2", func(n *testhosts.Node) (testhosts.Undo, error) { return n.ChangeAnswers(c.changes) })
			report := judge(t, cluster)
			want, good := []string{}, []string{"w1", "w2", "w3", "w4"}
			if c.want != "" {
				want, good = []string{c.want}, []string{"w1", "w3", "w4"}
			}
			if diff := cmp.Diff(want, short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(good, catalogue.PartitionOf(report).Good); diff != "" {
				t.Errorf("good hosts (-want +got):\n%s", diff)
			}
			if t.Failed() {
				for _, f := range report.Findings {
					t.Logf("%s %v: %s; %s", f.Check, f.Nodes, f.Summary, f.Got)
				}
			}
		})
	}
}

// TestTwins gives two machines the same address. The finding must name both machines with their MAC
// addresses, and neither may be a good host.
func TestTwins(t *testing.T) {
	cluster := raise(t, "twins")
	installTorch(t, cluster)
	takes := func(of int) plant {
		return func(n *testhosts.Node) (testhosts.Undo, error) { return n.TakeAddress(cluster.Nodes[of]) }
	}
	for _, c := range []struct {
		name, node string
		plant      plant
		want, good []string
		macs       []string // MAC addresses that the finding must contain
	}{
		{"a stranger has node 0's", "w1", (*testhosts.Node).Twin, []string{"fail node-mesh [w1]"}, []string{"w2", "w3", "w4"}, []string{"02:4d:0a:4d:01:01", "02:66:00:00:00:01"}},
		{"a stranger has the last one's", "w4", (*testhosts.Node).Twin, []string{"fail node-mesh [w4]"}, []string{"w1", "w2", "w3"}, []string{"02:4d:0a:4d:01:04", "02:66:00:00:00:01"}},
		{"a node has node 0's", "w3", takes(0), []string{"fail nic-choice [w1 w3]", "fail master-address [w1 w3]"}, []string{"w2", "w4"}, []string{"02:4d:0a:4d:01:01", "02:4d:0a:4d:01:03"}},
		{"node 0 has another's", "w1", takes(1), []string{"fail nic-choice [w1 w2]"}, []string{"w3", "w4"}, []string{"02:4d:0a:4d:01:01", "02:4d:0a:4d:01:02"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plantOn(t, cluster, c.node, c.plant)
			for _, accelerator := range []string{"cpu", "cuda"} {
				report := judge(t, cluster, "--accelerator", accelerator)
				if diff := cmp.Diff(c.want, short(report.Findings)); diff != "" {
					t.Errorf("%s: findings (-want +got):\n%s", accelerator, diff)
				}
				if diff := cmp.Diff(c.good, catalogue.PartitionOf(report).Good); diff != "" {
					t.Errorf("%s: good hosts (-want +got):\n%s", accelerator, diff)
				}
				for _, mac := range c.macs {
					if len(report.Findings) == 0 || !strings.Contains(report.Findings[0].Summary+report.Findings[0].Got, mac) {
						t.Errorf("%s: nothing tells of the machine with MAC %s: %+v", accelerator, mac, report.Findings)
					}
				}
			}
		})
	}
}
