// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/compare"
	"preflight/hostfile"
	"preflight/internal/text"
)

const (
	// MostDifferences is the maximum number of differing facts that are shown, unless all are
	// requested.
	MostDifferences = 12
	// longestValue is the maximum number of characters of a value that are shown, unless the whole
	// value is requested.
	longestValue = 48
)

// differences writes the facts on which the nodes differ and that no problem explains. In verbose
// mode it does not fold the facts, and it counts the facts that a problem explains.
func (p *page) differences() {
	diffs := p.Unshown()
	if p.style.Verbose {
		diffs = p.unexplained()
	}
	shown := diffs
	if !p.style.Verbose {
		shown = diffs[:min(len(diffs), MostDifferences)]
	}
	if len(shown) > 0 {
		header, rows := p.DifferenceTable(shown, p.style.Verbose)
		labels := text.Map(header, func(name string) string { return name + "  " })
		labels[0] = "" // the fact
		p.line("\n%s", p.table(header, labels, rows))
	}
	if hidden := len(diffs) - len(shown); hidden > 0 {
		p.line("%s", p.faint(text.Plural(hidden, "more difference")+": -v shows them"))
	}
	if explained := len(p.report.Diff) - len(diffs); p.style.Verbose && explained > 0 {
		p.line("\n%s", p.faint(text.Plural(explained, "more difference")+" come from the problems above: the JSON report has them"))
	}
}

// DifferenceTable returns a row for each fact, with the value that most nodes have and the other
// values. If the fleet has two nodes, each node has its own column. If whole is true, no value is
// cut.
func (w Words) DifferenceTable(diffs []checks.FactDiff, whole bool) (header []string, rows [][]string) {
	if w.fleet != 2 || slices.ContainsFunc(diffs, func(d checks.FactDiff) bool { return len(d.Groups) != 2 }) {
		return differenceHeader, text.Map(diffs, func(d checks.FactDiff) []string {
			return append([]string{text.Escape(d.Fact)}, w.Parties(d, whole)...)
		})
	}
	first, second := w.report.Nodes[0].Name, w.report.Nodes[1].Name
	return []string{differenceHeader[0], text.Escape(first), text.Escape(second)}, text.Map(diffs, func(d checks.FactDiff) []string {
		a, b := d.Groups[0], d.Groups[1]
		if slices.Contains(b.Nodes, first) {
			a, b = b, a
		}
		return []string{text.Escape(d.Fact), cutValue(d.Fact, a, b, whole), cutValue(d.Fact, b, a, whole)}
	})
}

// unexplained returns the differences that no finding explains, not folded.
func (w Words) unexplained() []checks.FactDiff {
	return slices.DeleteFunc(slices.Clone(w.report.Diff), w.isCovered)
}

// Unshown returns the differences between the nodes that no finding shows, folded for a person.
func (w Words) Unshown() []checks.FactDiff {
	diffs := slices.DeleteFunc(slices.Clone(w.report.Diff), w.isCovered)
	return slices.DeleteFunc(w.foldRenamed(Folded(agreement.WithoutEchoedDiffs(diffs))), func(d checks.FactDiff) bool {
		return slices.ContainsFunc(w.allFindings(), func(f checks.Finding) bool { return shows(f, d) })
	})
}

