package checks

import "preflight/facts"

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
	case c.OnHead, c.ID == policyInForce.ID:
		return "", false
	case stoppedBefore(c.ID, node), missing(c, node) != "", c.FromPolicy && !node.Reached:
		return Unknown, true
	case outcome.Verdict == Pass:
		return Pass, true
	}
	return "", true
}
