package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"preflight/checks"
)

const (
	// mostDifferences is how many differing facts are shown unless all are asked for.
	mostDifferences = 12
	// longestValue is how many characters of one value are, likewise.
	longestValue = 48
)

// diff writes the facts on which the nodes differ, the majority first.
func (p *page) diff(diffs []checks.FactDiff) {
	if len(diffs) == 0 {
		return
	}
	if !p.style.Verbose {
		diffs = checks.FoldSiblings(foldEntries(diffs))
	}
	shown := diffs
	if !p.style.Verbose && len(shown) > mostDifferences {
		shown = shown[:mostDifferences]
	}
	var rows [][]string
	for _, d := range shown {
		var others []string
		for _, g := range d.Groups[1:] {
			others = append(others, p.group(d.Fact, g, d.Groups[0]))
		}
		rows = append(rows, []string{Escape(d.Fact), p.group(d.Fact, d.Groups[0], d.Groups[1]), strings.Join(others, "; ")})
	}
	p.line("\n%s", p.table([]string{"differs", "most nodes", "others"}, nil, rows))
	if hidden := len(diffs) - len(shown); hidden > 0 {
		p.line("%s", p.faint(fmt.Sprintf("%d more differences: -v shows them", hidden)))
	}
}

// group is one value and the nodes that have it. Of a list that is too long for
// its place only what another group's lacks is shown.
func (p *page) group(fact string, g, other checks.FactGroup) string {
	value := Value(fact, g.Value)
	if own, ok := beyond(g, other); ok && len(value) > longestValue && !p.style.Verbose {
		value = own
	}
	if runes := []rune(value); len(runes) > longestValue && !p.style.Verbose {
		value = string(runes[:longestValue]) + "…"
	}
	return fmt.Sprintf("%s (%s)", value, p.nodes(g.Nodes))
}

// beyond is what a list has that another has not; ok is whether both are lists.
func beyond(g, other checks.FactGroup) (text string, ok bool) {
	var own, theirs []string
	if json.Unmarshal(g.Value, &own) != nil || json.Unmarshal(other.Value, &theirs) != nil {
		return "", false
	}
	extra := slices.DeleteFunc(own, func(entry string) bool { return slices.Contains(theirs, entry) })
	if len(extra) == 0 {
		return "without those", true
	}
	return "with " + Escape(strings.Join(extra, ", ")), true
}

// table draws rows under a header, columns two blanks apart; where the page is
// too narrow for that, one cell below the other, each after the label of its
// column where there are labels.
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

// stacked draws rows that are wider than the page: the first cell on a line
// of its own, the others that are not empty below it.
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

// Value says a fact's JSON value for a person, in its unit.
func Value(fact string, raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "absent"
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return Escape(string(raw))
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return `""`
		}
		return Escape(v)
	case float64:
		return counted(fact, v, string(raw))
	case []any:
		var parts []string
		for _, part := range v {
			parts = append(parts, Escape(fmt.Sprint(part)))
		}
		return strings.Join(parts, ", ")
	}
	return Escape(string(raw))
}
