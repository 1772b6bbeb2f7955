// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var NICAffinity = checks.Check{
	ID:       "gpu-nic-affinity",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU, facts.SectionIB, facts.SectionEnv},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		if len(nodes) == 0 {
			return findings
		}
		if _, reason := ranks.UsingIB(view); reason != "" {
			return append(findings, checks.Skipped(reason)...)
		}
		cardsOf, near := usedCards(view), map[*facts.Node][]beside{}
		for _, node := range nodes {
			near[node] = besides(view, node, cardsOf(node))
		}
		measured := compare.Without(nodes, func(n *facts.Node) bool { return near[n] == nil })
		if len(measured) == 0 {
			return append(findings, checks.Skipped("no node reports how far its GPUs are from the adapters that NCCL uses")...)
		}
		for _, node := range measured {
			findings = append(findings, checks.OfNode(node, leftFar(view, node, near[node])...)...)
		}
		likeness := func(node *facts.Node) string {
			return gpuKinds(node) + strconv.Itoa(len(near[node])) + strings.Join(portNames(ranks.NCCLNetwork(view, node).Ports), ",")
		}
		for _, alike := range text.GroupBy(measured, likeness) {
			findings = append(findings, otherRails(view, alike.All, near)...)
		}
		return findings
	},
}

// beside is a GPU of the launch, with its nearest ports and the distance to them. Only ports that
// NCCL uses count.
type beside struct {
	card     *facts.Card
	distance int // an index in the list distances
	ports    []string
}

// distances lists the values of [nccl.Distance], the nearest first.
var distances = []string{"PIX", "PXB", "PHB", "NODE", "SYS"}

// besides returns the GPUs of a node that ranks use, each with its nearest ports. It returns nil if
// the machine does not report all distances, or if a topology file replaces the distances.
func besides(view checks.View, node *facts.Node, cards []*facts.Card) (all []beside) {
	if ranks.Env(view, node).Get(facts.TopologyVariable).Value != "" {
		return nil
	}
	for _, card := range cards {
		b := beside{card: card, distance: len(distances)}
		for _, port := range ranks.NCCLNetwork(view, node).Ports {
			switch d := distance(node, card, *port.Adapter); {
			case d < 0:
				return nil
			case d < b.distance:
				b.distance, b.ports = d, []string{port.Name()}
			case d == b.distance:
				b.ports = append(b.ports, port.Name())
			}
		}
		if b.ports == nil {
			return nil
		}
		all = append(all, b)
	}
	return all
}

// distance returns an index in distances, or -1 if the distance is not known.
func distance(node *facts.Node, card *facts.Card, adapter facts.HCA) int {
	return slices.Index(distances, nccl.Distance(node, placeOf(node, card), adapter))
}

// leftFar returns a finding for a node whose NCCL_IB_HCA leaves some GPUs without an adapter on
// their socket. The node must have suitable adapters that are nearer to these GPUs.
func leftFar(view checks.View, node *facts.Node, all []beside) []checks.Finding {
	given, network := ranks.Env(view, node).Get("NCCL_IB_HCA"), ranks.NCCLNetwork(view, node)
	if given.Value == "" {
		return nil
	}
	isLike := func(port facts.IBPort) bool {
		return port.State == "ACTIVE" && slices.ContainsFunc(network.Ports, func(taken nccl.HCAPort) bool {
			return taken.LinkLayer == port.LinkLayer && taken.Rate <= port.Rate
		})
	}
	var far, missed []string
	for _, each := range all {
		if distances[each.distance] != "SYS" {
			continue
		}
		isFar := false
		for _, adapter := range node.IB.Devices {
			if d := distance(node, each.card, adapter); d < 0 || d >= each.distance || !slices.ContainsFunc(adapter.Ports, isLike) || slices.Contains(ranks.SwitchDoors(node), adapter.Name) {
				continue
			}
			isFar, missed = true, append(missed, adapter.Name)
		}
		if isFar {
			far = append(far, strconv.Itoa(each.card.Index))
		}
	}
	if far == nil {
		return nil
	}
	slices.Sort(missed)
	return []checks.Finding{{
		Summary: "NCCL_IB_HCA excludes the adapters next to GPUs " + strings.Join(far, ", "),
		Got:     ranks.Origin(view, given) + "; GPUs " + strings.Join(far, ", "),
		Want:    strings.Join(slices.Compact(missed), ", ") + " too, which are next to these GPUs",
		Remedy:  append([]fix.Command{fix.On("nvidia-smi topo -m").Inside().As(fix.Look)}, ranks.TakeOut(view, given)...),
	}}
}

func portNames(ports []nccl.HCAPort) []string {
	return text.Map(ports, func(port nccl.HCAPort) string { return port.Name() })
}

// otherRails compares the ports next to the GPUs in use. It compares only machines of the same type
// on which NCCL uses the same ports.
//
// Source: NVIDIA/nccl 2.30.7, graph/search.cc, ncclTopoSelectNets, prefers ports that are local to
// GPUs; graph/connect.cc connects nodes channel by channel.
func otherRails(view checks.View, nodes []*facts.Node, near map[*facts.Node][]beside) []checks.Finding {
	rails := func(node *facts.Node) string {
		var names []string
		for _, each := range near[node] {
			names = append(names, each.ports...)
		}
		slices.Sort(names)
		return strings.Join(slices.Compact(names), ", ")
	}
	commands := []fix.Command{fix.On("nvidia-smi topo -m; echo $CUDA_VISIBLE_DEVICES").Inside().As(fix.Look)}
	if view.Launch.ChoosesDevices() {
		commands = append(commands, fix.Note("use the same slots on {nodes} as on the other nodes, in the hostfile or with --include"))
	}
	return compare.Findings("adapters next to the GPUs that ranks use", compare.Differences(compare.Among(nodes, "adapters next to GPUs", rails)), checks.Finding{Remedy: commands})
}
