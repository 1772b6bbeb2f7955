// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

var PathMTU = checks.Check{
	ID:       "path-mtu",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionMesh, facts.SectionNet},
	Run: func(view checks.View) []checks.Finding {
		if findings := blackHoles(view); findings != nil {
			return findings
		}
		return unlikeMTUs(view)
	},
}

// blackHoles returns findings for lost full packets. Each finding is about nodes, groups of nodes
// or directions.
func blackHoles(view checks.View) []checks.Finding {
	if !slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool { return slices.ContainsFunc(node.Mesh.Failed, proof.LosesPackets) }) {
		return nil
	}
	var sent []proof.Attempt
	seen := map[string]*facts.Node{}
	for _, node := range view.Nodes {
		seen[node.Name] = node
	}
	for _, node := range view.Nodes {
		for peer := range node.Mesh.Reached {
			if seen[peer] != nil && peer != node.Name {
				sent = append(sent, proof.Attempt{From: node.Name, To: peer}, proof.Attempt{From: peer, To: node.Name})
			}
		}
		for i := range node.Mesh.Failed {
			path := &node.Mesh.Failed[i]
			if !proof.LosesPackets(*path) || seen[path.Peer] == nil {
				continue
			}
			from, to := node.Name, path.Peer
			if path.Stuck == "from" {
				from, to = to, from
			}
			sent = append(sent, proof.Attempt{From: from, To: to, Failed: true, How: string(path.Outcome), Path: path})
		}
	}
	var findings []checks.Finding
	for _, s := range proof.Suspects(checks.NamesOf(view.Nodes), sent) {
		first := s.Failed[0]
		f := checks.Finding{
			Nodes:   s.Nodes,
			Summary: "full packets are lost, small ones pass: " + s.Sentence(vanishing),
			Got:     fmt.Sprintf("a segment of %d bytes is lost from %s to %s", first.Path.MSS, first.From, first.To),
			Want:    "an MTU on both ends that the whole path can carry",
			Remedy:  []fix.Command{fullPing(seen[first.From], seen[first.To], first.Path.MSS)},
		}
		if !ranks.UsesNCCL(view) {
			f.WouldSee = "a hang at the first large collective, until its timeout of 30 minutes: Timed out waiting … for recv operation to complete"
		}
		if at := meshInterface(seen[s.Nodes[0]]); at.MTU != 0 {
			f.Got += fmt.Sprintf("; the MTU of %s on %s is %d", at.Name, s.Nodes[0], at.MTU)
			cure := fix.On("sudo iptables -S; sudo nft list ruleset   # look for rules that drop long packets: a smaller MTU would not help").As(fix.Look)
			if at.MTU > narrower(at.MTU) {
				cure = fix.On("sudo ip link set dev %s mtu %s   # or raise the MTU of the switch ports and tunnels there", fix.Name(at.Name), fix.Number(narrower(at.MTU)))
			}
			f.Remedy = append(f.Remedy, cure)
		}
		blameLength(seen, s.Failed, &f)
		findings = append(findings, f)
	}
	return findings
}

// unlikeMTUs compares the MTUs of the interfaces on each network.
func unlikeMTUs(view checks.View) []checks.Finding {
	networks := map[string][]*facts.Node{}
	for _, node := range view.Nodes {
		network, known := names.NetworkOf(node, node.Mesh.Address)
		if known && meshInterface(node).MTU != 0 {
			networks[network.String()] = append(networks[network.String()], node)
		}
	}
	var findings []checks.Finding
	mtu := func(n *facts.Node) string { return fmt.Sprint(meshInterface(n).MTU) }
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		name := networks[network][0].Mesh.Interface
		mtus := compare.Among(networks[network], "MTU", mtu).Recorded(view, facts.SectionNet, func(n *facts.Node) string { return fmt.Sprint(names.InterfaceOf(n.Net, name).MTU) })
		if mtus.Baseline != nil && *mtus.Baseline == "0" {
			mtus.Baseline = nil // there was no such interface then
		}
		for _, d := range compare.Differences(compare.ByPolicy(view, mtus, "net.interfaces."+name+".mtu")...) {
			f := d.Finding("MTUs on the network of the ranks")
			f.Verdict = checks.Warn
			f.WouldSee = "nothing over TCP; over RoCE, Got completion … with status=12 (retry exceeded)"
			f.Remedy = []fix.Command{fix.On("ip link show").As(fix.Look)}
			if either := remedy.EitherWay(d, func(d compare.Difference) []fix.Command { return setMTU(networks[network], d) }); either != nil {
				f.Remedy = append(f.Remedy, either...)
			}
			if set := setMTU(networks[network], d); !d.Split && set != nil {
				got := d.Deviations[0].Got
				if less(got, d.Deviations[0].Want) && !d.Deviations[0].Recorded { // lost full packets are fixed by lowering the MTU, and raising it would bring them back
					set[0] = set[0].Remark("if it was lowered because full packets were lost, lower the others to %s instead", fix.Text(got))
				}
				f.Remedy = set
			}
			findings = append(findings, f)
		}
	}
	return findings
}

// setMTU returns the command that gives the nodes of d the MTU that d wants. It returns nil if the
// interfaces of these nodes have different names.
func setMTU(nodes []*facts.Node, d compare.Difference) []fix.Command {
	odd := compare.Without(nodes, func(n *facts.Node) bool { return !slices.Contains(d.Nodes, n.Name) })
	name := proof.Common(odd, func(n *facts.Node) string { return n.Mesh.Interface })
	if name == "" {
		return nil
	}
	return []fix.Command{fix.On("sudo ip link set dev %s mtu %s   # until the next boot", fix.Name(name), fix.Name(d.Deviations[0].Want))}
}

func less(mtu, other string) bool {
	a, errA := strconv.Atoi(mtu)
	b, errB := strconv.Atoi(other)
	return errA == nil && errB == nil && a < b
}

// meshInterface returns the interface on which a node listened in the mesh test.
func meshInterface(node *facts.Node) facts.Interface {
	return names.InterfaceOf(node.Net, node.Mesh.Interface)
}

// fullPing returns a ping command with a full packet. Its payload is the smaller of both MTUs
// without the headers of IP and ICMP.
func fullPing(from, to *facts.Node, mss int) fix.Command {
	headers := 28
	if strings.Contains(to.Mesh.Address, ":") {
		headers = 48
	}
	payload := max(min(meshInterface(from).MTU, meshInterface(to).MTU)-headers, mss) // the payload is mss if an MTU is unknown
	return fix.On("ping -c 1 -M do -s %s %s", fix.Number(payload), fix.Host(to.Mesh.Address)).At(from.Name).
		Remark("lower -s until it passes: the MTU is %s more", fix.Number(headers)).As(fix.Look)
}

// narrower returns a smaller MTU, for a path that loses full packets. It is Ethernet's 1500 for a
// larger MTU, otherwise 1280, the minimum for IPv6.
func narrower(mtu int) int {
	if mtu > 1500 {
		return 1500
	}
	return 1280
}

// vanishing holds the words that say where full packets are lost.
var vanishing = proof.Words{
	proof.Everywhere: {"between all of the nodes"},
	proof.Between:    {"", "between %s"},
	proof.Inbound:    {"from every other node", "from %s"},
	proof.Outbound:   {"to every other node", "to %s"},
	proof.BothWays:   {"to and from every other node", "to and from %s"},
	proof.Directions: {"between some nodes", "%s"},
}
