package checks

import (
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// nameTable is who resolves which hostfile name to what.
type nameTable struct {
	observers []*facts.Node
	targets   []*facts.Node       // entries of the hostfile that are names, not addresses
	answers   map[string][]answer // by entry; nodes that took a sample did not ask for all
}

// answer is what one node says of one name.
type answer struct {
	observer string // the entry of the node that was asked
	facts.Lookup
}

func newNameTable(view View) nameTable {
	t := nameTable{observers: view.Nodes, answers: map[string][]answer{}}
	for i := range view.All {
		if _, err := netip.ParseAddr(hostfile.Bare(view.All[i].Name)); err != nil {
			t.targets = append(t.targets, &view.All[i])
		}
	}
	for _, node := range view.Nodes {
		for _, lookup := range node.Names.Lookups {
			if !lookup.Unanswered {
				t.answers[lookup.Name] = append(t.answers[lookup.Name], answer{node.Name, lookup})
			}
		}
	}
	return t
}

// isOwnLoopback: what a node calls itself is judged by ownName.
func (a answer) isOwnLoopback() bool { return a.observer == a.Name && isLoopback(a.Addresses[0]) }

func (t nameTable) errorOf(observer, name string) string {
	for _, a := range t.answers[name] {
		if a.observer == observer && a.Error != "" {
			return a.Error
		}
	}
	return "does not resolve"
}

// rightAddresses is where a name should lead: what most nodes say or, first,
// what some node says that agrees with the address it was reached at. nil when
// there is neither; groups are all that was said, loopbacks left out.
func (t nameTable) rightAddresses(target *facts.Node) (right []string, groups []group) {
	at := map[string]int{}
	total := 0
	for _, a := range t.answers[target.Name] {
		if len(a.Addresses) == 0 || isLoopback(a.Addresses[0]) {
			continue
		}
		total++
		said := strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ")
		i, seen := at[said]
		if !seen {
			i = len(groups)
			at[said] = i
			groups = append(groups, group{Value: said})
		}
		groups[i].Nodes = append(groups[i].Nodes, a.observer)
	}
	for _, g := range groups {
		addresses := strings.Fields(g.Value)
		if 2*len(g.Nodes) > total && right == nil {
			right = addresses
		}
		if slices.Contains(addresses, target.Address) {
			return addresses, groups
		}
	}
	if right == nil && len(groups) == 0 && target.Address != "" {
		right = []string{target.Address} // nobody said anything but loopback
	}
	return right, groups
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(address string) bool { return slices.Contains(b, address) })
}

func bareNames(nodes []*facts.Node) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, hostfile.Bare(node.Name))
	}
	return names
}
