// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/testhosts/fleettest"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOfMachineLeavesTheTemplates checks that OfMachine does not change the commands of a check,
// because its findings share them.
func TestOfMachineLeavesTheTemplates(t *testing.T) {
	head := &facts.Node{Name: "launching machine"}
	shared := []fix.Command{fix.On("lspci")}
	before := shared[0]
	OfMachine(checks.View{Head: head}, head, checks.Finding{Remedy: shared})
	if diff := cmp.Diff(before, shared[0], cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("the shared list changed (-want +got):\n%s", diff)
	}
}

func TestHeadNode(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fleettest.Fleet)
		want   string
	}{
		{"a machine of its own", func(*fleettest.Fleet) {}, ""},
		{"one of the nodes", func(l *fleettest.Fleet) { l.Head.Host = fleettest.HealthyHost(1) }, "w2"},
		{"a container on one of them", func(l *fleettest.Fleet) {
			l.Head.Host = fleettest.HealthyHost(1)
			l.Head.Host.NetNamespace = "net:[4026532000]"
		}, ""},
		{"it was not looked at", func(l *fleettest.Fleet) { l.Head = nil }, ""},
		{"it does not tell", func(l *fleettest.Fleet) {
			l.Head.Host, l.Nodes[0].Host = fleettest.HealthyHost(0), fleettest.HealthyHost(0)
			l.Head.Host.BootID, l.Nodes[0].Host.BootID = "", ""
		}, ""},
		{"the first of two entries", func(l *fleettest.Fleet) {
			l.Head.Host, l.Nodes[2].Host = fleettest.HealthyHost(1), fleettest.HealthyHost(1)
		}, "w2"},
		{"the node was not seen", func(l *fleettest.Fleet) { l.Head.Host, l.Nodes[1].Host = fleettest.HealthyHost(1), nil }, ""},
	} {
		fleet := fleettest.Healthy(3)
		c.change(&fleet)
		node, isNode := HeadNode(checks.View{Head: fleet.Head, All: fleet.Nodes})
		if isNode != (c.want != "") || isNode && node.Name != c.want {
			t.Errorf("%s: launched from %+v, want %q", c.name, node, c.want)
		}
	}
}
