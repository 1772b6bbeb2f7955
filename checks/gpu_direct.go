package checks

import (
	"slices"

	"preflight/facts"
	"preflight/launch"
)

var gpuDirect = Check{
	ID:       "gpu-direct",
	Title:    "the RDMA adapters read and write GPU memory without a detour through the host's",
	Severity: Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU, facts.SectionIB},
	Doc: "GPUDirect RDMA takes a kernel module, nvidia_peermem or nv_peer_mem, which nobody loads at boot by itself, or DMA-BUF: the open kernel module of the driver, Linux 5.12 and NCCL 2.13. " +
		"Without it NCCL copies through host memory, at a fraction of the adapters' rate. A setting that rules it out is warned of, and so are adapters that are all on another socket than every GPU of the launch: " +
		"by itself NCCL does not go that far. Distances that a virtual machine does not show, or a file of NCCL_TOPO_FILE states, are not judged. GeForce and TITAN cards cannot do it. Whether data arrives is not tried.",
	WouldSee: "no message but GPU Direct RDMA Disabled at NCCL_DEBUG=INFO: transfers between nodes are slow",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		if len(nodes) == 0 {
			return findings
		}
		if len(view.All) < 2 {
			return append(findings, skip("ranks of one node need no network")...)
		}
		_, reason := usingIB(view)
		if reason != "" {
			return append(findings, skip(reason)...)
		}
		cardsOf := launchCards(view)
		takesRDMA := func(card *facts.Card) bool { return launch.TakesRDMA(*card) }
		capable := slices.DeleteFunc(nodes, func(node *facts.Node) bool {
			return !slices.ContainsFunc(cardsOf(node), takesRDMA) || len(ncclNetwork(view, node).Ports) == 0
		})
		if len(capable) == 0 {
			return append(findings, skip("no node has both an RDMA port that NCCL takes and a GPU that takes RDMA")...)
		}
		return append(findings, judgeDirect(view, capable, cardsOf)...)
	},
}

// judgeDirect is by what NCCL will find: first whether anything lets adapters register
// GPU memory at all, then whether it goes for it on this node.
func judgeDirect(view View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (findings []Finding) {
	lacks := func(node *facts.Node) (what string, known bool) {
		if node.IB.Peermem {
			return "", true
		}
		return launch.LacksForDMABuf(node, rankEnv(view, node)["NCCL_DMABUF_ENABLE"].Value, ncclVersion(node))
	}
	somewhere := slices.ContainsFunc(nodes, func(node *facts.Node) bool {
		what, known := lacks(node)
		return known && what == ""
	})
	for _, node := range nodes {
		network := ncclNetwork(view, node)
		direct := network.GPUDirect(node)
		switch what, known := lacks(node); {
		case !known:
			findings = append(findings, unknown(node, "ib: nvidia_peermem is not loaded, and whether the kernel has DMA-BUF in its place is not to be seen"))
		case what != "":
			findings = append(findings, withoutDirect(node, what, somewhere))
		case direct.By != "", direct.Why == "": // it works, or the distances are not told
		case rankEnv(view, node)["NCCL_NET_GDR_LEVEL"].Value != "":
			findings = append(findings, switchedOffDirect(view, node))
		case allFar(node, cardsOf(node), network.Ports):
			findings = append(findings, farAdapters(node))
		}
	}
	return findings
}
