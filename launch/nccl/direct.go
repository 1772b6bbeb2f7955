// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// GPUDirect says whether adapters read and write GPU memory directly, without the processor. If By
// and Why are both "", that is unknown.
type GPUDirect struct {
	By  string // "nvidia_peermem" or "DMA-BUF"; "" if GPUDirect does not work, for the reason in Why
	Why string
}

// GPUDirect predicts whether NCCL can use GPUDirect on a node whose ranks use the ports of a
// network. GPUDirect has three conditions. The GPUs must allow it. A kernel module must let
// adapters register GPU memory, or DMA-BUF must work. And a GPU must be close enough to an adapter.
// Since 2.12 the other GPUs reach that GPU over NVLink. The distance is unknown if NCCL_TOPO_FILE
// sets it or the machine does not show it.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/gdr.cc; plugin/net.cc, ncclGpuGdrSupport;
// graph/paths.cc, ncclTopoCheckGdr; graph/topo.cc, ncclTopoGetSystem.
func (n Network) GPUDirect(node *facts.Node) GPUDirect {
	if node.NVML != nil && node.NVML.Source == facts.SourceAMD {
		return GPUDirect{} // preflight does not implement RCCL's rules
	}
	direct := GPUDirect{By: "nvidia_peermem"}
	if node.IB == nil || !node.IB.Peermem {
		direct = byDMABuf(node, n)
	}
	if direct.By == "" || node.NVML == nil || len(node.NVML.Cards) == 0 {
		return direct
	}
	if !slices.ContainsFunc(node.NVML.Cards, TakesRDMA) {
		return GPUDirect{Why: node.NVML.Cards[0].Name + " does not take it"}
	}
	farthest, rule := slices.Index(pathTypes, "P2C"), "NCCL's default limit is PXB"
	if given, set := level(n.env.Get("NCCL_NET_GDR_LEVEL")); set {
		farthest, rule = given, cite(n.env, n.env.Get("NCCL_NET_GDR_LEVEL"))
	}
	switch {
	case farthest == slices.Index(pathTypes, "SYS"):
		return direct
	case n.env.Get("NCCL_TOPO_FILE").Value != "":
		return GPUDirect{}
	}
	nearest, known := "", true
	for card := range node.NVML.Cards {
		for _, port := range n.Ports {
			switch distance := n.distance(node, card, *port.Adapter); {
			case distance == "":
				known = false
			case pathType(distance) <= farthest:
				return direct
			case nearest == "" || pathType(distance) < pathType(nearest):
				nearest = distance
			}
		}
	}
	if !known {
		return GPUDirect{}
	}
	return GPUDirect{Why: fmt.Sprintf("GPUs and adapters are %s apart at best: %s", nearest, rule)}
}

// distance returns [Distance] as NCCL sees it. With NVLink-C2C, a GPU reaches the adapters of its
// processor over that link: since 2.26 if NCCL_NET_GDR_C2C is set, since 2.27 by default.
//
// Source: NVIDIA/nccl 2.26.2 to 2.30.7, graph/paths.cc, ncclTopoCheckGdr and, since 2.27,
// ncclTopoComputePaths; called C2C up to 2.28, P2C since 2.29.
func (n Network) distance(node *facts.Node, card int, adapter facts.HCA) string {
	distance := Distance(node, card, adapter)
	wanted, asked := Number(n.env.Get("NCCL_NET_GDR_C2C").Value)
	byC2C := !hostfile.Before(n.nccl, "2.26") && (asked && wanted != 0 || !asked && !hostfile.Before(n.nccl, "2.27"))
	switch {
	case pathType(distance) != pathType("PHB") || !byC2C || !hasC2C(node.NVML.Cards[card]):
		return distance
	case hostfile.Before(n.nccl, "2.29"):
		return "C2C"
	}
	return "P2C"
}

// hasC2C reports whether NVLink-C2C connects a GPU to its processor. No fact shows that link, so
// hasC2C recognises NVIDIA's superchips of Grace with Hopper or Blackwell by the GPU's name.
//
// Source: NVIDIA, Grace Performance Tuning Guide; NVIDIA GB200 and GB300 NVL72 data sheets.
func hasC2C(card facts.Card) bool {
	return slices.ContainsFunc([]string{"GH200", "GB200", "GB300"}, func(chip string) bool { return strings.Contains(card.Name, chip) })
}

// TakesRDMA reports whether other devices may access the memory of GPUs of this model.
//
// Source: NVIDIA, GPUDirect RDMA documentation for CUDA 12.8: data centre and professional cards.
// The GB10 of DGX Spark shares its memory with the processor, and devices reach it neither by
// nvidia_peermem nor by DMA-BUF: NVIDIA's developer forum, DGX Spark, "GPUDirect RDMA", 2025.
func TakesRDMA(card facts.Card) bool {
	return !slices.ContainsFunc([]string{"GeForce", "TITAN", "GB10"}, func(kind string) bool { return strings.Contains(card.Name, kind) })
}

func byDMABuf(node *facts.Node, network Network) GPUDirect {
	lacks, known := LacksForDMABuf(node, network.env.Get("NCCL_DMABUF_ENABLE").Value, network.nccl)
	switch {
	case !known:
		return GPUDirect{}
	case lacks != "":
		return GPUDirect{Why: "nvidia_peermem is not loaded, and for DMA-BUF: " + lacks}
	}
	return GPUDirect{By: "DMA-BUF"}
}

// LacksForDMABuf returns what a node lacks so that NCCL can register GPU memory with DMA-BUF, "" if
// it lacks nothing. nccl is NCCL's version, "" for the newest. enable is the value of
// NCCL_DMABUF_ENABLE. known is false if the kernel module was not seen. It is also false for Red
// Hat's kernel 4.18, which contains parts of later kernels.
//
// Source: NVIDIA/nccl 2.13 to 2.30, init.cc, dmaBufSupported; Linux 5.12, ib_umem_dmabuf_get;
// NVIDIA, GPU Operator 24.9, GPUDirect RDMA: open kernel module.
func LacksForDMABuf(node *facts.Node, enable, nccl string) (lacks string, known bool) {
	switch {
	case enable != "" && isZero(facts.Setting{Value: enable}):
		return "NCCL_DMABUF_ENABLE=" + enable, true
	case hostfile.Before(nccl, "2.13"):
		return "NCCL " + nccl, true
	case node.GPU == nil || node.GPU.Module == "" || node.Host == nil:
		return "", false
	case !node.GPU.OpenModule:
		return "the driver's kernel module is not the open-source one", true
	case node.NVML != nil && hostfile.Before(node.NVML.CUDA, "11.7"):
		return "the driver's CUDA " + node.NVML.CUDA, true
	case !hostfile.Before(launch.KernelRelease(node.Host.Kernel), "5.12"):
		return "", true
	case strings.Contains(node.Host.Kernel, ".el8"):
		return "", false
	}
	return "Linux " + node.Host.Kernel, true
}
