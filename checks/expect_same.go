package checks

import (
	"slices"
	"strconv"

	"preflight/facts"
)

// A stated expectation beats the majority: who misses one is at fault for that,
// however many they are, and the expectation check says it. Comparing them with the
// others once more would say it twice, and blame the wrong ones where they are most.

// meeting leaves out the nodes that miss what the policy states of a fact. They stay
// where the statement is a mere warning and the check asking is not: a launch that
// will fail must not pass for one that was warned of.
func (v View) meeting(nodes []*facts.Node, fact string) []*facts.Node {
	missed := map[string]bool{}
	for _, s := range v.statedOf(fact) {
		if s.weight() == Error || v.severity == Warning {
			for _, m := range s.missed {
				missed[m.node] = true
			}
		}
	}
	if len(missed) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return missed[n.Name] })
}

// alikeByPolicy parts a comparison so that nodes of which the policy states
// different things are not compared with each other.
func (v View) alikeByPolicy(a aspect, nodes []*facts.Node, fact string) []comparison {
	stated := v.statedOf(fact)
	nodes = v.meeting(nodes, fact)
	if len(stated) == 0 {
		return []comparison{{aspect: a, Among: nodes}}
	}
	parts := map[string]int{}
	var all []comparison
	for _, node := range nodes {
		key := ""
		for i, s := range stated {
			if s.concerns(node) {
				key += strconv.Itoa(i) + " "
			}
		}
		at, met := parts[key]
		if !met {
			at = len(all)
			parts[key] = at
			all = append(all, comparison{aspect: a})
		}
		all[at].Among = append(all[at].Among, node)
	}
	return all
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
