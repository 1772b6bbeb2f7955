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

// GPUDirect is whether adapters read and write the memory of GPUs themselves, and
// not by way of the processor's. By and Why both "" is not known.
type GPUDirect struct {
	By  string // "nvidia_peermem" or "DMA-BUF"; "" where it does not work, for the reason in Why
	Why string
}

// GPUDirect is what NCCL will find on a node whose ranks use the ports of a network:
// GPUs that take it, a kernel module that lets adapters register their memory or
// buffers that the kernel shares between drivers, and a GPU close enough to an adapter.
// The other GPUs reach that one by NVLink since 2.12. How close they are is not known
// where a file of NCCL_TOPO_FILE says it, or the machine does not.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/gdr.cc; plugin/net.cc, ncclGpuGdrSupport;
// graph/paths.cc, ncclTopoCheckGdr; graph/topo.cc, ncclTopoGetSystem.
func (n Network) GPUDirect(node *facts.Node) GPUDirect {
	if node.NVML != nil && node.NVML.Source == facts.SourceAMD {
		return GPUDirect{} // what RCCL makes of it is not told here
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

// distance is [Distance] to NCCL, which has a GPU on NVLink-C2C reach the adapters of
// its processor by that link: if NCCL_NET_GDR_C2C asks for it since 2.26, by itself since 2.27.
//
// Source: NVIDIA/nccl 2.26.2 to 2.30.7, graph/paths.cc, ncclTopoCheckGdr and, since 2.27,
// ncclTopoComputePaths; as far as C2C up to 2.28, as P2C since 2.29.
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

// hasC2C is whether a GPU is joined to its processor by NVLink-C2C, which none of the
// facts tells: NVIDIA's superchips of Grace with Hopper or Blackwell.
//
// Source: NVIDIA, Grace Performance Tuning Guide; NVIDIA GB200 and GB300 NVL72 data sheets.
func hasC2C(card facts.Card) bool {
	return slices.ContainsFunc([]string{"GH200", "GB200", "GB300"}, func(chip string) bool { return strings.Contains(card.Name, chip) })
}

// TakesRDMA is whether a GPU is of a kind whose memory other devices may reach.
//
// Source: NVIDIA, GPUDirect RDMA documentation for CUDA 12.8: data centre and
// professional cards. The GB10 of DGX Spark has its memory in common with the processor, and
// devices reach it neither by nvidia_peermem nor by DMA-BUF: NVIDIA's developer forum, DGX
// Spark, "GPUDirect RDMA", 2025.
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

// LacksForDMABuf is what a node lacks for NCCL of a version ("" for the newest) to
// register GPU memory by DMA-BUF where NCCL_DMABUF_ENABLE has a value; "" for nothing.
// It is not known where the kernel module was not seen, nor with Red Hat's 4.18, which
// has parts of later kernels that its number does not tell.
//
// Source: NVIDIA/nccl 2.13 to 2.30, init.cc, dmaBufSupported; Linux 5.12,
// ib_umem_dmabuf_get; NVIDIA, GPU Operator 24.9, GPUDirect RDMA: open kernel module.
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