// foldRenamed combines the rows of an interface that has another name on some nodes. It recognizes
// the interface by the networks of its addresses, because MAC addresses differ on every node.
func (w Words) foldRenamed(diffs []checks.FactDiff) []checks.FactDiff {
	isEntry := func(d checks.FactDiff) bool {
		return strings.HasPrefix(d.Fact, interfacePath) && oneValueOrNone(d)
	}
	if slices.IndexFunc(diffs, isEntry) < 0 {
		return diffs
	}
	networks := w.networks()
	// where returns the networks of an interface, the nodes that have the interface and the nodes
	// that lack it. A renamed interface and the usual interface have the same networks and nodes.
	where := func(d checks.FactDiff) string {
		of := networks[strings.TrimPrefix(d.Fact, interfacePath)]
		if !isEntry(d) || of == nil {
			return ""
		}
		return fmt.Sprintf("%q %q %q", of, d.Groups[0].Nodes, d.Groups[1].Nodes)
	}
	others := map[string][]int{} // indexes of interfaces that only the smaller group has
	for i, d := range diffs {
		if at := where(d); at != "" && Absent(d.Groups[0]) {
			others[at] = append(others[at], i)
		}
	}
	gone := map[string]bool{}
	folded := slices.Clone(diffs)
	for i, usual := range diffs {
		at := where(usual)
		if at == "" || Absent(usual.Groups[0]) {
			continue
		}
		for _, other := range others[at] {
			gone[diffs[other].Fact] = true
			folded[i].Groups = slices.Clone(usual.Groups)
			for n, d := range []checks.FactDiff{usual, diffs[other]} {
				folded[i].Groups[n].Value, _ = json.Marshal(strings.TrimPrefix(d.Fact, interfacePath)) // marshalling a string cannot fail
			}
		}
		delete(others, at)
	}
	return slices.DeleteFunc(folded, func(d checks.FactDiff) bool { return gone[d.Fact] })
}

const interfacePath = "net.interfaces."

// networks returns the networks of the interfaces' addresses on all nodes, by interface name.
func (w Words) networks() map[string][]string {
	of := map[string][]string{}
	for _, node := range w.report.Nodes {
		if node.Net == nil {
			continue
		}
		for _, nic := range node.Net.Interfaces {
			for _, address := range nic.Addresses {
				if prefix, err := netip.ParsePrefix(address); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
					of[nic.Name] = append(of[nic.Name], prefix.Masked().String())
				}
			}
		}
	}
	for name, networks := range of {
		slices.Sort(networks)
		of[name] = slices.Compact(networks)
	}
	return of
}

// isCovered reports whether a fact differs only on nodes for which findings cover the fact.
func (w Words) isCovered(d checks.FactDiff) bool {
	covered := map[string]bool{}
	for _, f := range w.allFindings() {
		if slices.ContainsFunc(f.Covers, func(of string) bool { return d.Fact == of || strings.HasPrefix(d.Fact, of+".") }) {
			for _, node := range f.Nodes {
				covered[node] = true
			}
		}
	}
	open := func(g checks.FactGroup) bool {
		return slices.ContainsFunc(g.Nodes, func(node string) bool { return !covered[node] })
	}
	first := slices.IndexFunc(d.Groups, open)
	return len(covered) > 0 && (first < 0 || !slices.ContainsFunc(d.Groups[first+1:], open))
}

// shows reports whether a finding is about a fact, or already shows its odd value. A finding shows
// the value if "got" contains the value, or the name of an entry that only some nodes have. The
// finding must also name an odd node or all nodes of the largest group, and its check must read the
// section of the fact.
func shows(f checks.Finding, d checks.FactDiff) bool {
	if f.Fact == d.Fact || slices.Contains(f.Facts, d.Fact) {
		return true
	}
	check, _ := catalogue.Lookup(f.Check)
	if f.Verdict == checks.Unknown || !slices.Contains(check.Needs, compare.SectionOf(d.Fact)) {
		return false
	}
	entry := d.Fact[strings.LastIndexByte(d.Fact, '.')+1:]
	tells := func(g checks.FactGroup) bool {
		return hasWord(f.Got, Value(d.Fact, g.Value)) || oneValueOrNone(d) && hasWord(f.Got, entry)
	}
	named := func(node string) bool { return slices.Contains(f.Nodes, node) }
	unnamed := func(node string) bool { return !named(node) }
	if most := d.Groups[0]; !slices.ContainsFunc(most.Nodes, unnamed) && tells(most) {
		return true
	}
	return slices.ContainsFunc(d.Groups[1:], func(g checks.FactGroup) bool { return slices.ContainsFunc(g.Nodes, named) && tells(g) })
}

// hasWord reports whether a text contains a word or a phrase that is not part of a longer word.
func hasWord(text, word string) bool {
	const around = `[^\pL\p{Nd}]`
	return word != "" && strings.Contains(text, word) && // cheaper than the regular expression
		regexp.MustCompile(`(?:^|`+around+`)`+regexp.QuoteMeta(word)+`(?:`+around+`|$)`).MatchString(text)
}

