package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestUsual(t *testing.T) {
	card := func(model string, value int) *facts.Card {
		return &facts.Card{Name: model, Clock: facts.GPUClock{MaxSM: value}}
	}
	for name, c := range map[string]struct {
		cards []*facts.Card
		want  map[string]int64
	}{
		"most":             {[]*facts.Card{card("a", 2), card("a", 1), card("a", 1)}, map[string]int64{"a": 1}},
		"the higher":       {[]*facts.Card{card("a", 1), card("a", 2), card("a", 2), card("a", 1)}, map[string]int64{"a": 2}},
		"of each model":    {[]*facts.Card{card("a", 1), card("b", 5), card("a", 1), card("b", 5)}, map[string]int64{"a": 1, "b": 5}},
		"that is told":     {[]*facts.Card{card("a", 0), card("a", 0), card("a", 3)}, map[string]int64{"a": 3}},
		"nobody tells any": {[]*facts.Card{card("a", 0)}, map[string]int64{}},
		"nobody is there":  {nil, map[string]int64{}},
	} {
		got := usual([]*facts.Node{{}}, func(*facts.Node) []*facts.Card { return c.cards }, func(card *facts.Card) int64 { return int64(card.Clock.MaxSM) })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Slots, and the tables of what lies between GPUs, count those that NVML shows; its
// indices count hidden ones too.
func TestGPUsBehindHiddenOnes(t *testing.T) {
	fleet := healthyFleet(2)
	for i := range fleet.Nodes {
		nvml := fleet.Nodes[i].NVML
		nvml.Hidden, nvml.Cards, nvml.Topology, nvml.Peers = 4, nvml.Cards[4:], nvml.Topology[4:], nvml.Peers[4:]
		for row := range nvml.Cards {
			nvml.Topology[row], nvml.Peers[row] = nvml.Topology[row][4:], nvml.Peers[row][4:]
		}
		fleet.Launch.Hosts[i].Slots = []int{1, 2}
	}
	node := &fleet.Nodes[0]
	node.NVML.Peers[1][2] = "not-supported"
	var got []int
	for _, card := range launchCards(View{Launch: fleet.Launch})(node) {
		got = append(got, card.Index)
	}
	if diff := cmp.Diff([]int{5, 6}, got); diff != "" {
		t.Errorf("the GPUs of the launch (-want +got):\n%s", diff)
	}
	if findings := Evaluate([]Check{gpuPeerAccess}, fleet.Fleet, fleet.Launch, DefaultPolicy()).Findings; len(findings) != 1 || findings[0].Got != "GPUs 5 and 6 (NV18): not-supported" {
		t.Errorf("%+v", findings)
	}
}

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
			n.NVML.Cards[3] = facts.Card{Index: 3, Address: gpuAddress(3), Failure: &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "GPU is lost"}}
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
		fleet := healthyFleet(4)
		c.change(&fleet.Nodes[2])
		var speak []string
		for _, f := range evaluate(fleet, Catalogue...).Findings {
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
	fleet := healthyFleet(3)
	node := &fleet.Nodes[1]
	memory := int64(70 << 30)
	node.NVML.Cards[0].Processes = []facts.GPUUser{{PID: 4711, Name: evil, User: evil, Kind: evil, Memory: &memory}}
	node.NVML.Cards[1].Fabric = &facts.GPUFabric{State: "completed", Status: evil, Cluster: evil}
	node.NVML.Cards[2].Failure = &facts.NVMLFailure{Kind: evil, Call: evil, Text: evil}
	node.NVML.Cards[3].Address, node.NVML.Cards[3].ComputeMode = evil, "prohibited"
	node.GPU.Xids = []facts.Xid{{Code: 154, Address: "0000:15:00", Text: "GPU recovery action changed from 0x0 (None) to " + evil}}
	node.NVML.Driver, node.GPU.Redirecting = evil, []string{evil}
	way := func(last string) []string { return []string{"pci0000:3a", "0000:3a:01.0", evil, last} }
	node.GPU.OnBus[0].Path, node.IB.Devices[0].Path = way(gpuAddress(0)), []string{"pci0000:3a", "0000:3a:01.0", "0000:3c:00.0"}
	fixes := 0
	for _, f := range Evaluate([]Check{gpuHealthy, gpuIdle, gpuMode, gpuFabric, gpuPeerAccess, gpuDirect}, fleet.Fleet, fleet.Launch, DefaultPolicy()).Findings {
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
