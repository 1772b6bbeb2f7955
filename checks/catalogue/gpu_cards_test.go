package catalogue

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
	"preflight/checks/gpu"
	"preflight/facts"
)

// TestOneGPUTroubleIsOneFinding gives a node what a trouble does to all that the
// driver says of it, and wants one check to speak.
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
		var speak []string
		for _, f := range judged(fleet, Catalogue...).Findings {
			speak = append(speak, f.Check)
			if !slices.Equal(f.Nodes, []string{"w3"}) {
				t.Errorf("%s: %s is said of %v", name, f.Check, f.Nodes)
			}
		}
		if diff := cmp.Diff([]string{c.want}, speak); diff != "" {
			t.Errorf("%s: checks that speak (-want +got):\n%s", name, diff)
		}
	}
}

// TestGPUFixesAreNoCommandsOfNodes has a node send text a shell would run wherever
// a fix names something of its GPUs.
func TestGPUFixesAreNoCommandsOfNodes(t *testing.T) {
	const evil = "x$(touch${IFS}pwned)';touch pwned;'"
	fleet := fleettest.Healthy(3)
	node := &fleet.Nodes[1]
	memory := int64(70 << 30)
	node.NVML.Cards[0].Processes = []facts.GPUUser{{PID: 4711, Name: evil, User: evil, Kind: evil, Memory: &memory}}
	node.NVML.Cards[1].Fabric = &facts.GPUFabric{State: "completed", Status: evil, Cluster: evil}
	node.NVML.Cards[2].Failure = &facts.NVMLFailure{Kind: evil, Call: evil, Text: evil}
	node.NVML.Cards[3].Address, node.NVML.Cards[3].ComputeMode = evil, "prohibited"
	node.GPU.Xids = []facts.Xid{{Code: 154, Address: "0000:15:00", Text: "GPU recovery action changed from 0x0 (None) to " + evil}}
	node.NVML.Driver, node.GPU.Redirecting = evil, []string{evil}
	way := func(last string) []string { return []string{"pci0000:3a", "0000:3a:01.0", evil, last} }
	node.GPU.OnBus[0].Path, node.IB.Devices[0].Path = way(fleettest.GPUAddress(0)), []string{"pci0000:3a", "0000:3a:01.0", "0000:3c:00.0"}
	fixes := 0
	for _, f := range engine.Evaluate([]checks.Check{gpu.Healthy, gpu.Idle, gpu.Mode, gpu.Fabric, gpu.PeerAccess, gpu.Direct}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings {
		for _, fix := range f.Fix {
			fixes++
			runTwice(t, f.Check, fix)
			if strings.Contains(fix, "pwned") {
				t.Errorf("%s: %s", f.Check, fix)
			}
		}
	}
	if fixes < 12 {
		t.Errorf("%d fixes: some trouble was not found", fixes)
	}
}
