// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"maps"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/facts"
)

// A stated expectation beats the majority: who misses one is at fault for that,
// however many they are, and the expectation check says it. Comparing them with the
// others once more would say it twice, and blame the wrong ones where they are most.

// PackagePath is the fact of an installed package's version.
func PackagePath(name string) string { return "python.packages." + name }

// AsStated leaves out the nodes that miss what the policy states of a fact.
func AsStated(view checks.View, nodes []*facts.Node, fact string) []*facts.Node {
	return meeting(nodes, statedOf(view, fact))
}

func meeting(nodes []*facts.Node, stated []checks.Stated) []*facts.Node {
	misses := func(n *facts.Node) bool {
		return slices.ContainsFunc(stated, func(s checks.Stated) bool { return s.Missed[n.Name] })
	}
	return Without(nodes, misses)
}

// Without leaves some out, nodes mostly, of which mostly none is: then it is all of them.
func Without[T any](all []T, is func(T) bool) []T {
	if !slices.ContainsFunc(all, is) {
		return slices.Clip(all)
	}
	return slices.DeleteFunc(slices.Clone(all), is)
}

// Split returns the values that are so, and the others, both in their order.
func Split[T any](all []T, is func(T) bool) (those, rest []T) {
	for _, each := range all {
		if is(each) {
			those = append(those, each)
		} else {
			rest = append(rest, each)
		}
	}
	return those, rest
}

func statedOf(view checks.View, fact string) []checks.Stated {
	if view.Stated == nil {
		return nil
	}
	return view.Stated(fact)
}

// side is nodes that the policy itself has unlike all others: no value seen among them
// is allowed elsewhere, and none seen elsewhere is allowed among them.
type side struct {
	keys   []string          // which statements concern its nodes
	stated [][]checks.Stated // the same statements, for each key
	values map[string]bool   // seen on nodes that are as stated
}

// ByPolicy partitions a comparison where the policy demands that nodes differ: the
// driver is "==550.54.15" of some and "==570.86.15" of others, and that is what they
// have. Anything weaker partitions nothing, for it does not say that they shall differ, and
// a fleet that differs must not pass for it. A node of which nothing is stated belongs
// to those that have what it has; where nobody has, all are compared with all.
func ByPolicy(view checks.View, a Comparison, fact string) []Comparison {
	stated := statedOf(view, fact)
	a.Among = meeting(a.Among, stated)
	sides := sidesOf(a, stated)
	if len(sides) < 2 {
		return []Comparison{a}
	}
	partitions := make([]Comparison, len(sides))
	for _, node := range a.Among {
		key, _ := concerning(stated, node)
		home := slices.IndexFunc(sides, func(p side) bool { return slices.Contains(p.keys, key) })
		if home < 0 {
			home = slices.IndexFunc(sides, func(p side) bool { return p.values[a.Value(node)] })
		}
		if home < 0 {
			return []Comparison{a}
		}
		partitions[home] = Among(append(partitions[home].Among, node), a.Name, a.Value)
	}
	return partitions
}

func concerning(stated []checks.Stated, node *facts.Node) (key string, those []checks.Stated) {
	for i, s := range stated {
		if s.Of(node.Name) {
			key += strconv.Itoa(i) + " "
			those = append(those, s)
		}
	}
	return key, those
}

// sidesOf are the sides of a comparison. Only nodes that are as stated of them make one;
// what the policy allows on both sides joins two into one.
func sidesOf(a Comparison, stated []checks.Stated) []side {
	if len(stated) == 0 {
		return nil
	}
	var each []side
	at := map[string]int{}
	for _, node := range a.Among {
		key, those := concerning(stated, node)
		value := a.Value(node)
		if those == nil || !allow(those, value) {
			continue
		}
		i, met := at[key]
		if !met {
			i = len(each)
			at[key] = i
			each = append(each, side{keys: []string{key}, stated: [][]checks.Stated{those}, values: map[string]bool{}})
		}
		each[i].values[value] = true
	}
	var sides []side
	for _, one := range each {
		apart := sides[:0:0]
		for _, other := range sides {
			if one.against(other) && other.against(one) {
				apart = append(apart, other)
				continue
			}
			one.keys, one.stated = append(one.keys, other.keys...), append(one.stated, other.stated...)
			maps.Copy(one.values, other.values)
		}
		sides = append(apart, one)
	}
	return sides
}

func (p side) against(other side) bool {
	for value := range p.values {
		if slices.ContainsFunc(other.stated, func(those []checks.Stated) bool { return allow(those, value) }) {
			return false
		}
	}
	return true
}

func allow(those []checks.Stated, value string) bool {
	return !slices.ContainsFunc(those, func(s checks.Stated) bool { return !s.Allows(value) })
}
