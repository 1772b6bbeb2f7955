// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

var PeerAccess = checks.Check{
	ID:        "gpu-peer-access",
	Severity:  checks.Error,
	Volatile:  true,
	Needs:     []facts.Section{facts.SectionNVML, facts.SectionGPU},
	DependsOn: []string{"gpu-fabric"},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		linkedOf := linkedCards(view)
		var several []*facts.Node
		for _, node := range nodes {
			if len(linkedOf(node)) > 1 {
				several = append(several, node)
			}
			findings = append(findings, refusedFacts(view, node, linkedOf(node), neededForLinks, neededForPeers)...)
			findings = append(findings, detours(view, node, linkedOf(node))...)
		}
		if len(nodes) > 0 && len(several) == 0 {
			return append(findings, checks.Skipped("no node has two GPUs that could access each other")...)
		}
		return append(findings, refusedPeers(view, several, linkedOf)...)
	},
}

// neededForPeers is the fact of peer access. preflight queries it for pairs of GPUs, and the driver
// may refuse only some pairs of a GPU.
var neededForPeers = essential{func(*facts.Card) bool { return true }, []string{"nvmlDeviceGetP2PStatus"}}

type pair struct {
	a, b           *facts.Card
	joined, status string // the connection, such as "NV18" or "PXB", and the status of peer access, such as "ok"
}

// alike returns the properties that make pairs of GPUs comparable: both models and the connection.
func (p pair) alike() [3]string {
	return [3]string{min(p.a.Name, p.b.Name), max(p.a.Name, p.b.Name), p.joined}
}

// pairsOf returns the pairs of GPUs for which the driver reported peer access.
func pairsOf(node *facts.Node, cards []*facts.Card) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for i, a := range cards {
			for _, b := range cards[i+1:] {
				from, to := placeOf(node, a), placeOf(node, b)
				p := pair{a, b, nccl.Joined(node.NVML, from, to), nccl.PeerAccess(node.NVML, from, to)}
				if p.status != "" && p.status != "unknown" && !yield(p) {
					return
				}
			}
		}
	}
}

func refusedPeers(view checks.View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (findings []checks.Finding) {
	works := map[[3]string]bool{}
	for _, node := range nodes {
		for p := range pairsOf(node, cardsOf(node)) {
			if p.status == "ok" {
				works[p.alike()] = true
			}
		}
	}
	for _, node := range nodes {
		if node.NVML.Peers == nil {
			findings = append(findings, checks.UnknownFor(node, "nvml: peer access between GPUs was not reported"))
			continue
		}
		if !nccl.IsOn(ranks.Env(view, node).Get("NCCL_P2P_DISABLE").Value) { // env-sane reports NCCL_P2P_DISABLE
			findings = append(findings, refusedPairs(node, pairsOf(node, cardsOf(node)), works)...)
		}
	}
	return findings
}

func refusedPairs(node *facts.Node, pairs iter.Seq[pair], works map[[3]string]bool) []checks.Finding {
	var nvlinked, others []string
	quoted := ""
	for p := range pairs {
		if p.status == "ok" {
			continue
		}
		text := fmt.Sprintf("%d and %d (%s): %s", p.a.Index, p.b.Index, compare.Shown(p.joined), p.status)
		switch {
		case nccl.ByNVLink(p.joined):
			nvlinked = append(nvlinked, text)
			if quoted == "" {
				quoted = fmt.Sprintf("NCCL WARN P2P is disabled between NVLINK connected GPUs %d and %d.", placeOf(node, p.a), placeOf(node, p.b))
			}
		case works[p.alike()], p.status == "disabled-by-regkey":
			others = append(others, text)
		}
	}
	return append(refusal(node, nvlinked, checks.Finding{
		Summary:  "the driver refuses peer access between GPUs with NVLink: NCCL aborts",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw").As(fix.Look), rebootNode.Remark("; if it persists, reseat or replace the GPUs, or set NCCL_IGNORE_DISABLED_P2P=1 to do without")},
		WouldSee: quoted + " This should not be the case given their connectivity, and is probably due to a hardware issue",
	}), refusal(node, others, checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the driver refuses peer access between GPUs: NCCL uses /dev/shm",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw").As(fix.Look), fix.On("grep -rn NVreg /etc/modprobe.d   # shows whether it is switched off there").As(fix.Look)},
		WouldSee: "P2P is disabled between connected GPUs, and a slow run",
	})...)
}

