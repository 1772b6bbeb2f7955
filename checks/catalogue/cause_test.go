// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"
	"testing"

	"preflight/checks"
	"preflight/checks/network"
	"preflight/facts"
	"preflight/testhosts/fleettest"

	"github.com/google/go-cmp/cmp"
)

// TestWeighedDownCauseExplainsNothing checks a policy that only warns about names that do not
// resolve. rendezvous must then report the failure itself.
func TestWeighedDownCauseExplainsNothing(t *testing.T) {
	fleet := withoutDNS(4)
	for severity, want := range map[checks.Severity]checks.Verdict{"": checks.Skip, checks.Warning: checks.Fail} {
		policy := checks.DefaultPolicy()
		if severity != "" {
			policy.Severities = map[string]checks.Severity{"host-names": severity}
		}
		if got := alone(network.Rendezvous, fleet, policy).Checks[0]; got.Verdict != want {
			t.Errorf("host-names weighing %q: rendezvous is %s (%s), want %s", severity, got.Verdict, got.Reason, want)
		}
	}
}

// withoutDNS returns a fleet in which every other node resolves no name. These nodes cannot reach
// the rendezvous, whose address is the name of node 0.
func withoutDNS(size int) fleettest.Fleet {
	fleet := fleettest.Healthy(size)
	fleet.Launch.MasterAddr = "w1"
	for i := range fleet.Nodes {
		fleettest.WithoutDNS(&fleet.Nodes[i], i)
	}
	return fleet
}

// TestOneGPUTroubleIsOneFinding applies a fault to all facts that the driver reports, and expects
// only one check to report it.
func TestOneGPUTroubleIsOneFinding(t *testing.T) {
	unlinked := func(card *facts.Card) {
		card.NVLinks = &facts.NVLinks{Count: 18, Down: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}}
	}
	refused := func(n *facts.NVML, cards ...int) {
		for i := range n.Peers {
			for j := range n.Peers[i] {
				if i != j && (slices.Contains(cards, i) || slices.Contains(cards, j)) {
					n.Topology[i][j], n.Peers[i][j] = "SYS", "not-supported"
				}
			}
		}
	}
	everyCard := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, c := range map[string]struct {
		change func(*facts.Node)
		want   string
	}{
		"a GPU fell off the bus": {func(n *facts.Node) {
			n.NVML.Cards[3] = facts.Card{Index: 3, Address: fleettest.GPUAddress(3), Failure: &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "GPU is lost"}}
			refused(n.NVML, 3)
			n.GPU.Xids = []facts.Xid{{Code: 79, Address: "0000:13:00", Age: 600, Text: "GPU has fallen off the bus."}}
		}, "gpu-healthy"},
		"memory went bad": {func(n *facts.Node) {
			one := int64(1)
			n.NVML.Cards[3].ECC.Uncorrected, n.NVML.Cards[3].Remapped.Pending = &one, true
			n.GPU.Xids = []facts.Xid{{Code: 48, Address: "0000:13:00", Age: 600}, {Code: 95, Address: "0000:13:00", Age: 600}}
		}, "gpu-healthy"},
		"the fabric manager sleeps": {func(n *facts.Node) {
			n.GPU.FabricManager = &facts.FabricManager{Installed: true, Version: "550.54.15", State: "failed"}
			refused(n.NVML, everyCard...)
			for i := range n.NVML.Cards {
				unlinked(&n.NVML.Cards[i])
				n.NVML.Cards[i].Fabric = &facts.GPUFabric{State: "in-progress"}
			}
		}, "gpu-fabric"},
		"the fabric manager is of another version": {func(n *facts.Node) {
			n.GPU.FabricManager = &facts.FabricManager{Installed: true, Version: "550.54.14", State: "failed"}
			refused(n.NVML, everyCard...)
			for i := range n.NVML.Cards {
				unlinked(&n.NVML.Cards[i])
				n.NVML.Cards[i].Fabric = &facts.GPUFabric{State: "not-started"}
			}
		}, "gpu-fabric"},
		"MIG is on": {func(n *facts.Node) {
			used := int64(30 << 30)
			refused(n.NVML, 3)
			card := &n.NVML.Cards[3]
			card.MIG, card.MIGPending, card.MIGDevices = "enabled", "enabled", []string{"3g.40gb", "3g.40gb"}
			card.MemoryUsed, card.Utilization, card.ECC.Uncorrected, card.Remapped, card.NVLinks = &used, nil, nil, nil, nil
		}, "gpu-mode"},
		"somebody computes": {func(n *facts.Node) {
			used, busy, hot := int64(70<<30), 100, 75
			card := &n.NVML.Cards[3]
			card.MemoryUsed, card.Utilization, card.Temperature, card.Throttle = &used, &busy, &hot, []string{"sw-power-cap"}
			card.Processes = []facts.GPUUser{{PID: 4711, Name: "python", User: "alice", Kind: "compute", Memory: &used}}
		}, "gpu-idle"},
		"links are down": {func(n *facts.Node) {
			n.NVML.Cards[3].NVLinks.Down = []int{4, 5}
			n.NVML.Cards[3].Fabric.Degraded = []string{"bandwidth"}
		}, "gpu-links"},
		"the driver does not answer": {func(n *facts.Node) {
			n.NVML.Failure = &facts.NVMLFailure{Kind: facts.FailureHung, Call: "nvmlDeviceGetUUID", Text: "no answer"}
			n.NVML.Cards = n.NVML.Cards[:3]
			n.NVML.Topology, n.NVML.Peers = nil, nil
		}, "gpu-driver-loads"},
	} {
		fleet := fleettest.Healthy(4)
		c.change(&fleet.Nodes[2])
		var reporting []string
		for _, f := range judged(fleet, Catalogue...).Findings {
			reporting = append(reporting, f.Check)
			if !slices.Equal(f.Nodes, []string{"w3"}) {
				t.Errorf("%s: %s is said of %v", name, f.Check, f.Nodes)
			}
		}
		if diff := cmp.Diff([]string{c.want}, reporting); diff != "" {
			t.Errorf("%s: checks that report it (-want +got):\n%s", name, diff)
		}
	}
}
