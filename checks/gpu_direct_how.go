package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// withoutDirect is of a node where adapters cannot register GPU memory.
func withoutDirect(node *facts.Node, lacks string, somewhere bool) Finding {
	f := Finding{
		Nodes:   []string{node.Name},
		Summary: "GPUDirect RDMA is not to be had, and what goes between nodes is copied through host memory",
		Got:     "neither nvidia_peermem nor nv_peer_mem is loaded; in the way of DMA-BUF: " + lacks,
		Want:    "nvidia_peermem loaded, or what DMA-BUF takes",
		Remedy: []fix.Command{
			onMachine(node, fix.On("sudo modprobe nvidia-peermem")),
			onMachine(node, fix.On("echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf   # and at every boot")),
		},
	}
	if somewhere {
		f.Summary = "GPUDirect RDMA is not to be had here, though on other nodes, and everybody waits for the copies through host memory"
	}
	return f
}

// switchedOffDirect: NCCL_NET_GDR_LEVEL is the farthest that NCCL goes.
func switchedOffDirect(view View, node *facts.Node) Finding {
	level := rankEnv(view, node)["NCCL_NET_GDR_LEVEL"]
	return Finding{
		Nodes:   []string{node.Name},
		Summary: "NCCL_NET_GDR_LEVEL rules GPUDirect RDMA out, and what goes between nodes is copied through host memory",
		Got:     origin(view, level),
		Want:    "no NCCL_NET_GDR_LEVEL, or a distance that GPUs and adapters have",
		Remedy:  takeOut(view, level),
	}
}

// allFar is whether every adapter is on another socket than every GPU of the launch.
// Nearer than that but behind a bridge of the processor is how many machines are built.
func allFar(node *facts.Node, cards []*facts.Card, ports []launch.HCAPort) bool {
	for _, card := range cards {
		for _, port := range ports {
			if launch.Distance(node, placeOf(node, card), *port.Adapter) != "SYS" {
				return false
			}
		}
	}
	return true
}

func farAdapters(node *facts.Node) Finding {
	return Finding{
		Nodes:   []string{node.Name},
		Summary: "every RDMA adapter is on another socket than the GPUs, and NCCL does not use GPUDirect RDMA so far",
		Got:     deviceNames(node) + " at distance SYS",
		Want:    "an adapter under the same PCIe switch as a GPU",
		Remedy:  []fix.Command{fix.On("nvidia-smi topo -m"), fix.Note("move adapters or GPUs to other slots, or have the launch use the GPUs next to the adapters")},
	}
}
