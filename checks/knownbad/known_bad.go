// SPDX-License-Identifier: Apache-2.0

// Package knownbad holds nodes against versions, and combinations of them, that are known to
// fail: a table of what others have found out, each entry with where it says so.
//
// It refuses to guess. An entry tells of what a node has shown to be, and of nothing else: where
// one of its conditions was not seen and all others hold, the node is unknown.
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

// table is the entries that the nodes of a view are held against, and what came of those that were.
type table struct {
	view     checks.View
	entries  []judged
	words    []named // that they are about, and each node has its own of
	values   map[string]seenValue
	key      []byte
	outcomes map[string]outcome // most nodes of a fleet have the same of all words
}

// named is a word by its name.
type named struct {
	name string
	word
}

// judged is an entry whose conditions were read.
type judged struct {
	checks.KnownBad
	words  []string // in order
	bounds map[string][]bound
}

// seenValue is what a word comes to, or why it was not seen.
type seenValue struct {
	all    []string
	unseen string
}

// outcome is which entries hold, and which may.
type outcome struct {
	met    []met
	unsure string
}

// met is an entry that holds, by what a node has.
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
			j.bounds[name], _ = read(condition) // valid, or nobody would have taken it
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

// against is what comes of a node.
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

// on is what a node has that meets the entry, or what of it was not seen while all else meets it.
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

// spelled is what a word is on a node, of several values the first that meets the condition.
func spelled(name string, values []string, bounds []bound) string {
	at := slices.IndexFunc(values, func(value string) bool { return anyIs([]string{value}, bounds) })
	return strings.TrimPrefix(strings.TrimPrefix(name, "pip:"), "env:") + " " + values[at]
}

func (j met) finding(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Verdict:  checks.Fail,
		Summary:  fmt.Sprintf("%s: %s", j.ID, j.Says),
		Got:      j.has,
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
		f.Remedy = append(f.Remedy, fix.Said("said at "+j.Source))
	}
	return f
}
