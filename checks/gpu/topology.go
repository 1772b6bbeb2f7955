// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
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

var TopologyFile = checks.Check{
	ID:       "topology-file",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionEnv, facts.SectionIB},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		withFile := compare.Without(nodes, func(n *facts.Node) bool { return len(n.Env.Topology) == 0 && topologyNamed(view, n) == "" })
		if len(nodes) > 0 && len(withFile) == 0 {
			return append(findings, checks.Skipped("no node has a topology file for NCCL")...)
		}
		cardsOf := usedCards(view)
		for _, node := range withFile {
			if node.Env.Topology == nil {
				findings = append(findings, checks.UnknownFor(node, "env: the file that "+topologyNamed(view, node)+" names was not checked"))
			}
			for _, file := range node.Env.Topology {
				findings = append(findings, checks.OfNode(node, judgeTopology(view, node, file, cardsOf(node))...)...)
			}
		}
		for _, alike := range text.GroupBy(nodes, gpuKinds) {
			findings = append(findings, unlikeTopologies(alike.All)...)
		}
		return findings
	},
}

// topologyNamed returns the variable that names a topology file, or "" for none.
func topologyNamed(view checks.View, node *facts.Node) string {
	for _, variable := range []string{facts.TopologyVariable, facts.GraphVariable} {
		if ranks.Env(view, node).Get(variable).Value != "" {
			return variable
		}
	}
	return ""
}

// judgeTopology checks a topology file with the rules that NCCL follows when it reads the file.
//
// Source: NVIDIA/nccl 2.12 to 2.30.7, graph/xml.cc, ncclTopoGetXmlFromFile,
// ncclTopoGetXmlGraphFromFile and xmlLoadSub; graph/topo.cc, ncclTopoGetSystem, which drops entries
// without a device on the machine.
func judgeTopology(view checks.View, node *facts.Node, file facts.TopologyFile, cards []*facts.Card) []checks.Finding {
	setting := ranks.Env(view, node).Get(file.Variable)
	f := checks.Finding{Got: file.Path, Want: "the topology file of the vendor or the cloud for this machine type"}
	named := "NVIDIA's topology daemon left"
	if file.Variable != "" {
		named = file.Variable + " names"
		f.Got, f.Remedy = ranks.Origin(view, setting), ranks.TakeOut(view, setting)
	}
	if file.Variable == facts.GraphVariable {
		f.Want, f.WouldSee = "a file that NCCL wrote on such a machine (NCCL_GRAPH_DUMP_FILE), or no NCCL_GRAPH_FILE", "nothing: NCCL computes its own rings"
	}
	switch {
	case file.Unread != "":
		return []checks.Finding{checks.UnknownFor(node, "env: "+file.Path+": "+file.Unread)}
	case file.Malformed != "":
		f.Verdict, f.WouldSee = checks.Fail, "NCCL WARN XML Parse : expected >, got '?' (or another line that begins with XML), and ncclInternalError"
		f.Summary = "NCCL aborts: cannot parse the file that " + named
		f.Got += "; " + file.Malformed
		f.Want = "XML that NCCL can parse: no <?xml …?> in front, no tabs, each element on one line, version=\"1\""
		f.Remedy = append([]fix.Command{fix.On("head -c 300 %s | cat -A", fix.Path(file.Path)).Inside().As(fix.Look)}, f.Remedy...)
		return []checks.Finding{f}
	case file.Problem != "":
		f.Summary = "NCCL finds nothing in the file that " + named
		f.Got += "; " + file.Problem
		if file.Variable == facts.GraphVariable && file.Digest == "" {
			f.Verdict, f.WouldSee = checks.Fail, "NCCL WARN Could not open XML graph file "+file.Path+" : "+file.Problem
			f.Summary = "NCCL aborts: cannot open the file that " + named
		}
		f.Remedy = append([]fix.Command{fix.On("ls -l %s", fix.Path(file.Path)).Inside().As(fix.Look)}, f.Remedy...)
		return []checks.Finding{f}
	}
	var missed []string
	if gpus := unplacedGPUs(file, cards); gpus != nil {
		missed = append(missed, fmt.Sprintf("the node's GPUs are at %s, those in the file at %s", strings.Join(gpus, ", "), strings.Join(file.GPUs, ", ")))
	}
	if adapters := unplacedAdapters(view, node, file); adapters != nil {
		missed = append(missed, fmt.Sprintf("the node's adapters are at %s, those in the file at %s", strings.Join(adapters, ", "), strings.Join(file.NICs, ", ")))
	}
	if missed == nil {
		return nil
	}
	f.Summary = "the file that " + named + " does not match this machine"
	f.Got += "; " + strings.Join(missed, "; ")
	f.WouldSee = "no error: NCCL places the missing devices where the machine shows them, and transfers between nodes are slow"
	return []checks.Finding{f}
}

