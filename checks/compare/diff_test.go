// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func TestDiff(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, c := range map[string]struct {
		change func([]facts.Node)
		want   []checks.FactDiff
	}{
		"all alike": {func([]facts.Node) {}, []checks.FactDiff{}},
		"largest group first": {func(n []facts.Node) { n[0].Host.Kernel = "6.8" }, []checks.FactDiff{
			{Fact: "host.kernel", Groups: []checks.FactGroup{{Value: value(`"5.15.0-107-generic"`), Nodes: []string{"w2", "w3", "w4"}}, {Value: value(`"6.8"`), Nodes: []string{"w1"}}}},
		}},
		"equal groups in hostfile order": {func(n []facts.Node) { n[1].Host.Kernel, n[3].Host.Kernel = "6.8", "6.8" }, []checks.FactDiff{
			{Fact: "host.kernel", Groups: []checks.FactGroup{{Value: value(`"5.15.0-107-generic"`), Nodes: []string{"w1", "w3"}}, {Value: value(`"6.8"`), Nodes: []string{"w2", "w4"}}}},
		}},
		"absent is a value": {func(n []facts.Node) { delete(n[2].Python.Packages, "numpy") }, []checks.FactDiff{
			{Fact: "python.packages.numpy", Groups: []checks.FactGroup{{Value: value(`"1.26.4"`), Nodes: []string{"w1", "w2", "w4"}}, {Value: nil, Nodes: []string{"w3"}}}},
		}},
		"absent and first": {func(n []facts.Node) { delete(n[0].Python.Packages, "numpy") }, []checks.FactDiff{
			{Fact: "python.packages.numpy", Groups: []checks.FactGroup{{Value: value(`"1.26.4"`), Nodes: []string{"w2", "w3", "w4"}}, {Value: nil, Nodes: []string{"w1"}}}},
		}},
		"only one has it": {func(n []facts.Node) { n[2].Python.Packages["apex"] = "0.1" }, []checks.FactDiff{
			{Fact: "python.packages.apex", Groups: []checks.FactGroup{{Value: nil, Nodes: []string{"w1", "w2", "w4"}}, {Value: value(`"0.1"`), Nodes: []string{"w3"}}}},
		}},
		"a section not seen is not absent": {func(n []facts.Node) { n[2].Python = nil }, []checks.FactDiff{}},
		"not reached takes no part": {func(n []facts.Node) {
			n[2].Reached, n[2].Facts = false, facts.Facts{SSH: &facts.SSH{Port: 2222}}
		}, []checks.FactDiff{}},
		"volatile and own": {func(n []facts.Node) { n[2].Host.Uptime, n[2].Memory.Available, n[2].SHM.Free = 1, 1, 1 }, []checks.FactDiff{}},
		"lists by key, not by place": {func(n []facts.Node) {
			n[2].IB.Devices[0], n[2].IB.Devices[1] = n[2].IB.Devices[1], n[2].IB.Devices[0]
		}, []checks.FactDiff{}},
		"one thing listed twice": {func(n []facts.Node) {
			n[2].Net.Interfaces = append(n[2].Net.Interfaces, n[2].Net.Interfaces[0])
		}, []checks.FactDiff{}},
		"twice, and not alike": {func(n []facts.Node) {
			again := n[2].Net.Interfaces[0]
			again.MTU++
			n[2].Net.Interfaces = append(n[2].Net.Interfaces, again)
		}, []checks.FactDiff{}},
		"names are left to host-names": {func(n []facts.Node) { n[2].Names.Lookups[0].Addresses = []string{"127.0.1.1"} }, []checks.FactDiff{}},
		"sorted by fact": {func(n []facts.Node) { n[3].SHM.Size, n[3].Host.Kernel = 1, "6.8" }, []checks.FactDiff{
			{Fact: "host.kernel", Groups: []checks.FactGroup{{Value: value(`"5.15.0-107-generic"`), Nodes: []string{"w1", "w2", "w3"}}, {Value: value(`"6.8"`), Nodes: []string{"w4"}}}},
			{Fact: "shm.size", Groups: []checks.FactGroup{{Value: value(`549755813888`), Nodes: []string{"w1", "w2", "w3"}}, {Value: value(`1`), Nodes: []string{"w4"}}}},
		}},
	} {
		fleet := fleettest.Healthy(4)
		c.change(fleet.Nodes)
		got, leftOut := Diff(fleet.Nodes)
		if diff := cmp.Diff(c.want, got); diff != "" || leftOut > 0 {
			t.Errorf("%s, %d left out (-want +got):\n%s", name, leftOut, diff)
		}
	}
}

// TestDiffHasRoom checks a node with thousands of interfaces. It must not fill the memory with the
// names of all other nodes, or hide differences of another section.
func TestDiffHasRoom(t *testing.T) {
	fleet := fleettest.Healthy(1000)
	fleet.Nodes[7].SHM.Size = 1
	nic := fleet.Nodes[7].Net.Interfaces[0]
	for i := range 5000 {
		nic.Name = fmt.Sprint("made", i)
		fleet.Nodes[7].Net.Interfaces = append(fleet.Nodes[7].Net.Interfaces, nic)
	}
	diffs, leftOut := Diff(fleet.Nodes)
	size := 0
	for _, d := range diffs {
		size += sizeOf(d)
	}
	if leftOut < 5000 || size > 2*(roomOfSection+1000*roomOfNode) {
		t.Errorf("%d differences of %d bytes, %d left out", len(diffs), size, leftOut)
	}
	if last := diffs[len(diffs)-1]; last.Fact != "shm.size" {
		t.Errorf("the last difference is %s, want shm.size", last.Fact)
	}
}

// TestDiffOfManyKinds checks a kind that returns after more other kinds than Diff remembers. Its
// nodes must still form one group.
func TestDiffOfManyKinds(t *testing.T) {
	const kernels = manyKinds + 2
	fleet := fleettest.Healthy(2*kernels + 1)
	for i := range fleet.Nodes {
		fleet.Nodes[i].Host.Kernel = fmt.Sprint(i % kernels)
	}
	want := checks.FactDiff{Fact: "host.kernel"}
	for i := range kernels {
		want.Groups = append(want.Groups, checks.FactGroup{Value: fmt.Appendf(nil, "%q", fmt.Sprint(i)), Nodes: []string{fmt.Sprintf("w%d", i+1), fmt.Sprintf("w%d", i+1+kernels)}})
	}
	want.Groups[0].Nodes = append(want.Groups[0].Nodes, fmt.Sprintf("w%d", 1+2*kernels))
	got, _ := Diff(fleet.Nodes)
	if diff := cmp.Diff([]checks.FactDiff{want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
