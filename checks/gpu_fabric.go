package checks

import (
	"slices"

	"preflight/facts"
)

var gpuFabric = Check{
	ID:       "gpu-fabric",
	Title:    "where GPUs sit behind NVSwitches, the fabric manager runs, is of the driver's version, and has set every GPU up",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Doc: "NVSwitches route nothing before nvidia-fabricmanager has configured them, and CUDA refuses to start until then. It does not start when its version is not exactly the driver's, which is what an upgrade of " +
		"one package of the two leaves behind. In a container and in a virtual machine that was given GPUs without their switches the manager runs elsewhere, and only what the GPUs say of their place in the " +
		"fabric counts: still in progress, a status other than success, a health that is degraded, places in two domains on one machine.",
	WouldSee: "RuntimeError: Unexpected error from cudaGetDeviceCount() … Error 802: system not yet initialized",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := launchCards(view)
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), fabricTold)...)
		}
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, hasFabric) {
			return append(findings, skip("no node has NVSwitches")...)
		}
		for _, node := range nodes {
			if !hasFabric(node) {
				continue
			}
			manager := managerFindings(node)
			findings = append(findings, manager...)
			if !slices.ContainsFunc(manager, func(f Finding) bool { return f.Verdict == "" }) { // else the GPUs wait for it
				findings = append(findings, firstOf(node, cardsOf(node), fabricRules(node))...)
				findings = append(findings, splitFabric(node, cardsOf(node))...)
			}
		}
		return findings
	},
}

// fabricTold is a GPU's word on its place in the fabric.
var fabricTold = essential{func(card *facts.Card) bool { return card.Fabric == nil }, []string{"nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"}}

// hasFabric is whether a node shows NVSwitches: on its bus, at the far end of its
// links, or by what a GPU says of its fabric. Where the bus shows none, a GPU whose
// registration has not started may as well have no fabric to register with.
func hasFabric(node *facts.Node) bool {
	return node.GPU.NVSwitches > 0 || slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		return card.NVLinks != nil && card.NVLinks.RemoteKind == "switch" ||
			card.Fabric != nil && slices.Contains([]string{"in-progress", "completed"}, card.Fabric.State)
	})
}

// fabricIsUp is whether the GPUs say that somebody has set them up.
func fabricIsUp(node *facts.Node) bool {
	told := 0
	for _, card := range node.NVML.Cards {
		switch {
		case card.Fabric == nil || card.Fabric.State == "not-supported":
		case card.Fabric.State != "completed":
			return false
		default:
			told++
		}
	}
	return told > 0
}
