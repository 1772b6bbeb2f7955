// SPDX-License-Identifier: Apache-2.0

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
	Title:    "no version is one that is known to fail",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost, facts.SectionPython},
	Volatile: true,
	Doc: "A table of what others have found out: releases of NCCL, torch, DeepSpeed and their like, of drivers and kernels, and combinations of them, that hang, die or compute wrongly, " +
		"each with the conditions under which they do, the release that mends it, and where that is said. `preflight checks known-bad` lists them. An entry whose conditions a node meets is found " +
		"there, with the severity that the entry has. A team adds its own under known_bad in its policy, and one with the ID of ours takes its place. What nobody has written down " +
		"is not known: a pass says that no entry applies.",
	WouldSee: "a hang, an error or wrong numbers, as the entry says",
	Run: func(view checks.View) (findings []checks.Finding) {
		var all []judged
		for _, entry := range entries(view) {
			all = append(all, newJudged(entry))
		}
		for _, node := range view.Nodes {
			seen := &sight{view: view, node: node, values: map[string]seenValue{}}
			var unsure []string
			for _, entry := range all {
				switch met, unseen := entry.on(seen); {
				case met != "":
					findings = append(findings, entry.finding(node, met))
				case unseen != "":
					unsure = append(unsure, entry.ID+" ("+unseen+")")
				}
			}
			if unsure != nil {
				findings = append(findings, checks.UnknownFor(node, "may apply: "+strings.Join(unsure, ", ")))
			}
		}
		return findings
	},
}

// judged is an entry whose conditions were read.
type judged struct {
	checks.KnownBad
	words  []string // in order
	bounds map[string][]bound
}

func newJudged(entry checks.KnownBad) judged {
	j := judged{entry, slices.Sorted(maps.Keys(entry.When)), map[string][]bound{}}
	for name, condition := range entry.When {
		j.bounds[name], _ = read(condition) // valid, or nobody would have taken it
	}
	return j
}

// sight is what the words come to on a node, looked up once.
type sight struct {
	view   checks.View
	node   *facts.Node
	values map[string]seenValue
}

type seenValue struct {
	all    []string
	unseen string
}

func (s *sight) of(name string) seenValue {
	known, met := s.values[name]
	if !met {
		if w, isWord := lookUp(name); isWord {
			known.all, known.unseen = w.of(s.view, s.node)
		}
		s.values[name] = known
	}
	return known
}

// on is what a node has that meets the entry, or what of it was not seen while all else meets it.
func (j judged) on(seen *sight) (met, unseen string) {
	var has []string
	for _, name := range j.words {
		value := seen.of(name)
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

func (j judged) finding(node *facts.Node, has string) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Verdict:  checks.Fail,
		Summary:  fmt.Sprintf("%s: %s", j.ID, j.Says),
		Got:      has,
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
