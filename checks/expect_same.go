package checks

import (
	"slices"

	"preflight/facts"
)

// A stated expectation beats the majority: who misses one is at fault for that,
// however many they are, and the expectation check says it. Comparing them with the
// others once more would say it twice, and blame the wrong ones where they are most.

// meeting leaves out the nodes that miss what the policy states of a fact. They stay
// where that will not count, or not as much as what the check asking may find: a launch
// that will fail must not pass for one that was warned of, or whose defect is waived.
func (v View) meeting(nodes []*facts.Node, fact string) []*facts.Node {
	missed := map[string]bool{}
	for _, s := range v.statedOf(fact) {
		if s.weight(v.Policy) == Warn && v.severity == Error {
			continue
		}
		for _, m := range s.missed {
			missed[m.node] = missed[m.node] || !v.waiving.waives(Finding{Check: expectation.ID, Fact: m.fact}, m.node)
		}
	}
	if len(missed) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return missed[n.Name] })
}

// statedOf are the expectations of a fact, none where they are switched off.
func (v View) statedOf(fact string) (stated []*statement) {
	if v.Policy.SwitchesOff(expectation.ID) {
		return nil
	}
	for i := range v.stated {
		if s := &v.stated[i]; s.path.MatchString(fact) {
			stated = append(stated, s)
		}
	}
	return stated
}

// packagePath is the fact of an installed package's version.
func packagePath(name string) string { return "python.packages." + name }
