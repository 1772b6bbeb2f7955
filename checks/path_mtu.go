package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

var pathMTU = Check{
	ID:       "path-mtu",
	Title:    "packets of full size cross every path between the nodes, and their MTUs agree",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionMesh, facts.SectionNet},
	Doc: "The mesh drill sends more than a packet's worth both ways over every connection. Where a switch carries less than the interfaces believe, " +
		"the handshake and small messages pass and full packets vanish without a word: a black hole, which fails. MTUs that merely differ on one " +
		"network are warned of: TCP's ends tell each other their segment size, RoCE and jumbo frames have no such luck.",
	WouldSee: "a hang at the first large collective: Watchdog caught collective operation timeout: WorkNCCL(…) ran for 600000 milliseconds before timing out",
	Run: func(view View) []Finding {
		if findings := blackHoles(view); findings != nil {
			return findings
		}
		return unlikeMTUs(view)
	},
}

func losesPackets(path facts.Path) bool { return path.Outcome == facts.PathBlackhole }

// blackHoles blames full packets that vanish on nodes, groups or directions.
func blackHoles(view View) []Finding {
	if !slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool { return slices.ContainsFunc(node.Mesh.Failed, losesPackets) }) {
		return nil
	}
	var names []string
	var sent []attempt
	var paths []*facts.Path // of each that failed
	seen := map[string]*facts.Node{}
	for _, node := range view.Nodes {
		names = append(names, node.Name)
		seen[node.Name] = node
	}
	for _, node := range view.Nodes {
		for peer := range node.Mesh.Reached {
			if seen[peer] != nil && peer != node.Name {
				sent = append(sent, attempt{from: node.Name, to: peer}, attempt{from: peer, to: node.Name})
				paths = append(paths, nil, nil)
			}
		}
		for i := range node.Mesh.Failed {
			path := &node.Mesh.Failed[i]
			if !losesPackets(*path) || seen[path.Peer] == nil {
				continue
			}
			from, to := node.Name, path.Peer
			if path.Stuck == "from" {
				from, to = to, from
			}
			sent, paths = append(sent, attempt{from: from, to: to, failed: true, how: string(path.Outcome)}), append(paths, path)
		}
	}
	var findings []Finding
	for _, s := range suspects(names, sent) {
		path := paths[s.failed[0]]
		first := sent[s.failed[0]]
		f := Finding{
			Nodes:   s.nodes,
			Summary: "full packets vanish, small ones pass: " + vanishing(s, sent),
			Got:     fmt.Sprintf("a segment of %d bytes is lost from %s to %s", path.MSS, first.from, first.to),
			Want:    "an MTU that the whole path carries, on both ends",
			Remedy:  []fix.Command{fullPing(seen[first.from], seen[first.to], path.MSS)},
		}
		if at := meshInterface(seen[s.nodes[0]]); at.MTU != 0 {
			f.Got += fmt.Sprintf("; the MTU of %s on %s is %d", at.Name, s.nodes[0], at.MTU)
			f.Remedy = append(f.Remedy, fix.On("sudo ip link set dev %s mtu %s   # or raise the MTU of the switch ports and tunnels there", fix.Name(at.Name), fix.Number(narrower(at.MTU))))
		}
		findings = append(findings, f)
	}
	return findings
}
