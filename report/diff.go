package report

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"preflight/checks"
)

const (
	// MostDifferences is how many differing facts are shown unless all are asked for.
	MostDifferences = 12
	// longestValue is how many characters of one value are, likewise.
	longestValue = 48
)

// diff writes the facts on which the nodes differ, the majority first.
func (p *page) diff(diffs []checks.FactDiff) {
	if len(diffs) == 0 {
		return
	}
	shown := diffs
	if !p.style.Verbose {
		diffs = Folded(diffs)
		shown = diffs[:min(len(diffs), MostDifferences)]
	}
	var rows [][]string
	for _, d := range shown {
		rows = append(rows, append([]string{Escape(d.Fact)}, p.Parties(d, p.style.Verbose)...))
	}
	p.line("\n%s", p.table([]string{"differs", "most nodes", "others"}, nil, rows))
	if hidden := len(diffs) - len(shown); hidden > 0 {
		p.line("%s", p.faint(fmt.Sprintf("%d more differences: -v shows them", hidden)))
	}
}

// Parties are who has which value of a fact: the largest group, and the others in one text.
func (w Words) Parties(d checks.FactDiff, whole bool) []string {
	var others []string
	for _, g := range d.Groups[1:] {
		others = append(others, w.party(d.Fact, g, d.Groups[0], whole))
	}
	return []string{w.party(d.Fact, d.Groups[0], d.Groups[1], whole), strings.Join(others, "; ")}
}

// party is one value and the nodes that have it. Of a list that is too long for its place
// only what another group's lacks is shown, unless the whole is asked for.
func (w Words) party(fact string, g, other checks.FactGroup, whole bool) string {
	value := Value(fact, g.Value)
	if own, ok := Beyond(g, other); ok && len(value) > longestValue && !whole {
		value = own
	}
	if runes := []rune(value); len(runes) > longestValue && !whole {
		value = string(runes[:longestValue]) + "…"
	}
	return fmt.Sprintf("%s (%s)", value, w.Nodes(g.Nodes))
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
