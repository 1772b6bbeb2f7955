package checks

import (
	"fmt"

	"preflight/facts"
)

// Sight is which nodes a check can judge, and why not the others.
type Sight struct {
	Nodes     []*facts.Node
	Head      string    // why the launching machine cannot be judged
	Unreached []string  // nodes whose way in failed: a finding of an ssh check says so, once
	Unknown   []Finding // one for each node that was reached and lacks a section
}

// Missing says why a node cannot be judged by the check, "" when it can.
func (c Check) Missing(node *facts.Node) string {
	for _, section := range c.Needs {
		if node.Has(section) {
			continue
		}
		if reason := node.Missing[section]; reason != "" {
			return fmt.Sprintf("%s: %s", section, reason)
		}
		return fmt.Sprintf("%s: not looked at", section)
	}
	return ""
}

// Beyond is whether the way in to a node ended at a rung below the check's: it has nothing
// to judge there then.
func (c Check) Beyond(node *facts.Node) bool {
	if c.Rung == 0 {
		return false
	}
	rung, _ := c.Stopped(node)
	return rung > 0 && rung < c.Rung
}

// Everywhere is the whole fleet, as a check gets nodes.
func (v View) Everywhere() (nodes []*facts.Node) {
	for i := range v.All {
		nodes = append(nodes, &v.All[i])
	}
	return nodes
}

// Unnamed is what a check that came to an outcome says of a node that none of its
// findings names: Unknown where it could not look at the node, Skip where it does not
// apply, Pass where all of it passed. A check names those with whom something is wrong, and
// not those with whom all is well: where it found something elsewhere, or could not judge
// everything, the verdict is "", for nothing is said of the others.
//
// judges is false where the check is of the launching machine or of the policy, and says
// nothing of any node.
func (c Check) Unnamed(outcome Outcome, node *facts.Node) (verdict Verdict, judges bool) {
	switch {
	case outcome.Verdict == Skip && outcome.Reason != AllWaived:
		return Skip, true
	case c.OnHead, c.ID == PolicyID:
		return "", false
	case c.Beyond(node), c.Missing(node) != "", c.FromPolicy && !node.Reached:
		return Unknown, true
	case outcome.Verdict == Pass:
		return Pass, true
	}
	return "", true
}
