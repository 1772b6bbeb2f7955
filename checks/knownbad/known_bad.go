// SPDX-License-Identifier: Apache-2.0

// Package knownbad compares nodes with versions, and combinations of versions, that are known to
// fail. Its table holds published findings, each with its source.
//
// The package does not guess. An entry applies only to properties that a node has shown. If one of
// the conditions of an entry was not seen and all others hold, the result for the node is unknown.
package knownbad

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var KnownBad = checks.Check{
	ID:       "known-bad",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost, facts.SectionPython},
	Volatile: true,
	Run: func(view checks.View) (findings []checks.Finding) {
		held := newTable(view)
		for _, node := range view.Nodes {
			came := held.against(node)
			for _, met := range came.met {
				findings = append(findings, met.finding(node))
			}
			if came.unsure != "" {
				findings = append(findings, checks.UnknownFor(node, came.unsure))
			}
		}
		return findings
	},
}

// table holds the entries that apply to a view, and the results for the nodes compared so far.
type table struct {
	view     checks.View
	entries  []judged
	words    []named // words in the conditions whose values differ by node
	values   map[string]seenValue
	key      []byte
	outcomes map[string]outcome // outcomes by the values of all words; computed once because most nodes of a fleet are equal
}

// named is a word together with its name.
type named struct {
	name string
	word
}

// judged is an entry together with its parsed conditions.
type judged struct {
	checks.KnownBad
	words  []string // the words of its conditions, sorted
	bounds map[string][]bound
}

// seenValue holds the values of a word, or the reason why they were not seen.
type seenValue struct {
	all    []string
	unseen string
}

// outcome holds the entries that apply to a node, and the names of the entries that may apply.
type outcome struct {
	met    []met
	unsure string
}

// met is an entry that applies to a node, with the node's values that satisfy it.
type met struct {
	judged
	has string
}

func newTable(view checks.View) *table {
	t := &table{view: view, values: map[string]seenValue{}, outcomes: map[string]outcome{}}
	var names []string
	for _, entry := range entries(view) {
		j := judged{entry, slices.Sorted(maps.Keys(entry.When)), map[string][]bound{}}
		for name, condition := range entry.When {
			j.bounds[name], _ = read(condition) // no error: the conditions were validated when the entry was read
		}
		t.entries, names = append(t.entries, j), append(names, j.words...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch w, _ := lookUp(name); {
		case w.launch != nil:
			t.values[name] = seenValue{w.launch(view), ""}
		case w.of != nil:
			t.words = append(t.words, named{name, w})
		}
	}
	return t
}

// against compares a node with the entries and returns the outcome.
func (t *table) against(node *facts.Node) outcome {
	t.key = t.key[:0]
	for _, w := range t.words {
		all, unseen := w.of(t.view, node)
		t.values[w.name] = seenValue{all, unseen}
		for _, text := range all {
			t.key = append(append(t.key, text...), 0)
		}
		t.key = append(append(t.key, unseen...), 0, 0)
	}
	came, is := t.outcomes[string(t.key)]
	if !is {
		came = t.judge()
		t.outcomes[string(t.key)] = came
	}
	return came
}

func (t *table) judge() (came outcome) {
	var unsure []string
	for _, entry := range t.entries {
		switch has, unseen := entry.on(t.values); {
		case has != "":
			came.met = append(came.met, met{entry, has})
		case unseen != "":
			unsure = append(unsure, entry.ID+" ("+unseen+")")
		}
	}
	if unsure != nil {
		came.unsure = "may apply: " + strings.Join(unsure, ", ")
	}
	return came
}

// on returns the values that satisfy all conditions of the entry, as text. If a value was not seen
// and all others satisfy their conditions, unseen says why. Both are "" if the entry does not
// apply.
func (j judged) on(values map[string]seenValue) (met, unseen string) {
	var has []string
	for _, name := range j.words {
		value := values[name]
		switch {
		case value.unseen != "":
			unseen = value.unseen
		case anyIs(value.all, j.bounds[name]):
			has = append(has, spelled(name, value.all, j.bounds[name]))
		default:
			return "", ""
		}
	}
	if unseen != "" {
		return "", unseen
	}
	return strings.Join(has, ", "), ""
}

// spelled returns a word with the value of the node that satisfies the bounds. If several values
// do, it uses the first.
func spelled(name string, values []string, bounds []bound) string {
	at := slices.IndexFunc(values, func(value string) bool { return anyIs([]string{value}, bounds) })
	return strings.TrimPrefix(strings.TrimPrefix(name, "pip:"), "env:") + " " + values[at]
}

func (j met) finding(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Verdict:  checks.Fail,
		Summary:  j.Says,
		Got:      fmt.Sprintf("%s (entry %s)", j.has, j.ID),
		WouldSee: j.WouldSee,
		At:       j.At,
	}
	if j.Severity == checks.Warning {
		f.Verdict = checks.Warn
	}
	if j.Fixed != "" {
		f.Want = j.Fixed + " or later"
	}
	if j.Cure != "" {
		f.Remedy = append(f.Remedy, fix.Said(j.Cure))
	}
	if j.Source != "" {
		f.Remedy = append(f.Remedy, fix.Said("source: "+j.Source))
	}
	return f
}