// Parties returns two cells: the value of the largest group with its nodes, and all other values.
func (w Words) Parties(d checks.FactDiff, whole bool) []string {
	others := text.Map(d.Groups[1:], func(g checks.FactGroup) string { return w.party(d.Fact, g, d.Groups[0], whole) })
	return []string{w.party(d.Fact, d.Groups[0], d.Groups[1], whole), strings.Join(others, "; ")}
}

// party returns one value and the nodes that have it.
func (w Words) party(fact string, g, other checks.FactGroup, whole bool) string {
	return fmt.Sprintf("%s (%s)", cutValue(fact, g, other, whole), w.Nodes(g.Nodes))
}

// cutValue returns the value of a group of nodes. Unless whole is set, a long list is cut to the
// entries that the other group lacks.
func cutValue(fact string, g, other checks.FactGroup, whole bool) string {
	value := Value(fact, g.Value)
	if value == Value(fact, other.Value) { // two sizes that differ by a few bytes
		value = string(g.Value)
	}
	if own, ok := Beyond(g, other); ok && len(value) > longestValue && !whole {
		value = own
	}
	if runes := []rune(value); len(runes) > longestValue && !whole {
		value = string(runes[:longestValue]) + "…"
	}
	return value
}

// table draws rows under a header, with two spaces between columns. If the page is too narrow,
// table stacks the cells of a row. If there are labels, each stacked cell begins with its label.
func (p *page) table(header, labels []string, rows [][]string) string {
	t := table.New().Headers(header...).Rows(rows...).
		Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			style := lipgloss.NewStyle().PaddingRight(2)
			if row == table.HeaderRow && p.style.Color {
				style = style.Faint(true)
			}
			return style
		})
	text := t.String()
	if lipgloss.Width(text) > p.width() {
		return p.stacked(labels, rows)
	}
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// stacked draws rows that are wider than the page: the first cell on its own line and the other
// non-empty cells below it.
func (p *page) stacked(labels []string, rows [][]string) string {
	var out []string
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				continue
			}
			if labels != nil {
				cell = labels[i] + cell
			}
			for n, line := range p.split(cell, 6) {
				out = append(out, strings.Repeat(" ", 2*min(i, 1)+2*min(n, 1))+line)
			}
		}
	}
	return strings.Join(out, "\n")
}

// Changed holds the differences between two runs for JSON. It has one entry for each fact of each
// node, not folded, and one entry for each section of a node that only one run has.
type Changed struct {
	Schema      int                     `json:"schema"`
	Changes     []checks.Change         `json:"changes"`
	NotCompared []agreement.NotCompared `json:"not_compared"`
}

// Unchanged returns the sentence for an empty list of changes.
func (c Changed) Unchanged() string {
	if len(c.NotCompared) > 0 {
		return "nothing changed in the facts that could be compared"
	}
	return "nothing changed"
}

// ChangesText lists what changed between two runs and what could not be compared. The same change
// on several nodes is one row.
func ChangesText(w io.Writer, c Changed, style Style) error {
	p := &page{style: style}
	rows := c.Rows(style.Verbose)
	if len(rows) == 0 {
		p.line("%s", c.Unchanged())
	} else {
		p.changes(rows)
	}
	for _, unseen := range c.Unseen() {
		p.line("")
		p.wrapped("", text.Escape("not compared: "+unseen.What+" on "+hostfile.Fold(unseen.Nodes)+": "+unseen.Why))
	}
	return p.writeTo(w)
}

// Unseen holds the sections that could not be compared on some nodes, and the reason.
type Unseen struct {
	Nodes     []string
	What, Why string
}

