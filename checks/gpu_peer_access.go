package checks

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var gpuPeerAccess = Check{
	ID:        "gpu-peer-access",
	Title:     "the GPUs of a machine reach each other's memory wherever their like do, and nothing sends that traffic a detour",
	Severity:  Error,
	Volatile:  true,
	Needs:     []facts.Section{facts.SectionNVML, facts.SectionGPU},
	DependsOn: []string{"gpu-fabric"},
	Doc: "Where the driver refuses peer access between GPUs that NVLink joins, NCCL ends: it takes that for a fault of the hardware. Between others it goes through /dev/shm, which is slower, and a finding only " +
		"where GPUs of the same models at the same distance have it, or where a setting of the driver took it away: GeForce cards never have it. A translating IOMMU, and access control (ACS) on the ports of a PCIe switch, send traffic " +
		"between GPUs, and between GPUs and RDMA adapters, through the processor: slow, or a hang. ACS shows to root only, and where it does not show it is not judged.",
	WouldSee: "NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case given their connectivity, and is probably due to a hardware issue",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		linkedOf := linkedCards(view)
		var several []*facts.Node
		told := false
		for _, node := range nodes {
			if len(linkedOf(node)) > 1 {
				several = append(several, node)
				told = told || node.NVML.Peers != nil
			}
			findings = append(findings, refusedFacts(view, node, linkedOf(node), linksTold, peersTold)...)
			findings = append(findings, detours(view, node, linkedOf(node))...)
		}
		switch {
		case len(several) > 0 && !told:
			return append(findings, skip("the driver told of no node which GPUs reach each other: "+shown(several[0].NVML.Source)+" does not say")...)
		case len(nodes) > 0 && len(several) == 0:
			return append(findings, skip("no node has two GPUs that could reach each other")...)
		}
		return append(findings, refusedPeers(view, several, linkedOf)...)
	},
}

// peersTold is asked of pairs, and a GPU may be refused some.
var peersTold = essential{func(*facts.Card) bool { return true }, []string{"nvmlDeviceGetP2PStatus"}}

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
				p := pair{a, b, launch.Joined(node.NVML, from, to), launch.PeerAccess(node.NVML, from, to)}
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
func refusedPeers(view View, nodes []*facts.Node, cardsOf func(*facts.Node) []*facts.Card) (findings []Finding) {
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
			findings = append(findings, unknown(node, "nvml: which GPUs reach each other was not told"))
			continue
		}
		pairs := pairsOf(node, cardsOf(node))
		if !anyPair(pairs, func(p pair) bool { return p.status != "ok" }) || isOn(rankEnv(view, node)["NCCL_P2P_DISABLE"].Value) {
			continue // of the switch env-sane speaks
		}
		findings = append(findings, refusedPairs(node, pairs, works)...)
	}
	return findings
}

// refusedPairs are of a node that has pairs without peer access.
func refusedPairs(node *facts.Node, pairs iter.Seq[pair], works map[[3]string]bool) []Finding {
	var nvlinked, others []string
	quoted := ""
	for p := range pairs {
		text := fmt.Sprintf("%d and %d (%s): %s", p.a.Index, p.b.Index, shown(p.joined), p.status)
		switch {
		case p.status == "ok":
		case launch.ByNVLink(p.joined):
			nvlinked = append(nvlinked, text)
			if quoted == "" {
				quoted = fmt.Sprintf("NCCL WARN P2P is disabled between NVLINK connected GPUs %d and %d.", placeOf(node, p.a), placeOf(node, p.b))
			}
		case works[p.alike()], p.status == "disabled-by-regkey":
			others = append(others, text)
		}
	}
	return append(refusal(node, nvlinked, Finding{
		Summary:  "the driver refuses peer access between GPUs that NVLink joins, and NCCL ends there",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw"), rebootNode.Remark("; if it stays so: reseat or replace the GPUs, or NCCL_IGNORE_DISABLED_P2P=1 to do without")},
		WouldSee: quoted + " This should not be the case given their connectivity, and is probably due to a hardware issue",
	}), refusal(node, others, Finding{
		Verdict:  Warn,
		Summary:  "the driver refuses peer access between GPUs, and NCCL goes through /dev/shm",
		Remedy:   []fix.Command{fix.On("nvidia-smi topo -p2p rw"), fix.On("grep -rn NVreg /etc/modprobe.d   # is it switched off there?")},
		WouldSee: "P2P is disabled between connected GPUs, and a slow run",
	})...)
}

// manyPairs is how many pairs of GPUs a person wants to read.
const manyPairs = 4

func refusal(node *facts.Node, pairs []string, f Finding) []Finding {
	if pairs == nil {
		return nil
	}
	f.Nodes, f.Want = []string{node.Name}, "peer access, as between their like"
	f.Got = "GPUs " + strings.Join(pairs[:min(len(pairs), manyPairs)], "; ")
	if more := len(pairs) - manyPairs; more > 0 {
		f.Got += fmt.Sprintf("; and %d more pairs", more)
	}
	return []Finding{f}
}
