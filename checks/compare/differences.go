// SPDX-License-Identifier: Apache-2.0

// Package compare compares nodes, versions and sizes. It finds the nodes that differ from most
// other nodes, the groups of nodes that a policy wants to be different, and the differences within
// a fleet.
//
// The value of a baseline outweighs the majority. If there is neither, the package does not decide
// which nodes are wrong. An absent value counts as a value.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
)

// Group is a set of nodes with the same value. Value is "" if the nodes have none.
type Group struct {
	Value string
	Nodes []string
}

// GroupBy groups nodes by a value, the largest group first. Groups of equal size keep the order of
// the hostfile.
func GroupBy(nodes []*facts.Node, value func(*facts.Node) string) []Group {
	var groups []Group
	at := map[string]int{}
	i := -1
	for _, node := range nodes {
		v := value(node)
		seen := i >= 0 && groups[i].Value == v // fast path: most nodes have the value of the node before them
		if !seen {
			i, seen = at[v]
		}
		if !seen {
			i = len(groups)
			at[v] = i
			groups = append(groups, Group{Value: v})
			if i == 0 { // fast path: most nodes are usually in one group
				groups[0].Nodes = make([]string, 0, len(nodes))
			}
		}
		groups[i].Nodes = append(groups[i].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}

// Shown returns a value in the form that a report shows. "" is shown as "absent".
func Shown(value string) string { return cmp.Or(value, "absent") }

// Comparison is one property to compare, with the nodes for which it can be compared.
type Comparison struct {
	Name  string
	Value func(*facts.Node) string // returns "" if the node does not have the property
	Among []*facts.Node
	// Want is the right value if any node has it, even if most nodes have another value. It is ""
	// if the right value is not known.
	Want string
	// Baseline is the value that all these nodes had in the baseline, nil if there is no such value.
	// It is the right value, whichever value most nodes have now.
	Baseline *string
}

// Recorded returns the comparison with the value that the nodes had in the baseline. was returns
// this value from the facts of the baseline, which then include the section. Nodes that the baseline
// has not seen do not matter. If the others had different values, no value is right.
func (c Comparison) Recorded(view checks.View, section facts.Section, was func(*facts.Node) string) Comparison {
	for _, node := range c.Among {
		before := InBaseline(view, node, section)
		if before == nil {
			continue
		}
		value := was(before)
		if c.Baseline != nil && *c.Baseline != value {
			c.Baseline = nil
			break
		}
		c.Baseline = &value
	}
	return c
}

// Among returns a comparison of one property between the given nodes.
func Among(nodes []*facts.Node, name string, value func(*facts.Node) string) Comparison {
	return Comparison{Name: name, Value: value, Among: nodes}
}

// Deviation is one property in which some nodes differ from most nodes, or from the baseline.
type Deviation struct {
	Name, Got, Want string
	Groups          []Group // the nodes by value if no value has a majority, otherwise nil
	Recorded        bool    // Want is the value of the baseline
}

// Difference holds all properties in which the same nodes differ from most nodes. A machine that
// was not updated is one cause, however many packages differ.
type Difference struct {
	Nodes []string
	// Split means that no value has a majority. Nodes then lists all nodes, Got names the nodes of
	// every value, and Want is empty.
	Split      bool
	Deviations []Deviation
}

func (c Comparison) agreed() bool {
	if len(c.Among) == 0 {
		return true
	}
	first := c.Value(c.Among[0])
	return !slices.ContainsFunc(c.Among[1:], func(node *facts.Node) bool { return c.Value(node) != first })
}

// Differences evaluates the comparisons in their order. It joins the deviations of the same nodes
// into one difference.
func Differences(all ...Comparison) []Difference {
	var found []Difference
	at := map[string]int{}
	add := func(nodes []string, split bool, d Deviation) {
		key := fmt.Sprint(split, nodes, d.Recorded)
		i, seen := at[key]
		if !seen {
			i = len(found)
			at[key] = i
			found = append(found, Difference{Nodes: nodes, Split: split})
		}
		found[i].Deviations = append(found[i].Deviations, d)
	}
	for _, c := range all {
		if c.agreed() {
			continue
		}
		groups := GroupBy(c.Among, c.Value)
		right := -1
		if c.Want != "" {
			right = slices.IndexFunc(groups, func(g Group) bool { return g.Value == c.Want })
		}
		if right < 0 && 2*len(groups[0].Nodes) > len(c.Among) {
			right = 0
		}
		var everyone, parts []string
		for i, g := range groups {
			switch {
			case c.Baseline != nil && g.Value == *c.Baseline:
			case c.Baseline != nil:
				add(g.Nodes, false, Deviation{Name: c.Name, Got: g.Value, Want: *c.Baseline, Recorded: true})
			case right < 0:
				everyone = append(everyone, g.Nodes...)
				parts = append(parts, Shown(g.Value)+" on "+hostfile.Fold(g.Nodes))
			case i != right:
				add(g.Nodes, false, Deviation{Name: c.Name, Got: g.Value, Want: groups[right].Value})
			}
		}
		if everyone != nil {
			add(everyone, true, Deviation{Name: c.Name, Got: strings.Join(parts, ", "), Groups: groups})
		}
	}
	return found
}

// Findings returns a finding for each difference. The findings take their verdict, message and
// remedy from common.
func Findings(what string, differences []Difference, common checks.Finding) (findings []checks.Finding) {
	for _, d := range differences {
		f := d.Finding(what)
		f.Verdict, f.WouldSee, f.Remedy = common.Verdict, common.WouldSee, slices.Clone(common.Remedy)
		findings = append(findings, f)
	}
	return findings
}

// Finding returns the difference as a finding. what is a plural noun that names the compared
// properties.
func (d Difference) Finding(what string) checks.Finding {
	var got, want []string
	for _, dev := range d.Deviations {
		got = append(got, dev.Name+" "+Shown(dev.Got))
		want = append(want, dev.Name+" "+Shown(dev.Want))
	}
	if d.Split {
		return checks.Finding{
			Nodes:   d.Nodes,
			Summary: what + " differ, and no value has a majority",
			Got:     strings.Join(got, "; "),
			Want:    "the same value on every node",
		}
	}
	summary, lacks, has, as := what+" differ from most nodes", "absent on most nodes", "most nodes have ", "as on most nodes"
	if d.Deviations[0].Recorded {
		summary, lacks, has, as = what+" differ from the baseline", "absent in the baseline", "the baseline has ", "as in the baseline"
	}
	if len(got) == 1 {
		values := got[0] + ", " + lacks
		if right := d.Deviations[0].Want; right != "" {
			values = got[0] + ", " + has + right
		}
		if len(values) <= widestSummary {
			summary = values
		}
	}
	return checks.Finding{
		Nodes:   d.Nodes,
		Summary: summary,
		Got:     strings.Join(got, ", "),
		Want:    strings.Join(want, ", ") + ", " + as,
	}
}

// widestSummary is the greatest length, in bytes, of a summary that still names both values.
const widestSummary = 80

// Apart formats two sizes. The texts differ if the sizes differ: the text "12 GiB" for both would
// not explain why 12 GiB are too little.
func Apart(got, want int64) (gotText, wantText string) {
	gotText, wantText = humanize.IBytes(uint64(got)), humanize.IBytes(uint64(want))
	if got != want && gotText == wantText {
		return Exactly(got), Exactly(want)
	}
	return gotText, wantText
}

func Exactly(size int64) string {
	return fmt.Sprintf("%s (%s bytes)", humanize.IBytes(uint64(size)), humanize.Comma(size))
}
