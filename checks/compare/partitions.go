// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"maps"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/facts"
)

// An expectation of the policy outweighs the majority. The expectation check reports all nodes that
// miss an expectation, however many they are. Comparing these nodes with the other nodes as well
// would report them twice. It would also blame the wrong nodes if most nodes miss the expectation.

// PackagePath returns the path of the fact that holds a package's version.
func PackagePath(name string) string { return "python.packages." + name }

// AsStated returns the given nodes, but leaves out those that miss an expectation of the policy on
// a fact.
func AsStated(view checks.View, nodes []*facts.Node, fact string) []*facts.Node {
	return meeting(nodes, StatedOf(view, fact))
}

func meeting(nodes []*facts.Node, stated []checks.Stated) []*facts.Node {
	misses := func(n *facts.Node) bool {
		return slices.ContainsFunc(stated, func(s checks.Stated) bool { return s.Missed[n.Name] })
	}
	return Without(nodes, misses)
}

// Without returns the elements for which is returns false. In the usual case, where is returns
// false for all elements, Without returns the slice itself and not a copy.
func Without[T any](all []T, is func(T) bool) []T {
	if !slices.ContainsFunc(all, is) {
		return slices.Clip(all)
	}
	return slices.DeleteFunc(slices.Clone(all), is)
}

// Split divides values into those for which is returns true and the rest. Both parts keep their
// order.
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

// StatedOf returns the policy's expectations for a fact, nil for none.
func StatedOf(view checks.View, fact string) []checks.Stated {
	if view.Stated == nil {
		return nil
	}
	return view.Stated(fact)
}

// side is a group of nodes that the policy itself wants to be different from all other nodes. The
// policy allows none of the group's values on other nodes, and no value of other nodes in the
// group.
type side struct {
	keys   []string          // each key identifies the statements that apply to a node
	stated [][]checks.Stated // the statements of each key
	values map[string]bool   // the values of the nodes that meet the statements
}

// ByPolicy divides a comparison if the policy demands that nodes differ. For example, the policy
// states the driver "==550.54.15" for some nodes and "==570.86.15" for others, and the nodes have
// these drivers. A weaker statement divides nothing: it does not demand a difference, and a fleet
// with differences must not pass.
//
// A node without a statement is compared with the nodes that have the same value. If no node has
// the same value, all nodes are compared with each other.
func ByPolicy(view checks.View, a Comparison, fact string) []Comparison {
	stated := StatedOf(view, fact)
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

// sidesOf returns the sides of a comparison. Only nodes that meet their statements form a side. If
// the policy allows a value on two sides, the two sides are merged.
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

// InBaseline returns the facts that the baseline has of a node. It returns nil if there is no
// baseline, or if the baseline has not seen this section of the node.
func InBaseline(view checks.View, node *facts.Node, section facts.Section) *facts.Node {
	if view.Policy.Baseline == nil {
		return nil
	}
	before := checks.Remember(view, beforeKey{}, func() map[string]*facts.Node {
		byName := map[string]*facts.Node{}
		for i := range view.Policy.Baseline.Nodes {
			was := &view.Policy.Baseline.Nodes[i]
			byName[was.Name] = was
		}
		return byName
	})
	if was := before[node.Name]; was != nil && was.Reached && was.Has(section) {
		return was
	}
	return nil
}

// beforeKey is the key under which an evaluation remembers the nodes of the baseline by name.
type beforeKey struct{}