// Unseen returns what could not be compared. It joins the sections of each node, and then the nodes
// that have the same sections.
func (c Changed) Unseen() (all []Unseen) {
	reason := func(n agreement.NotCompared) [2]string {
		if n.Section == "" {
			return [2]string{n.Node, n.Reason}
		}
		return [2]string{n.Node, map[bool]string{true: "not seen before: ", false: "not seen after: "}[n.Earlier] + n.Reason}
	}
	var each []Unseen
	for _, one := range text.GroupBy(c.NotCompared, reason) {
		sections := text.Map(one.All, func(n agreement.NotCompared) string { return cmp.Or(string(n.Section), "anything") })
		each = append(each, Unseen{[]string{one.Key[0]}, strings.Join(sections, ", "), one.Key[1]})
	}
	for _, alike := range text.GroupBy(each, func(u Unseen) [2]string { return [2]string{u.What, u.Why} }) {
		one := alike.All[0]
		for _, other := range alike.All[1:] {
			one.Nodes = append(one.Nodes, other.Nodes...)
		}
		all = append(all, one)
	}
	return all
}

// Folded folds differences for a person: the facts of a list entry become one row, and sibling
// entries that differ in the same way become one row.
func Folded(diffs []checks.FactDiff) []checks.FactDiff {
	return compare.FoldSiblings(foldEntries(diffs))
}

// foldEntries combines all facts of a list entry that only some nodes have into one row. An extra
// interface is one difference, not one for each field. If an entry has only a name and one value,
// as a variable has, the row shows the value.
func foldEntries(diffs []checks.FactDiff) []checks.FactDiff {
	facts := map[string]int{} // the number of facts, by entry and the nodes that have the entry
	for _, d := range diffs {
		if entry := entryNamedBy(d); entry != "" {
			facts[entryKey(entry, d)] = 0
		}
	}
	for _, d := range diffs {
		if entry := outermost(d, facts); entry != "" {
			facts[entryKey(entry, d)]++
		}
	}
	var folded []checks.FactDiff
	shown := map[string]bool{}
	for _, d := range diffs {
		entry := outermost(d, facts)
		key := entryKey(entry, d)
		switch {
		case entry == "", facts[key] == 2 && entryNamedBy(d) == "":
			folded = append(folded, d)
		case facts[key] != 2 && !shown[key]:
			shown[key] = true
			folded = append(folded, presence(entry, d))
		}
	}
	return folded
}

// entryNamedBy returns the list entry whose name the fact is, and "" for any other fact. For
// example, net.interfaces.docker0.name is "docker0", so net.interfaces.docker0 is an entry. The
// name may contain dots.
func entryNamedBy(d checks.FactDiff) string {
	dot := strings.LastIndexByte(d.Fact, '.')
	if !oneValueOrNone(d) || dot < 0 {
		return ""
	}
	entry := d.Fact[:dot]
	for _, g := range d.Groups {
		if !Absent(g) && strings.HasSuffix(entry, "."+strings.Trim(string(g.Value), `"`)) {
			return entry
		}
	}
	return ""
}

// outermost returns the outermost entry that contains the fact. If a device is missing together
// with its ports, outermost returns the device.
func outermost(d checks.FactDiff, entries map[string]int) string {
	if !oneValueOrNone(d) {
		return ""
	}
	for i, c := range d.Fact {
		if c != '.' {
			continue
		}
		if _, is := entries[entryKey(d.Fact[:i], d)]; is {
			return d.Fact[:i]
		}
	}
	return ""
}

// oneValueOrNone reports whether all nodes that have the fact have the same value.
func oneValueOrNone(d checks.FactDiff) bool {
	return len(d.Groups) == 2 && slices.ContainsFunc(d.Groups, Absent)
}

// Absent reports whether the nodes of a group lack the fact.
func Absent(g checks.FactGroup) bool { return len(g.Value) == 0 || string(g.Value) == "null" }

// entryKey returns a key for an entry and the nodes that have it. Facts of one entry that other
// nodes lack have different keys.
func entryKey(entry string, d checks.FactDiff) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q", entry)
	for _, g := range d.Groups {
		fmt.Fprintf(&key, " %t%q", Absent(g), g.Nodes)
	}
	return key.String()
}

func presence(entry string, d checks.FactDiff) checks.FactDiff {
	row := checks.FactDiff{Fact: entry, Groups: slices.Clone(d.Groups)}
	for i := range row.Groups {
		if !Absent(row.Groups[i]) {
			row.Groups[i].Value = json.RawMessage(`"present"`)
		}
	}
	return row
}