const manyPairs = 4

func refusal(node *facts.Node, pairs []string, f checks.Finding) []checks.Finding {
	if pairs == nil {
		return nil
	}
	f.Nodes, f.Want = []string{node.Name}, "peer access, as between other GPUs of the model"
	more := len(pairs) - manyPairs
	f.Got = "GPUs " + strings.Join(pairs[:min(len(pairs), manyPairs)], "; ") + when(more > 0, "; and %d more pairs", more)
	return []checks.Finding{f}
}

// detours returns a finding for a node that sends traffic between devices through the root complex.
// This matters only for traffic over PCIe: between GPUs without NVLink, and between GPUs and RDMA
// adapters.
//
// Source: NVIDIA/nccl 2.30, docs, troubleshooting, PCI Access Control Services: "causing a
// significant performance reduction or even a hang".
func detours(view checks.View, node *facts.Node, cards []*facts.Card) (findings []checks.Finding) {
	// Grace and other aarch64 machines translate addresses and still send peer traffic directly.
	translated := node.GPU.IOMMU == "translated" && (node.Host == nil || node.Host.Arch == "x86_64")
	if !translated && len(node.GPU.Redirecting) == 0 {
		return nil
	}
	routes := pcieRoutes(view, node, cards)
	if len(routes) < 2 {
		return nil
	}
	f := checks.Finding{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		WouldSee: "no message, or a hang in the first collective; Got completion … status=4 (local protection error)",
	}
	bridges := slices.DeleteFunc(slices.Clone(node.GPU.Redirecting), func(bridge string) bool { return !onTheWay(bridge, routes) })
	var causes, got, want []string
	if translated {
		causes, got, want = append(causes, "the IOMMU"), append(got, "IOMMU translated"), append(want, "IOMMU off or in passthrough mode")
		f.Remedy = append(f.Remedy, remedy.OnMachine(node, fix.On("sudo grep -n CMDLINE /etc/default/grub").As(fix.Look)),
			fix.Note("add iommu=pt to the kernel command line of {nodes}, run update-grub and reboot; or disable VT-d or AMD-Vi in the BIOS"))
	}
	if len(bridges) > 0 {
		causes, got = append(causes, "ACS on PCIe switches"), append(got, "ACS on "+strings.Join(bridges, ", "))
		want = append(want, "no ACS on ports between GPUs and RDMA adapters; in a virtual machine, ATS on the adapters instead")
		f.Remedy = append(f.Remedy,
			remedy.OnMachine(node, fix.On("for port in %s; do sudo setpci -s $port ECAP_ACS+0x6.w=0000; done   # until the next boot", fix.List[fix.Name](" ", bridges))),
			fix.Note("for good, disable ACS, and VT-d or AMD-Vi, in the BIOS of {nodes}"))
	}
	switch len(causes) {
	case 0:
		return nil
	case 1:
		f.Summary = causes[0] + " sends peer traffic through the CPU"
	default:
		f.Summary = strings.Join(causes, " and ") + " send peer traffic through the CPU"
	}
	f.Got, f.Want = strings.Join(got, "; "), strings.Join(want, "; ")
	return []checks.Finding{f}
}

// pcieRoutes returns the paths from the root complex to the devices that exchange data over PCIe.
// These are GPUs of the launch and RDMA adapters. It returns nil if no devices exchange data over
// PCIe.
func pcieRoutes(view checks.View, node *facts.Node, cards []*facts.Card) (routes [][]string) {
	overPCIe := false
	for p := range pairsOf(node, cards) {
		overPCIe = overPCIe || p.status == "ok" && !nccl.ByNVLink(p.joined)
	}
	var adapters [][]string
	if node.IB != nil && len(view.All) > 1 && !nccl.KeptOffRDMA(ranks.Env(view, node)) {
		for _, device := range node.IB.Devices {
			if len(device.Path) > 0 {
				adapters = append(adapters, device.Path)
			}
		}
	}
	if !overPCIe && adapters == nil {
		return nil
	}
	for _, card := range cards {
		for _, gpu := range node.GPU.OnBus {
			if gpu.Address == card.Address && len(gpu.Path) > 0 {
				routes = append(routes, gpu.Path)
			}
		}
	}
	return append(routes, adapters...)
}

