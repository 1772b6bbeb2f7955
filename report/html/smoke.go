// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/facts"
	"preflight/internal/text"
	"preflight/report"
)

// smoke is what ranks computed and how they talked.
type smoke struct {
	Words string
	Bars  []smokeBar // the slowest first
	More  int        // nodes that are not shown
	Pairs *pairMatrix
}

// smokeBar is the slowest rank of a node.
type smokeBar struct {
	Node, Rate     string
	X              int // of 1000, which is the fastest rank of all
	In, Out, Local string
}

// pairMatrix has a row and a column for each node that was paired.
type pairMatrix struct {
	Columns []string
	Rows    []pairRow
}

type pairRow struct {
	Node  string
	Cells []pairCell
}

// pairCell is one pair: passed, failed or never tried, with its rate.
type pairCell struct{ Class, Text string }

// mostBars and mostPaired are how many nodes a page shows one by one.
const (
	mostBars   = 24
	mostPaired = 24
)

func newSmoke(nodes []facts.Node) *smoke {
	took := report.Smoked(nodes)
	if len(took) == 0 {
		return nil
	}
	s := &smoke{Words: text.Escape(report.SmokeWords(nodes))}
	fastest, slowest := 0.0, map[string]facts.SmokeRank{}
	for _, node := range took {
		for i, rank := range node.Smoke.Ranks {
			fastest = max(fastest, rank.Rate)
			if i == 0 || rank.Rate < slowest[node.Name].Rate {
				slowest[node.Name] = rank
			}
		}
	}
	byRate := slices.Clone(took)
	slices.SortStableFunc(byRate, func(a, b facts.Node) int { return cmp.Compare(slowest[a.Name].Rate, slowest[b.Name].Rate) })
	s.More = max(0, len(byRate)-mostBars)
	for _, node := range byRate[:len(byRate)-s.More] {
		rank := slowest[node.Name]
		bar := smokeBar{Node: node.Name, In: copied(rank.HostToDevice), Out: copied(rank.DeviceToHost), Local: copied(rank.DeviceToDevice)}
		if rank.Rate > 0 {
			bar.Rate, bar.X = humanize.SIWithDigits(rank.Rate, 1, "op/s"), int(1000*rank.Rate/fastest)
		}
		s.Bars = append(s.Bars, bar)
	}
	s.Pairs = newPairMatrix(took)
	return s
}

func copied(rate float64) string {
	if rate == 0 {
		return ""
	}
	return text.BitRate(rate)
}

// newPairMatrix is nil where no pair was tried. Of many nodes those go first that failed with
// somebody.
func newPairMatrix(took []facts.Node) *pairMatrix {
	type pair struct{ a, b string }
	tried, failed := map[pair]pairCell{}, map[string]bool{}
	for _, node := range took {
		for _, trial := range node.Smoke.Trials {
			if trial.Stage != facts.SmokePair || len(trial.With) != 1 {
				continue
			}
			cell := pairCell{"p", text.BitRate(trial.Rate)}
			if !trial.Passed {
				cell = pairCell{"f", "failed"}
				failed[node.Name] = true
			}
			tried[pair{node.Name, trial.With[0]}] = cell
			tried[pair{trial.With[0], node.Name}] = cell
		}
	}
	if len(tried) == 0 {
		return nil
	}
	shown := report.Map(took, func(node facts.Node) string { return node.Name })
	if len(shown) > mostPaired {
		slices.SortStableFunc(shown, func(a, b string) int { return cmp.Compare(order(failed[a]), order(failed[b])) })
		shown = shown[:mostPaired]
	}
	m := &pairMatrix{Columns: shown}
	for _, a := range shown {
		row := pairRow{Node: a}
		for _, b := range shown {
			cell, met := tried[pair{a, b}]
			if !met {
				cell = pairCell{"s", ""}
			}
			row.Cells = append(row.Cells, cell)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

// MoreWords is how many nodes are not shown, "" where all are.
func (s *smoke) MoreWords() string {
	if s.More == 0 {
		return ""
	}
	return fmt.Sprintf("%d more nodes, all faster, are in the JSON report.", s.More)
}
