package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// detours finds what sends traffic between devices through the root complex. It
// matters where such traffic takes PCIe: between GPUs that no NVLink joins, and
// between GPUs and RDMA adapters.
//
// Source: NVIDIA/nccl 2.30, docs, troubleshooting, PCI Access Control Services:
// "causing a significant performance reduction or even a hang".
func detours(view View, node *facts.Node, cards []*facts.Card) (findings []Finding) {
	// Grace and other aarch64 machines translate and send peer traffic straight all the same.
	translated := node.GPU.IOMMU == "translated" && (node.Host == nil || node.Host.Arch == "x86_64")
	if !translated && len(node.GPU.Redirecting) == 0 {
		return nil
	}
	routes := pcieRoutes(view, node, cards)
	if len(routes) < 2 {
		return nil
	}
	f := Finding{
		Verdict:  Warn,
		Nodes:    []string{node.Name},
		WouldSee: "no message, or a hang in the first collective; Got completion … status=4 (local protection error)",
	}
	bridges := slices.DeleteFunc(slices.Clone(node.GPU.Redirecting), func(bridge string) bool { return !onTheWay(bridge, routes) })
	var causes, got, want []string
	if translated {
		causes, got, want = append(causes, "the IOMMU"), append(got, "IOMMU translated"), append(want, "IOMMU off or in passthrough mode")
		f.Remedy = append(f.Remedy, onMachine(node, fix.On("sudo grep -n CMDLINE /etc/default/grub   # add iommu=pt, then update-grub and reboot; or switch VT-d or AMD-Vi off in the BIOS")))
	}
	if len(bridges) > 0 {
		causes, got = append(causes, "access control (ACS) of PCIe switches"), append(got, "ACS on "+strings.Join(bridges, ", "))
		want = append(want, "no ACS on ports between GPUs, or GPUs and RDMA adapters; a virtual machine cannot do without, and has ATS on the adapters instead")
		f.Remedy = append(f.Remedy,
			onMachine(node, fix.On("for port in %s; do sudo setpci -s $port ECAP_ACS+0x6.w=0000; done   # until the next boot", fix.List[fix.Name](" ", bridges))),
			onMachine(node, fix.On("sudo grep -n CMDLINE /etc/default/grub   # for good: ACS, and VT-d or AMD-Vi, off in the BIOS")))
	}
	switch len(causes) {
	case 0:
		return nil
	case 1:
		f.Summary = causes[0] + " sends peer traffic through the processor"
	default:
		f.Summary = strings.Join(causes, " and ") + " send peer traffic through the processor"
	}
	f.Got, f.Want = strings.Join(got, "; "), strings.Join(want, "; ")
	return []Finding{f}
}

// pcieRoutes are the ways from the root complex to the GPUs of the launch and the
// RDMA adapters that talk to each other over PCIe; none where nothing does.
func pcieRoutes(view View, node *facts.Node, cards []*facts.Card) (routes [][]string) {
	overPCIe := anyPair(pairsOf(node, cards), func(p pair) bool { return p.status == "ok" && !launch.ByNVLink(p.joined) })
	var adapters [][]string
	if node.IB != nil && len(view.All) > 1 && !keptOffRDMA(rankEnv(view, node)) {
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
		at := slices.IndexFunc(node.GPU.OnBus, func(g facts.PCIGPU) bool { return g.Address == card.Address })
		if at >= 0 && len(node.GPU.OnBus[at].Path) > 0 {
			routes = append(routes, node.GPU.OnBus[at].Path)
		}
	}
	return append(routes, adapters...)
}

// onTheWay is whether a bridge is a port of a switch at which two ways part. What
// parts at the root complex goes through it anyway.
func onTheWay(bridge string, routes [][]string) bool {
	for _, route := range routes {
		at := slices.Index(route, bridge)
		if at < 2 { // the root complex, and a port of its own
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
