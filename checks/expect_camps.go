package checks

import (
	"encoding/json"
	"slices"
	"strconv"

	"preflight/facts"
)

// camp is nodes that the policy itself has unlike all others: no value seen among them
// is allowed elsewhere, and none seen elsewhere is allowed among them.
type camp struct {
	keys   []string        // which statements concern its nodes
	stated [][]*statement  // the same statements, for each key
	values map[string]bool // seen on nodes that are as stated
}

// alikeByPolicy parts a comparison where the policy demands that nodes differ: the
// driver is "==550.54.15" of some and "==570.86.15" of others, and that is what they
// have. Anything weaker parts nothing, for it does not say that they shall differ, and
// a fleet that differs must not pass for it. A node of which nothing is stated belongs
// to those that have what it has; where nobody has, all are compared with all.
func (v View) alikeByPolicy(a aspect, nodes []*facts.Node, fact string) []comparison {
	nodes = v.meeting(nodes, fact)
	whole := []comparison{{aspect: a, Among: nodes}}
	camps := campsOf(a, nodes, v.statedOf(fact))
	if len(camps) < 2 {
		return whole
	}
	parts := make([]comparison, len(camps))
	for _, node := range nodes {
		key, _ := concerning(v.statedOf(fact), node)
		home := slices.IndexFunc(camps, func(c camp) bool { return slices.Contains(c.keys, key) })
		if home < 0 {
			home = slices.IndexFunc(camps, func(c camp) bool { return c.values[a.Value(node)] })
		}
		if home < 0 {
			return whole
		}
		parts[home].aspect = a
		parts[home].Among = append(parts[home].Among, node)
	}
	return parts
}

// concerning are the statements of a fact that concern a node, and a name for these.
func concerning(stated []*statement, node *facts.Node) (key string, those []*statement) {
	for i, s := range stated {
		if s.names(node.Name) {
			key += strconv.Itoa(i) + " "
			those = append(those, s)
		}
	}
	return key, those
}

// campsOf are the camps of a comparison. Only nodes that are as stated of them make one;
// what the policy allows on both sides joins two into one.
func campsOf(a aspect, nodes []*facts.Node, stated []*statement) []camp {
	var each []camp
	at := map[string]int{}
	for _, node := range nodes {
		key, those := concerning(stated, node)
		value := a.Value(node)
		if those == nil || !allow(those, value) {
			continue
		}
		i, met := at[key]
		if !met {
			i = len(each)
			at[key] = i
			each = append(each, camp{keys: []string{key}, stated: [][]*statement{those}, values: map[string]bool{}})
		}
		each[i].values[value] = true
	}
	var camps []camp
	for _, one := range each {
		apart := camps[:0:0]
		for _, other := range camps {
			if one.against(other) && other.against(one) {
				apart = append(apart, other)
				continue
			}
			one.keys, one.stated = append(one.keys, other.keys...), append(one.stated, other.stated...)
			for value := range other.values {
				one.values[value] = true
			}
		}
		camps = append(apart, one)
	}
	return camps
}

// against is whether nothing that is seen in one camp is allowed in the other.
func (c camp) against(other camp) bool {
	for value := range c.values {
		if slices.ContainsFunc(other.stated, func(those []*statement) bool { return allow(those, value) }) {
			return false
		}
	}
	return true
}

// allow is whether all statements take a value, which is written as nodes tell it.
func allow(those []*statement, value string) bool {
	for _, s := range those {
		told := value
		if s.about.Kind == facts.Text && value != "" {
			text, err := json.Marshal(value)
			if err != nil {
				return false
			}
			told = string(text)
		}
		if allowed, err := s.allows(told); err != nil || !allowed {
			return false
		}
	}
	return true
}
