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
	Title:     "the GPUs of a machine reach each other's memory wherever their like do, and nothing sends that traffic a detour",
	Severity:  checks.Error,
	Volatile:  true,
	Needs:     []facts.Section{facts.SectionNVML, facts.SectionGPU},
	DependsOn: []string{"gpu-fabric"},
	Doc: "Where the driver refuses peer access between GPUs that NVLink joins, NCCL ends: it takes that for a fault of the hardware. Between others it goes through /dev/shm, which is slower, and a finding only " +
		"where GPUs of the same models at the same distance have it, or where a setting of the driver took it away: GeForce cards never have it. A translating IOMMU, and access control (ACS) on the ports of a PCIe switch, send traffic " +
		"between GPUs, and between GPUs and RDMA adapters, through the processor: slow, or a hang. ACS shows to root only, and where it does not show it is not judged.",
	WouldSee: "NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case given their connectivity, and is probably due to a hardware issue",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		linkedOf := linkedCards(view)
		var several []*facts.Node
		told := false
		for _, node := range nodes {
			if len(linkedOf(node)) > 1 {
				several = append(several, node)
				told = told || node.NVML.Peers != nil
			}
			findings = append(findings, refusedFacts(view, node, linkedOf(node), neededForLinks, neededForPeers)...)
			findings = append(findings, detours(view, node, linkedOf(node))...)
		}
		switch {
		case len(several) > 0 && !told:
			return append(findings, checks.Skipped("the driver told of no node which GPUs reach each other: "+compare.Shown(several[0].NVML.Source)+" does not say")...)
		case len(nodes) > 0 && len(several) == 0:
			return append(findings, checks.Skipped("no node has two GPUs that could reach each other")...)
		}
		return append(findings, refusedPeers(view, several, linkedOf)...)
	},
}

// neededForPeers is asked of pairs, and a GPU may be refused some.
var neededForPeers = essential{func(*facts.Card) bool { return true }, []string{"nvmlDeviceGetP2PStatus"}}

// pair is two GPUs of a node, and what its driver says of them.
type pair struct {
	a, b           *facts.Card
	joined, status string // by what ("NV18", "PXB") and whether they reach each other ("ok")
}

// alike is what makes pairs of GPUs comparable: their models and what joins them.
func (p pair) alike() [3]string {
	return [3]string{min(p.a.Name, p.b.Name), max(p.a.Name, p.b.Name), p.joined}
}

// pairsOf are the pairs of GPUs of which the driver said whether they reach each
// other.
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

// anyPair is whether one of the pairs is so.
func anyPair(pairs iter.Seq[pair], is func(pair) bool) bool {
	for p := range pairs {
		if is(p) {
			return true
		}
	}
	return false
}

// refusedPeers finds pairs without peer access that ought to have it.
func refusedPeers(view checks.View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (findings []checks.Finding) {
	works := map[[3]string]bool{}
	for _, node := range nodes {
		for p := range pairsOf(node, cardsOf(node)) {
			if p.status == "ok" && !works[p.alike()] {
				works[p.alike()] = true
			}
		}
	}
	for _, node := range nodes {
		if node.NVML.Peers == nil {
			if slices.ContainsFunc(node.NVML.Cards, func(c facts.Card) bool { return c.Failure != nil }) {
				continue // nvidia-smi tells no pair then, and gpu-healthy says why
			}
			findings = append(findings, checks.UnknownFor(node, "nvml: which GPUs reach each other was not told"))
			continue
		}
		pairs := pairsOf(node, cardsOf(node))
		if !anyPair(pairs, func(p pair) bool { return p.status != "ok" }) || nccl.IsOn(ranks.Env(view, node)["NCCL_P2P_DISABLE"].Value) {
			continue // of the switch env-sane speaks
		}
		findings = append(findings, refusedPairs(node, pairs, works)...)
	}
	return findings
}

// refusedPairs are of a node that has pairs without peer access.
func refusedPairs(node *facts.Node, pairs iter.Seq[pair], works map[[3]string]bool) []checks.Finding {
	var nvlinked, others []string
	quoted := ""
	for p := range pairs {
		text := fmt.Sprintf("%d and %d (%s): %s", p.a.Index, p.b.Index, compare.Shown(p.joined), p.status)
		switch {
		case p.status == "ok":
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
		Summary:  "the driver refuses peer access between GPUs that NVLink joins, and NCCL ends there",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw"), rebootNode.Remark("; if it stays so: reseat or replace the GPUs, or NCCL_IGNORE_DISABLED_P2P=1 to do without")},
		WouldSee: quoted + " This should not be the case given their connectivity, and is probably due to a hardware issue",
	}), refusal(node, others, checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the driver refuses peer access between GPUs, and NCCL goes through /dev/shm",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw"), fix.On("grep -rn NVreg /etc/modprobe.d   # is it switched off there?")},
		WouldSee: "P2P is disabled between connected GPUs, and a slow run",
	})...)
}

// manyPairs is how many pairs of GPUs a person wants to read.
const manyPairs = 4

func refusal(node *facts.Node, pairs []string, f checks.Finding) []checks.Finding {
	if pairs == nil {
		return nil
	}
	f.Nodes, f.Want = []string{node.Name}, "peer access, as between their like"
	f.Got = "GPUs " + strings.Join(pairs[:min(len(pairs), manyPairs)], "; ")
	if more := len(pairs) - manyPairs; more > 0 {
		f.Got += fmt.Sprintf("; and %d more pairs", more)
	}
	return []checks.Finding{f}
}

// detours finds what sends traffic between devices through the root complex. It
// matters where such traffic takes PCIe: between GPUs that no NVLink joins, and
// between GPUs and RDMA adapters.
//
// Source: NVIDIA/nccl 2.30, docs, troubleshooting, PCI Access Control Services:
// "causing a significant performance reduction or even a hang".
func detours(view checks.View, node *facts.Node, cards []*facts.Card) (findings []checks.Finding) {
	// Grace and other aarch64 machines translate and send peer traffic straight all the same.
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
		f.Remedy = append(f.Remedy, remedy.OnMachine(node, fix.On("sudo grep -n CMDLINE /etc/default/grub   # add iommu=pt, then update-grub and reboot; or switch VT-d or AMD-Vi off in the BIOS")))
	}
	if len(bridges) > 0 {
		causes, got = append(causes, "access control (ACS) of PCIe switches"), append(got, "ACS on "+strings.Join(bridges, ", "))
		want = append(want, "no ACS on ports between GPUs, or GPUs and RDMA adapters; a virtual machine cannot do without, and has ATS on the adapters instead")
		f.Remedy = append(f.Remedy,
			remedy.OnMachine(node, fix.On("for port in %s; do sudo setpci -s $port ECAP_ACS+0x6.w=0000; done   # until the next boot", fix.List[fix.Name](" ", bridges))),
			remedy.OnMachine(node, fix.On("sudo grep -n CMDLINE /etc/default/grub   # for good: ACS, and VT-d or AMD-Vi, off in the BIOS")))
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
	return []checks.Finding{f}
}

// pcieRoutes are the ways from the root complex to the GPUs of the launch and the
// RDMA adapters that talk to each other over PCIe; none where nothing does.
func pcieRoutes(view checks.View, node *facts.Node, cards []*facts.Card) (routes [][]string) {
	overPCIe := anyPair(pairsOf(node, cards), func(p pair) bool { return p.status == "ok" && !nccl.ByNVLink(p.joined) })
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
