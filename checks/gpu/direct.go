package gpu

import (
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

var Direct = checks.Check{
	ID:       "gpu-direct",
	Title:    "the RDMA adapters read and write GPU memory without a detour through the host's",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU, facts.SectionIB},
	Doc: "GPUDirect RDMA takes a kernel module, nvidia_peermem or nv_peer_mem, which nobody loads at boot by itself, or DMA-BUF: the open kernel module of the driver, Linux 5.12 and NCCL 2.13. " +
		"Without it NCCL copies through host memory, at a fraction of the adapters' rate. A setting that rules it out is warned of, and so are adapters that are all on another socket than every GPU of the launch: " +
		"by itself NCCL does not go that far. Distances that a virtual machine does not show, or a file of NCCL_TOPO_FILE states, are not judged. GeForce and TITAN cards cannot do it. Whether data arrives is not tried.",
	WouldSee: "no message but GPU Direct RDMA Disabled at NCCL_DEBUG=INFO: transfers between nodes are slow",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		if len(nodes) == 0 {
			return findings
		}
		if len(view.All) < 2 {
			return append(findings, checks.Skipped("ranks of one node need no network")...)
		}
		_, reason := ranks.UsingIB(view)
		if reason != "" {
			return append(findings, checks.Skipped(reason)...)
		}
		cardsOf := usedCards(view)
		takesRDMA := func(card *facts.Card) bool { return nccl.TakesRDMA(*card) }
		capable := slices.DeleteFunc(nodes, func(node *facts.Node) bool {
			return !slices.ContainsFunc(cardsOf(node), takesRDMA) || len(ranks.NCCLNetwork(view, node).Ports) == 0
		})
		if len(capable) == 0 {
			return append(findings, checks.Skipped("no node has both an RDMA port that NCCL takes and a GPU that takes RDMA")...)
		}
		return append(findings, judgeDirect(view, capable, cardsOf)...)
	},
}

// judgeDirect is by what NCCL will find: first whether anything lets adapters register
// GPU memory at all, then whether it goes for it on this node.
func judgeDirect(view checks.View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (findings []checks.Finding) {
	lacks := func(node *facts.Node) (what string, known bool) {
		if node.IB.Peermem {
			return "", true
		}
		return nccl.LacksForDMABuf(node, ranks.Env(view, node)["NCCL_DMABUF_ENABLE"].Value, nccl.Version(node))
	}
	somewhere := slices.ContainsFunc(nodes, func(node *facts.Node) bool {
		what, known := lacks(node)
		return known && what == ""
	})
	for _, node := range nodes {
		network := ranks.NCCLNetwork(view, node)
		direct := network.GPUDirect(node)
		switch what, known := lacks(node); {
		case !known:
			findings = append(findings, checks.UnknownFor(node, "ib: nvidia_peermem is not loaded, and whether the kernel has DMA-BUF in its place is not to be seen"))
		case what != "":
			findings = append(findings, withoutDirect(node, what, somewhere))
		case direct.By != "", direct.Why == "": // it works, or the distances are not told
		case ranks.Env(view, node)["NCCL_NET_GDR_LEVEL"].Value != "":
			findings = append(findings, switchedOffDirect(view, node))
		case allFar(node, cardsOf(node), network.Ports):
			findings = append(findings, farAdapters(node))
		}
	}
	return findings
}

// withoutDirect is of a node where adapters cannot register GPU memory.
func withoutDirect(node *facts.Node, lacks string, somewhere bool) checks.Finding {
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: "GPUDirect RDMA is not to be had, and what goes between nodes is copied through host memory",
		Got:     "neither nvidia_peermem nor nv_peer_mem is loaded; in the way of DMA-BUF: " + lacks,
		Want:    "nvidia_peermem loaded, or what DMA-BUF takes",
		Remedy: []fix.Command{
			remedy.OnMachine(node, fix.On("sudo modprobe nvidia-peermem")),
			remedy.OnMachine(node, fix.On("echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf   # and at every boot")),
		},
	}
	if somewhere {
		f.Summary = "GPUDirect RDMA is not to be had here, though on other nodes, and everybody waits for the copies through host memory"
	}
	return f
}

// switchedOffDirect: NCCL_NET_GDR_LEVEL is the farthest that NCCL goes.
func switchedOffDirect(view checks.View, node *facts.Node) checks.Finding {
	level := ranks.Env(view, node)["NCCL_NET_GDR_LEVEL"]
	return checks.Finding{
		Nodes:   []string{node.Name},
		Summary: "NCCL_NET_GDR_LEVEL rules GPUDirect RDMA out, and what goes between nodes is copied through host memory",
		Got:     ranks.Origin(view, level),
		Want:    "no NCCL_NET_GDR_LEVEL, or a distance that GPUs and adapters have",
		Remedy:  ranks.TakeOut(view, level),
	}
}

// allFar is whether every adapter is on another socket than every GPU of the launch.
// Nearer than that but behind a bridge of the processor is how many machines are built.
func allFar(node *facts.Node, cards []*facts.Card, ports []nccl.HCAPort) bool {
	for _, card := range cards {
		for _, port := range ports {
			if nccl.Distance(node, placeOf(node, card), *port.Adapter) != "SYS" {
				return false
			}
		}
	}
	return true
}

func farAdapters(node *facts.Node) checks.Finding {
	return checks.Finding{
		Nodes:   []string{node.Name},
		Summary: "every RDMA adapter is on another socket than the GPUs, and NCCL does not use GPUDirect RDMA so far",
		Got:     ranks.DeviceNames(node) + " at distance SYS",
		Want:    "an adapter under the same PCIe switch as a GPU",
		Remedy:  []fix.Command{fix.On("nvidia-smi topo -m"), fix.Note("move adapters or GPUs to other slots, or have the launch use the GPUs next to the adapters")},
	}
}
