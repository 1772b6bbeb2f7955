package checks

import (
	"fmt"

	"preflight/facts"
)

// held are the expectations of a policy, held against a fleet.
type held struct{ statements []statement }

// heldKey is theirs in the Memory of an evaluation.
type heldKey struct{}

// hold holds all expectations against the fleet, of which see tells what a check can judge.
func hold(fleet facts.Fleet, policy Policy, see func(Check) Sight) *held {
	all := &held{}
	seen := map[facts.Section]sectionSight{}
	for _, e := range policy.Expect {
		s, err := readExpectation(e)
		section := sectionOf(s.about.Path)
		reason, rightly := fleet.NotTried[section]
		switch {
		case err != nil:
			s.unclear = []Finding{{Verdict: Unknown, Summary: fmt.Sprintf("%s: %v", e.At, err)}}
		case rightly:
			s.notTried = reason
		default:
			if seen[section].kinds.of == nil {
				seen[section] = look(see, section)
			}
			s.hold(seen[section])
		}
		all.statements = append(all.statements, s)
	}
	return all
}

// sectionSight is what the fleet shows of one section. Most nodes look like one of a few,
// and finding out which costs more than all that is then held against those.
type sectionSight struct {
	section facts.Section
	Sight
	kinds kinds
}

func look(see func(Check) Sight, section facts.Section) sectionSight {
	sight := see(Check{ID: ExpectationID, Needs: []facts.Section{section}})
	return sectionSight{section, sight, kindsOf(sight.Nodes, section)}
}

// hold looks at one node of each kind.
func (s *statement) hold(seen sectionSight) {
	for _, name := range seen.Unreached {
		if s.names(name) {
			s.sight.Unreached = append(s.sight.Unreached, name)
		}
	}
	for _, f := range seen.Unknown {
		if s.names(f.Nodes[0]) {
			s.sight.Unknown = append(s.sight.Unknown, f)
		}
	}
	holdings := make([]holding, len(seen.kinds.first))
	for _, node := range seen.Nodes {
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
