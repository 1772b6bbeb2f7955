package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// aspect is one thing to compare across nodes.
type aspect struct {
	Name  string
	Value func(*facts.Node) string // "" where the node does not have it
}

// deviation is one aspect in which nodes differ from what most nodes have.
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

// differences compares the aspects one by one and gathers them by the nodes
// that stand apart, in the order they were met.
func differences(nodes []*facts.Node, aspects []aspect) []difference {
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
	for _, a := range aspects {
		groups := groupBy(nodes, a.Value)
		switch {
		case len(groups) < 2:
		case 2*len(groups[0].Nodes) > len(nodes):
			for _, g := range groups[1:] {
				add(g.Nodes, false, deviation{a.Name, g.Value, groups[0].Value})
			}
		default:
			var all, parts []string
			for _, g := range groups {
				all = append(all, g.Nodes...)
				parts = append(parts, shown(g.Value)+" on "+hostfile.Fold(g.Nodes))
			}
			add(all, true, deviation{Name: a.Name, Got: strings.Join(parts, ", ")})
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
