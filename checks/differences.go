package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// comparison is one thing to compare across those nodes that can be compared in it.
type comparison struct {
	Name  string
	Value func(*facts.Node) string // "" where the node does not have it
	Among []*facts.Node
	// Want is right whatever most nodes have, if any has it; "" where nobody says.
	Want string
}

// among compares nodes in one thing.
func among(nodes []*facts.Node, name string, value func(*facts.Node) string) comparison {
	return comparison{Name: name, Value: value, Among: nodes}
}

// deviation is one thing in which nodes differ from what most nodes have.
type deviation struct {
	Name, Got, Want string
}

// difference is all that the same nodes have otherwise: one machine that was
// not updated is one cause, however many packages it shows in.
type difference struct {
	Nodes []string
	// Split says that no value has a majority: nobody is to blame, Nodes are
	// all of them, Got names every group and Want is empty.
	Split      bool
	Deviations []deviation
}

// agreed is whether all have one value, as nearly always.
func (c comparison) agreed() bool {
	if len(c.Among) == 0 {
		return true
	}
	first := c.Value(c.Among[0])
	return !slices.ContainsFunc(c.Among[1:], func(node *facts.Node) bool { return c.Value(node) != first })
}

// compare makes the comparisons one by one and gathers what differs by the nodes
// that stand apart, in the order they were met.
func compare(all ...comparison) []difference {
	var found []difference
	at := map[string]int{}
	add := func(nodes []string, split bool, d deviation) {
		key := fmt.Sprint(split, nodes)
		i, seen := at[key]
		if !seen {
			i = len(found)
			at[key] = i
			found = append(found, difference{Nodes: nodes, Split: split})
		}
		found[i].Deviations = append(found[i].Deviations, d)
	}
	for _, c := range all {
		if c.agreed() {
			continue
		}
		groups := groupBy(c.Among, c.Value)
		right := -1
		if c.Want != "" {
			right = slices.IndexFunc(groups, func(g group) bool { return g.Value == c.Want })
		}
		if right < 0 && len(groups) > 0 && 2*len(groups[0].Nodes) > len(c.Among) {
			right = 0
		}
		switch {
		case len(groups) < 2:
		case right >= 0:
			for i, g := range groups {
				if i != right {
					add(g.Nodes, false, deviation{Name: c.Name, Got: g.Value, Want: groups[right].Value})
				}
			}
		default:
			var everyone, parts []string
			for _, g := range groups {
				everyone = append(everyone, g.Nodes...)
				parts = append(parts, shown(g.Value)+" on "+hostfile.Fold(g.Nodes))
			}
			add(everyone, true, deviation{Name: c.Name, Got: strings.Join(parts, ", ")})
		}
	}
	return found
}

// finding puts the difference into words; what names the things compared.
func (d difference) finding(what string) Finding {
	var got, want []string
	for _, dev := range d.Deviations {
		got = append(got, dev.Name+" "+shown(dev.Got))
		want = append(want, dev.Name+" "+shown(dev.Want))
	}
	if d.Split {
		return Finding{
			Nodes:   d.Nodes,
			Summary: what + " differ and no value has a majority",
			Got:     strings.Join(got, "; "),
			Want:    "one value everywhere",
		}
	}
	return Finding{
		Nodes:   d.Nodes,
		Summary: what + " differ from the other nodes",
		Got:     strings.Join(got, ", "),
		Want:    strings.Join(want, ", ") + ", as on most nodes",
	}
}
