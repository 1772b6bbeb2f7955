package checks

import (
	"fmt"

	"preflight/facts"
)

// hold holds all expectations against the fleet.
func hold(fleet facts.Fleet, policy Policy) []statement {
	var held []statement
	seen := map[facts.Section]sight{}
	for _, e := range policy.Expect {
		s, err := e.read()
		section := sectionOf(s.about.Path)
		reason, rightly := fleet.NotTried[section]
		switch {
		case err != nil:
			s.unclear = []Finding{{Verdict: Unknown, Summary: fmt.Sprintf("%s: %v", e.At, err)}}
		case rightly:
			s.notTried = reason
		default:
			if seen[section].kinds.of == nil {
				seen[section] = sightOf(fleet, policy, section)
			}
			s.hold(seen[section])
		}
		held = append(held, s)
	}
	return held
}

// sight is what the fleet shows of one section. Most nodes look like one of a few,
// and finding out which costs more than all that is then held against those.
type sight struct {
	section facts.Section
	nodes   []*facts.Node
	blind   blindness
	kinds   kinds
}

func sightOf(fleet facts.Fleet, policy Policy, section facts.Section) sight {
	nodes, blind := visible(Check{ID: expectation.ID, Needs: []facts.Section{section}}, fleet, policy)
	return sight{section, nodes, blind, kindsOf(nodes, section)}
}

// hold looks at one node of each kind.
func (s *statement) hold(seen sight) {
	for _, name := range seen.blind.unreached {
		if s.names(name) {
			s.blind.unreached = append(s.blind.unreached, name)
		}
	}
	for _, f := range seen.blind.findings {
		if s.names(f.Nodes[0]) {
			s.blind.findings = append(s.blind.findings, f)
		}
	}
	holdings := make([]holding, len(seen.kinds.first))
	for _, node := range seen.nodes {
		if !s.names(node.Name) {
			continue
		}
		at := &holdings[seen.kinds.of[node]]
		if at.verdict == "" || s.Fact == peersMTU { // which interface it is, is each node's own
			*at = s.judge(node, seen.section)
		}
		switch at.verdict {
		case Pass:
			s.met = true
		case Unknown:
			s.unclear = append(s.unclear, Finding{Verdict: Unknown, Explained: at.explained, Nodes: []string{node.Name}, Summary: at.told})
		default:
			s.missed = append(s.missed, miss{node.Name, at.fact, at.told})
		}
	}
}