// unplacedGPUs returns the GPUs that the file leaves out, if the file contains GPUs at all.
func unplacedGPUs(file facts.TopologyFile, cards []*facts.Card) (addresses []string) {
	for _, card := range cards {
		if len(file.GPUs) > 0 && card.Address != "" && !slices.Contains(file.GPUs, card.Address) {
			addresses = append(addresses, card.Address)
		}
	}
	return addresses
}

// unplacedAdapters returns the adapters that NCCL uses, if the file contains adapters but none of
// these. A single further port is often left out, such as the port of a virtual machine's own
// network. The function compares buses, because the PCI function that NCCL uses depends on how NCCL
// merges ports.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/init.cc, ncclIbGetPciPath.
func unplacedAdapters(view checks.View, node *facts.Node, file facts.TopologyFile) (addresses []string) {
	bus := func(address string) string { return address[:max(0, strings.LastIndexByte(address, ':'))] }
	placed := map[string]bool{}
	for _, address := range file.NICs {
		placed[bus(address)] = true
	}
	for _, port := range ranks.NCCLNetwork(view, node).Ports {
		path := port.Adapter.Path
		if len(path) == 0 || len(file.NICs) == 0 || placed[bus(path[len(path)-1])] {
			return nil
		}
		addresses = append(addresses, path[len(path)-1])
	}
	return slices.Compact(addresses)
}

// gpuKinds returns the names of a node's GPUs. Machines with other GPUs need other topology files.
func gpuKinds(node *facts.Node) string {
	return strings.Join(text.Map(node.NVML.Cards, func(card facts.Card) string { return card.Name }), ", ")
}

// unlikeTopologies compares the topology files on nodes of one type. With different files, nodes
// use different rings, and the slowest ring limits all of them.
func unlikeTopologies(nodes []*facts.Node) []checks.Finding {
	digest := func(isGraph bool) func(*facts.Node) string {
		return func(node *facts.Node) string {
			for _, file := range node.Env.Topology {
				if (file.Variable == facts.GraphVariable) == isGraph {
					return file.Digest[:min(len(file.Digest), 12)]
				}
			}
			return ""
		}
	}
	isOdd := func(file facts.TopologyFile) bool { return file.Problem+file.Malformed+file.Unread != "" }
	seen := compare.Without(nodes, func(n *facts.Node) bool { return n.Env.Topology == nil || slices.ContainsFunc(n.Env.Topology, isOdd) })
	var sums []fix.Command
	for _, node := range seen {
		for _, file := range node.Env.Topology {
			sum := fix.On("sha256sum %s", fix.Path(file.Path)).Inside().As(fix.Look)
			if !slices.ContainsFunc(sums, sum.Is) {
				sums = append(sums, sum)
			}
		}
	}
	differences := compare.Differences(compare.Among(seen, "topology file", digest(false)), compare.Among(seen, "graph file", digest(true)))
	return compare.Findings("topology files of NCCL", differences, checks.Finding{
		WouldSee: "no error: NCCL finds other rings on these nodes, and all nodes use the fewest and slowest",
		Remedy:   append(sums, fix.Note("copy the files of the other nodes of this type to {nodes}")),
	})
}

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
			return gpuKinds(node) + strconv.Itoa(len(near[node])) + strings.Join(text.Map(ranks.NCCLNetwork(view, node).Ports, nccl.HCAPort.Name), ",")
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
