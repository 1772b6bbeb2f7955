// SPDX-License-Identifier: Apache-2.0

// Package compare holds nodes, versions and sizes against each other: who stands apart from
// most, the partitions of nodes that a policy has unlike, and the diff of a fleet.
//
// It refuses to blame where no value has a majority, and to take an absent value for none.
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

// Group is the nodes that share one value; Value "" means they do not have it.
type Group struct {
	Value string
	Nodes []string
}

// GroupBy sorts nodes by a value, the largest group first; equal sizes keep
// hostfile order.
func GroupBy(nodes []*facts.Node, value func(*facts.Node) string) []Group {
	var groups []Group
	at := map[string]int{}
	i := -1
	for _, node := range nodes {
		v := value(node)
		seen := i >= 0 && groups[i].Value == v // neighbours mostly are alike
		if !seen {
			i, seen = at[v]
		}
		if !seen {
			i = len(groups)
			at[v] = i
			groups = append(groups, Group{Value: v})
			if i == 0 { // most are alike
				groups[0].Nodes = make([]string, 0, len(nodes))
			}
		}
		groups[i].Nodes = append(groups[i].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}

// Shown is a value as a person reads it.
func Shown(value string) string { return cmp.Or(value, "absent") }

// Comparison is one thing to compare across those nodes that can be compared in it.
type Comparison struct {
	Name  string
	Value func(*facts.Node) string // "" where the node does not have it
	Among []*facts.Node
	// Want is right whatever most nodes have, if any has it; "" where nobody says.
	Want string
}

// Among compares nodes in one thing.
func Among(nodes []*facts.Node, name string, value func(*facts.Node) string) Comparison {
	return Comparison{Name: name, Value: value, Among: nodes}
}

// Deviation is one thing in which nodes differ from what most nodes have.
type Deviation struct {
	Name, Got, Want string
	Groups          []Group // of a split: the nodes by value, nil otherwise
}

// Difference is all that the same nodes have otherwise: one machine that was
// not updated is one cause, however many packages it shows in.
type Difference struct {
	Nodes []string
	// Split says that no value has a majority: nobody is to blame, Nodes are
	// all of them, Got names every group and Want is empty.
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

// Differences makes the comparisons one by one and gathers what differs by the nodes
// that stand apart, in the order they were met.
func Differences(all ...Comparison) []Difference {
	var found []Difference
	at := map[string]int{}
	add := func(nodes []string, split bool, d Deviation) {
		key := fmt.Sprint(split, nodes)
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
			case right < 0:
				everyone = append(everyone, g.Nodes...)
				parts = append(parts, Shown(g.Value)+" on "+hostfile.Fold(g.Nodes))
			case i != right:
				add(g.Nodes, false, Deviation{Name: c.Name, Got: g.Value, Want: groups[right].Value})
			}
		}
		if right < 0 {
			add(everyone, true, Deviation{Name: c.Name, Got: strings.Join(parts, ", "), Groups: groups})
		}
	}
	return found
}

// Findings puts differences into words. All of them have the verdict, the message and the remedy of common.
func Findings(what string, differences []Difference, common checks.Finding) (findings []checks.Finding) {
	for _, d := range differences {
		f := d.Finding(what)
		f.Verdict, f.WouldSee, f.Remedy = common.Verdict, common.WouldSee, slices.Clone(common.Remedy)
		findings = append(findings, f)
	}
	return findings
}

// Finding puts the difference into words; what names the things compared.
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
	summary := what + " differ from most nodes"
	if len(got) == 1 {
		values := got[0] + ", absent on most nodes"
		if right := d.Deviations[0].Want; right != "" {
			values = got[0] + ", most nodes have " + right
		}
		if len(values) <= widestSummary {
			summary = values
		}
	}
	return checks.Finding{
		Nodes:   d.Nodes,
		Summary: summary,
		Got:     strings.Join(got, ", "),
		Want:    strings.Join(want, ", ") + ", as on most nodes",
	}
}

// widestSummary is how long the summary of a finding may be, in bytes.
const widestSummary = 80

// Apart puts two sizes into words that differ where the sizes do: "12 GiB" is
// no explanation where 12 GiB are wanted.
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