// onTheWay reports whether a bridge is a port of a switch at which two paths separate. Paths that
// separate at the root complex go through the root complex in any case.
func onTheWay(bridge string, routes [][]string) bool {
	for _, route := range routes {
		at := slices.Index(route, bridge)
		if at < 2 { // the bridge is the root complex or its port
			continue
		}
		parts := func(other []string) bool {
			return len(other) > at && other[at] != bridge && slices.Equal(other[:at], route[:at])
		}
		if slices.ContainsFunc(routes, parts) {
			return true
		}
	}
	return false
}

var Direct = checks.Check{
	ID:       "gpu-direct",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU, facts.SectionIB},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
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
		capable := compare.Without(nodes, func(node *facts.Node) bool {
			return !slices.ContainsFunc(cardsOf(node), takesRDMA) || len(ranks.NCCLNetwork(view, node).Ports) == 0
		})
		if len(capable) == 0 {
			return append(findings, checks.Skipped("no node has both an RDMA port that NCCL uses and a GPU that supports RDMA")...)
		}
		return append(findings, judgeDirect(view, capable, cardsOf)...)
	},
}

// judgeDirect follows NCCL's own decision. It first checks whether adapters can register GPU memory
// at all. It then checks whether NCCL uses that ability on this node.
func judgeDirect(view checks.View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) []checks.Finding {
	lacks := func(node *facts.Node) (what string, known bool) {
		if node.IB.Peermem {
			return "", true
		}
		return nccl.LacksForDMABuf(node, ranks.Env(view, node).Get("NCCL_DMABUF_ENABLE").Value, nccl.Version(node))
	}
	somewhere := slices.ContainsFunc(nodes, func(node *facts.Node) bool {
		what, known := lacks(node)
		return known && what == ""
	})
	view.Nodes = nodes
	return checks.OnEach(func(_ checks.View, node *facts.Node) []checks.Finding {
		network := ranks.NCCLNetwork(view, node)
		direct := network.GPUDirect(node)
		level := ranks.Env(view, node).Get("NCCL_NET_GDR_LEVEL")
		switch what, known := lacks(node); {
		case !known:
			return []checks.Finding{checks.UnknownFor(node, "ib: nvidia_peermem is not loaded, and whether DMA-BUF is available is not known")}
		case what != "":
			return []checks.Finding{withoutDirect(node, what, somewhere)}
		case direct.By != "", direct.Why == "": // GPUDirect works, or the distances are unknown
		case level.Value != "": // the variable sets the greatest distance over which NCCL uses GPUDirect
			return []checks.Finding{{
				Summary: "NCCL_NET_GDR_LEVEL disables GPUDirect RDMA: NCCL copies through host memory",
				Got:     ranks.Origin(view, level),
				Want:    "no NCCL_NET_GDR_LEVEL, or one that covers the distance between GPUs and adapters",
				Remedy:  ranks.TakeOut(view, level),
			}}
		case allFar(node, cardsOf(node), network.Ports):
			return []checks.Finding{{
				Summary: "all RDMA adapters are on another socket than the GPUs: no GPUDirect RDMA",
				Got:     ranks.DeviceNames(node) + " at distance SYS",
				Want:    "an adapter under the same PCIe switch as a GPU",
				Remedy:  []fix.Command{fix.On("nvidia-smi topo -m").As(fix.Look), fix.Note("move adapters or GPUs to other slots, or use the GPUs next to the adapters")},
			}}
		}
		return nil
	})(view)
}

func withoutDirect(node *facts.Node, lacks string, somewhere bool) checks.Finding {
	f := checks.Finding{
		Summary: "GPUDirect RDMA is not available: NCCL copies through host memory",
		Got:     "neither nvidia_peermem nor nv_peer_mem is loaded; no DMA-BUF, because of: " + lacks,
		Want:    "nvidia_peermem loaded, or DMA-BUF available",
		Remedy: []fix.Command{
			remedy.OnMachine(node, fix.On("sudo modprobe nvidia-peermem")),
			remedy.OnMachine(node, fix.On("echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf   # also at every boot")).As(fix.Then),
		},
	}
	if somewhere {
		f.Summary = "GPUDirect RDMA is not available, as it is on other nodes: all ranks are slower"
	}
	return f
}

// allFar reports whether every adapter is on another socket than every GPU of the launch. On many
// machines adapters are nearer, but behind a bridge of the CPU.
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
