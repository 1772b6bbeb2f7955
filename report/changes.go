// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/internal/text"
)

// Row is one change and the nodes on which the fact changed. Fact is "" if the node itself came or
// went, or is newly or no longer reached. Before and After are formatted for a person.
type Row struct {
	Nodes               []string
	Fact, Before, After string
	Verdict             checks.Verdict // "" if no check covers the fact
	Cause               string         // the check that finds what caused the change, "" for none
}

// Rows returns the changes as rows. Unless all is set, Rows first folds the changes of each node.
// Then it joins the rows that several nodes share.
func (c Changed) Rows(all bool) []Row { return folded(rowsOf(c.Changes, all)) }

// rowsOf returns the rows of single nodes, one node after the other.
func rowsOf(changes []checks.Change, all bool) (rows []Row) {
	for _, node := range text.GroupBy(changes, func(c checks.Change) string { return c.Node }) {
		own := node.All
		if !all {
			own = agreement.FoldChanges(agreement.WithoutEchoes(own))
		}
		for _, c := range own {
			row := Row{Nodes: []string{node.Key}, Fact: c.Fact, Before: Value(c.Fact, c.Before), After: Value(c.Fact, c.After)}
			if !all {
				row.After, row.Before = agreement.InWords(c, Value)
				row.After, row.Before = text.Escape(row.After), text.Escape(row.Before)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// folded joins rows that differ in their nodes only.
func folded(each []Row) (rows []Row) {
	type shared struct {
		fact, before, after, cause string
		verdict                    checks.Verdict
	}
	for _, alike := range text.GroupBy(each, func(r Row) shared { return shared{r.Fact, r.Before, r.After, r.Cause, r.Verdict} }) {
		row := alike.All[0]
		for _, other := range alike.All[1:] {
			row.Nodes = append(row.Nodes, other.Nodes...)
		}
		rows = append(rows, row)
	}
	return rows
}

// HasChanges reports whether a finding lists changes since a baseline.
func HasChanges(f checks.Finding) bool { return len(f.Changes) > 0 }

// Drift combines all findings about changes since a baseline. The verdict is the gravest one among
// the findings that no other finding causes.
type Drift struct {
	checks.Finding
	Parts []checks.Finding
	Rows  []Row // the rows, the gravest first; folded unless all rows are requested
}

// Drift returns the changes since the baseline and the index of the first finding about changes, -1
// if there is none. It leaves out changes that the finding about their cause shows. A row names the
// check of another finding if that finding explains the change on some of its nodes.
func (w Words) Drift(all bool) (d Drift, at int) {
	var findings []checks.Finding
	at = -1
	for i, f := range slices.Backward(w.report.Findings) {
		if HasChanges(f) && w.ShownAt(i) == i {
			findings, at = append(findings, f), i
		}
	}
	if at < 0 {
		return d, at
	}
	slices.Reverse(findings)
	first := findings[0]
	d.Check, d.Verdict, d.WouldSee = first.Check, first.Verdict, first.WouldSee
	own := slices.DeleteFunc(slices.Clone(findings), w.countsElsewhere)
	if len(own) > 0 {
		d.Verdict = slices.MinFunc(own, func(a, b checks.Finding) int {
			return cmp.Compare(checks.Gravity(a.Verdict), checks.Gravity(b.Verdict))
		}).Verdict
	}
	var rows []Row
	var steps []Step
	for _, f := range findings {
		rows, d.Parts = append(rows, w.driftRows(f, all)...), append(d.Parts, f)
		d.Nodes, d.Changes = union(d.Nodes, f.Nodes), append(d.Changes, f.Changes...)
		elsewhere := func(c checks.Change) bool { return f.SharesCause != "" || w.breaksPolicy(c) }
		mine := func(c checks.Change) bool { return !elsewhere(c) }
		if own := Steps(f); slices.ContainsFunc(f.Changes, mine) {
			steps, d.Notes = append(steps, own...), union(d.Notes, f.Notes)
		} else { // the finding that causes the change shows the fix; here only the last command, which accepts the change, is needed
			steps = append(steps, own[max(0, len(own)-1):]...)
		}
	}
	d.Rows = folded(rows)
	slices.SortStableFunc(d.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(checks.Gravity(a.Verdict), checks.Gravity(b.Verdict)), cmp.Compare(w.place(a), w.place(b)))
	})
	slices.Reverse(steps)
	steps = union(nil, steps)
	slices.Reverse(steps) // keep the last of several equal commands
	setSteps(&d.Finding, steps)
	d.Summary = text.Plural(len(d.Rows), "change") + " since the baseline"
	return d, at
}

// drift writes the block about the changes since the baseline, with a table.
func (p *page) drift(one Problem) {
	p.heading(one.Mark, one.Verdict, one.Check+"  "+one.Summary)
	shown := one.Changes
	if !p.style.Verbose {
		shown = shown[:min(len(shown), MostChanges)]
	}
	p.changes(shown)
	if hidden := len(one.Changes) - len(shown); hidden > 0 {
		p.line("%s", p.faint(text.Plural(hidden, "more change")+": -v shows them"))
	}
	p.wayOut(one.Finding)
	p.faintField(LabelWouldSee, one.WouldSee)
}

// place returns the index of a row's first node in the fleet. Nodes outside of the fleet come last.
func (w Words) place(r Row) int {
	at := slices.IndexFunc(w.report.Nodes, func(node facts.Node) bool { return node.Name == r.Nodes[0] })
	if at < 0 {
		return len(w.report.Nodes)
	}
	return at
}

// MostChanges is the largest number of rows of a table, about a page, unless all rows are
// requested.
const MostChanges = 30

// driftRows returns the rows of one finding, each with its verdict.
func (w Words) driftRows(f checks.Finding, all bool) (rows []Row) {
	changes := f.Changes
	if !all {
		changes = nil
		for _, node := range text.GroupBy(f.Changes, func(c checks.Change) string { return c.Node }) {
			changes = append(changes, agreement.WithoutEchoes(node.All)...)
		}
	}
	type kind struct{ weighs, breaksPolicy bool }
	kindOf := func(c checks.Change) kind {
		return kind{f.Facts == nil || slices.Contains(f.Facts, c.Fact), w.breaksPolicy(c)}
	}
	for _, same := range text.GroupBy(changes, kindOf) {
		for _, row := range rowsOf(same.All, all) {
			row.Verdict, row.Cause = f.Verdict, f.SharesCause
			if !same.Key.weighs {
				row.Verdict = checks.Warn
			}
			if same.Key.breaksPolicy && row.Cause == "" {
				row.Cause = agreement.Expectation.ID
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// leastValue is the number of characters that a value keeps at least when a table is cut to the
// width of the page.
const leastValue = 12

// ChangeTable returns a table with one row for each change. The table has a column for verdicts
// only if a row has a verdict, and a column for causes only if a row has a cause.
func (w Words) ChangeTable(rows []Row) (header []string, cells [][]string) {
	header = []string{"nodes", "fact", "before", "after"}
	weighed := slices.ContainsFunc(rows, func(r Row) bool { return r.Verdict != "" })
	if weighed {
		header = slices.Insert(header, 0, "")
	}
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Cause != "" }) {
		header = append(header, "see")
	}
	return header, text.Map(rows, func(r Row) []string {
		row := []string{w.Nodes(r.Nodes), text.Escape(r.Fact), r.Before, r.After, r.Cause}
		if weighed {
			row = slices.Insert(row, 0, Word(r.Verdict))
		}
		return row[:len(header)]
	})
}

// changes draws the table of changes and cuts the values to the available width. If the page is too
// narrow for that, each row takes two lines.
func (p *page) changes(rows []Row) {
	header, cells := p.ChangeTable(rows)
	before := slices.Index(header, "before")
	if !p.style.Verbose && !fitted(cells, before, p.width()) {
		cells = text.Map(cells, func(row []string) []string {
			to := row[before] + " → " + row[before+1]
			if cause := strings.Join(row[before+2:], ""); cause != "" {
				to += ", see " + cause
			}
			return []string{strings.Join(row[:before], "  "), to}
		})
		p.line("%s", p.stacked(nil, cells))
		return
	}
	p.line("%s", p.table(header, header, cells))
}

// fitted cuts the values of two neighbouring columns so that a table fits the page. It returns
// false and cuts nothing if too little of the values would be left.
func fitted(cells [][]string, first, width int) bool {
	widths := make([]int, len(cells[0]))
	total := 0
	for column := range widths {
		for _, row := range cells {
			widths[column] = max(widths[column], lipgloss.Width(row[column]), len("before"))
		}
		total += widths[column] + 2
	}
	left := width - total + widths[first] + widths[first+1]
	if left < 2*leastValue && total > width {
		return false
	}
	before := min(widths[first], max(left/2, left-widths[first+1]))
	for _, row := range cells {
		row[first], row[first+1] = Shorten(row[first], before), Shorten(row[first+1], left-before)
	}
	return true
}

// Value returns a fact's JSON value for a person, in its unit.
func Value(fact string, raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "absent"
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return text.Escape(string(raw))
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return `""`
		}
		return text.Escape(v)
	case float64:
		return counted(fact, v, string(raw))
	case []any:
		var parts []string
		for _, part := range v {
			parts = append(parts, text.Escape(inWords(part)))
		}
		return strings.Join(parts, ", ")
	}
	return text.Escape(string(raw))
}

// inWords returns an entry of a list with the names of its fields, as in "lines NCCL_DEBUG=INFO
// path ~/.deepspeed_env". It leaves out empty fields.
func inWords(entry any) string {
	var parts []string
	switch v := entry.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if words := inWords(v[name]); words != "" {
				parts = append(parts, name+" "+words)
			}
		}
	case []any:
		for _, part := range v {
			parts = append(parts, inWords(part))
		}
	case nil:
	default:
		return fmt.Sprint(v)
	}
	return strings.Join(parts, " ")
}

// Beyond returns the entries of a list that another list lacks. ok is false if one of the two
// values is not a list.
func Beyond(g, other checks.FactGroup) (line string, ok bool) {
	var own, theirs []string
	if json.Unmarshal(g.Value, &own) != nil || json.Unmarshal(other.Value, &theirs) != nil {
		return "", false
	}
	extra := slices.DeleteFunc(own, func(entry string) bool { return slices.Contains(theirs, entry) })
	if len(extra) == 0 {
		return "none of these", true
	}
	return "with " + text.Escape(strings.Join(extra, ", ")), true
}

// counted returns a number in the unit of its fact, "64 MiB" or "3.1 ms", and raw if the fact has
// no unit. The function counted of the HTML page returns the same.
func counted(fact string, number float64, raw string) string {
	switch unit := facts.Unit(fact); {
	case number < 0 && strings.HasPrefix(fact, string(facts.SectionLimits)+"."):
		return "unlimited"
	case unit == "bytes" && number >= 0:
		return humanize.IBytes(uint64(number))
	case unit == "bit/s":
		return text.BitRate(number)
	case unit == "s":
		return text.Duration(number)
	case unit != "":
		return raw + " " + unit
	}
	return raw
}
