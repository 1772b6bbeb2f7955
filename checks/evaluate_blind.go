package checks

import (
	"fmt"

	"preflight/facts"
)

// blindness is what a check cannot see.
type blindness struct {
	head      string    // why the launching machine cannot be judged
	unreached []string  // nodes whose way in failed: a finding of an ssh check says so, once
	findings  []Finding // one unknown for each node that was reached and lacks a section
}

// visible parts the fleet into the nodes a check can judge and the others.
func visible(check Check, fleet facts.Fleet, policy Policy) (nodes []*facts.Node, blind blindness) {
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		reason := missing(check, node)
		stopped := !node.Reached || node.SSH != nil && node.SSH.Cause != ""
		switch unreached := stoppedBefore(check.ID, node) || reason != "" && stopped; {
		case unreached && node.SSH != nil && policy.SwitchesOff(rung(node.SSH)):
			blind.findings = append(blind.findings, notReached(node))
		case unreached:
			blind.unreached = append(blind.unreached, node.Name)
		case reason == "":
			nodes = append(nodes, node)
		default:
			blind.findings = append(blind.findings, unknown(node, reason))
		}
	}
	return nodes, blind
}

func everyNode(all []facts.Node) (nodes []*facts.Node) {
	for i := range all {
		nodes = append(nodes, &all[i])
	}
	return nodes
}

func headBlindness(check Check, head *facts.Node) blindness {
	if head == nil {
		return blindness{head: "the launching machine was not looked at"}
	}
	if reason := missing(check, head); reason != "" {
		return blindness{head: "launching machine: " + reason}
	}
	return blindness{}
}

// missing says why the node cannot be judged by the check, "" when it can.
func missing(check Check, node *facts.Node) string {
	for _, section := range check.Needs {
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
