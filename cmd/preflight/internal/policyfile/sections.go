// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/knownbad"
	"preflight/cmd/preflight/internal/inside"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Policy is what preflight.yaml holds: settings, what is expected of nodes, what checks
// weigh, and which defects are known.
type Policy struct {
	File       string           // "" where there is none
	Settings   map[string]Value // by key
	Expect     []checks.Expectation
	Off        []string // check IDs
	Severities map[string]checks.Severity
	Drift      []checks.DriftSeverity
	Waivers    []checks.Waiver
	Groups     []checks.Group
	KnownBad   []checks.KnownBad
	In         []In
}

// In is what ranks run in on some nodes.
type In struct {
	Nodes []string // nil for all
	Words []string // of the command that enters it, nil for the node itself
}

// Value is what the file says of one setting, and where.
type Value struct {
	At     string // "preflight.yaml:3"
	Values []string
}

// sections are the keys of a configuration file that are no settings.
var sections = []string{"expect", "groups", "known_bad", "severity", "waivers"}

func (f *file) policy(document map[string]*yaml.Node) Policy {
	s := Policy{File: f.name, Severities: map[string]checks.Severity{}}
	if groups := document["groups"]; groups != nil {
		s.Groups = f.readGroups(groups)
	}
	for _, entry := range f.entries(document["expect"], "expect", "fact", "is", "nodes", "severity", "fix") {
		s.Expect = append(s.Expect, f.expectation(entry))
	}
	if in := document[perNode]; in != nil && in.Kind != yaml.ScalarNode {
		for _, entry := range f.entries(in, perNode, "nodes", "command") {
			s.In = append(s.In, f.inside(entry))
		}
	}
	f.severities(f.entries(document["severity"], "severity", "check", "severity", "fact"), &s)
	for _, entry := range f.entries(document["waivers"], "waivers", "check", "nodes", "fact", "reason", "owner", "until") {
		s.Waivers = append(s.Waivers, f.waiver(entry))
	}
	for _, entry := range f.entries(document["known_bad"], "known_bad", "id", "when", "says", "severity", "fixed", "cure", "would_see", "source") {
		s.KnownBad = append(s.KnownBad, f.knownBad(entry))
	}
	return s
}

// perNode is the setting that a list may say of single nodes.
const perNode = "in"

func (f *file) inside(entry entry) (in In) {
	in.Nodes = f.nodeSet(entry.keys["nodes"], "nodes")
	command := f.required(entry, "command")
	words, err := inside.Words(command)
	if err != nil {
		f.fail(entry.keys["command"], fmt.Errorf("%s: %w", perNode, err))
	}
	in.Words = words
	return in
}

// readGroups reads names for node sets, in their order.
func (f *file) readGroups(node *yaml.Node) (groups []checks.Group) {
	if node.Kind != yaml.MappingNode {
		f.fault(node, "groups: must map names to node sets, as in training: 'gpu[01-16]'")
		return nil
	}
	for name, set := range maps.All(f.mapping(node)) {
		text := f.text(set, "groups: "+name)
		nodes, err := hostfile.Expand(text)
		if groupName.FindString("@"+name) != "@"+name {
			f.fault(set, "groups: %q is not a valid group name: use letters, digits, _ and -", name)
		} else if err != nil && text != "" {
			f.fault(set, "groups: %s: %v", name, err)
		}
		f.groups[name] = text
		groups = append(groups, checks.Group{Name: name, Nodes: nodes, At: f.at(set)})
	}
	slices.SortFunc(groups, func(a, b checks.Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// groupName is a group in a node set, after the start, a comma or a blank.
var groupName = regexp.MustCompile(`(^|[,\s])@([A-Za-z0-9_-]+)`)

// nodeSet expands a node set, groups among it, nil where there is none.
func (f *file) nodeSet(node *yaml.Node, where string) []string {
	if node == nil {
		return nil
	}
	text := strings.Join(f.list(node, where), ",")
	known := true
	set := groupName.ReplaceAllStringFunc(text, func(found string) string {
		parts := groupName.FindStringSubmatch(found)
		group, there := f.groups[parts[2]]
		if !there {
			known = false
			f.fault(node, "%s: unknown group %q%s", where, parts[2], usage.Nearest(parts[2], slices.Sorted(maps.Keys(f.groups))))
		}
		return parts[1] + group
	})
	if !known {
		return nil
	}
	names, err := hostfile.Expand(set)
	if err != nil && (text != "" || node.Value == "") {
		f.fault(node, "%s: %v", where, err)
	}
	return names
}

func (f *file) expectation(entry entry) checks.Expectation {
	e := checks.Expectation{
		Fact:     f.required(entry, "fact"),
		Is:       f.texts(entry, "is"),
		Nodes:    f.nodeSet(entry.keys["nodes"], "nodes"),
		Severity: checks.Severity(f.choice(entry, "severity", "error", "warning")),
		Fix:      f.optional(entry, "fix"),
		At:       f.at(entry.node),
	}
	if e.Fact == "" || e.Is == nil {
		return e // said already
	}
	if err := agreement.ValidExpectation(e); err != nil {
		place := entry.keys["is"]
		if _, unknown := errors.AsType[*agreement.UnknownFactError](err); unknown {
			place = entry.keys["fact"]
		}
		f.fault(place, "%v", err)
	}
	return e
}

// Check is the check of the policy itself, which no pattern of it weighs.
const Check = "policy"

// weights are what a severity may be.
var weights = []string{string(checks.Error), string(checks.Warning), string(checks.Off)}

// isOfFacts is whether an entry says what single changes weigh: "drift: {shm.size: error}" or,
// in a list, with a fact.
func (e entry) isOfFacts() bool {
	severity := e.keys["severity"]
	return e.keys["fact"] != nil || severity != nil && severity.Kind == yaml.MappingNode
}

// driftSeverities are what drift weighs of single facts, of what holds facts and of topics.
func (f *file) driftSeverities(e entry) (all []checks.DriftSeverity) {
	pairs := []entry{e}
	if e.keys["severity"] != nil && e.keys["severity"].Kind == yaml.MappingNode {
		pairs = f.pairs(e.keys["severity"], "severity", "fact", "severity")
	}
	for _, pair := range pairs {
		fact, severity := f.required(pair, "fact"), f.required(pair, "severity")
		if severity != "" {
			severity = f.choice(pair, "severity", weights...)
		}
		if _, err := agreement.ReadScope(fact); err != nil && fact != "" {
			f.fault(pair.keys["fact"], "%v", err)
		}
		all = append(all, checks.DriftSeverity{Of: fact, Severity: checks.Severity(severity)})
	}
	return all
}

// severities sets what checks weigh, or that they are off. What is said of one by its
// name holds before what is said of all that a pattern such as gpu-* means, and of two
// patterns the later.
func (f *file) severities(entries []entry, s *Policy) {
	weighs, named := map[string]string{}, map[string]string{} // by check; where it is named
	for _, entry := range entries {
		pattern := f.required(entry, "check")
		if pattern == checks.DriftID && entry.isOfFacts() {
			s.Drift = append(s.Drift, f.driftSeverities(entry)...)
			continue
		}
		severity := f.required(entry, "severity")
		if severity != "" {
			severity = f.choice(entry, "severity", weights...)
		}
		if entry.keys["fact"] != nil {
			f.fault(entry.keys["fact"], "fact: findings of %s are not of single facts: those of %s are", pattern, checks.DriftID)
		}
		ids := ChecksNamed(pattern)
		if pattern != "" && len(ids) == 0 {
			f.fault(entry.keys["check"], "%s", NoCheck(pattern))
		}
		byName := slices.Equal(ids, []string{pattern})
		if byName && pattern == Check {
			f.fault(entry.keys["check"], "severity: %s cannot be changed: an expired waiver always fails", Check)
		}
		inList := entry.node.Kind == yaml.MappingNode // of pairs, twice the same key is reported already
		if byName && inList && named[pattern] != "" {
			f.fault(entry.keys["check"], "severity: duplicate check %s: it is set at %s already", pattern, named[pattern])
		}
		for _, id := range ids {
			if id != Check && (byName || named[id] == "") {
				weighs[id] = severity
			}
		}
		if byName {
			named[pattern] = f.at(entry.node)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(weighs)) {
		switch severity := weighs[id]; severity {
		case "off":
			s.Off = append(s.Off, id)
		case "error", "warning":
			s.Severities[id] = checks.Severity(severity)
		}
	}
}

func (f *file) waiver(entry entry) checks.Waiver {
	w := checks.Waiver{
		Check:  f.required(entry, "check"),
		Nodes:  f.nodeSet(entry.keys["nodes"], "nodes"),
		Fact:   f.optional(entry, "fact"),
		Reason: f.required(entry, "reason"),
		Owner:  f.required(entry, "owner"),
		Until:  f.required(entry, "until"),
		At:     f.at(entry.node),
	}
	if _, known := catalogue.Lookup(w.Check); !known && w.Check != "" {
		f.fault(entry.keys["check"], "%s", NoCheck(w.Check))
	} else if err := agreement.ValidWaiver(w); err != nil && known {
		f.fault(cmp.Or(entry.keys["fact"], entry.keys["check"]), "%v", err)
	}
	if _, err := time.Parse(time.DateOnly, w.Until); err != nil && w.Until != "" {
		f.fault(entry.keys["until"], "until: %q is not a date: write it like 2026-12-31", w.Until)
	}
	return w
}

func (f *file) knownBad(entry entry) checks.KnownBad {
	e := checks.KnownBad{
		ID:       f.required(entry, "id"),
		Says:     f.required(entry, "says"),
		Severity: checks.Severity(cmp.Or(f.choice(entry, "severity", "error", "warning"), "error")),
		Fixed:    f.optional(entry, "fixed"),
		Cure:     f.optional(entry, "cure"),
		WouldSee: f.optional(entry, "would_see"),
		Source:   f.optional(entry, "source"),
		At:       f.at(entry.node),
		When:     map[string]string{},
	}
	when := entry.keys["when"]
	if when == nil || when.Kind != yaml.MappingNode {
		f.fault(cmp.Or(when, entry.node), "when: must map what is looked at to what it is, as in {nccl: \"<2.29.3\", arch: aarch64}")
		return e
	}
	for name, condition := range f.mapping(when) {
		e.When[name] = f.text(condition, "when: "+name)
	}
	if err := knownbad.Valid(e); err != nil && e.ID != "" && e.Says != "" {
		f.fault(when, "%v", err)
	}
	return e
}

// NoCheck says that there is no such check, and which was likely meant.
func NoCheck(id string) string {
	var ids []string
	for _, check := range catalogue.Catalogue {
		ids = append(ids, check.ID)
	}
	near := usage.Nearest(id, ids)
	if near == "" && len(id) >= leastPart { // a part of the name, as people say it
		part := func(name string) bool { return slices.Contains(strings.Split(name, "-"), strings.ToLower(id)) }
		if at := slices.IndexFunc(ids, part); at >= 0 {
			near = text.DidYouMean(ids[at])
		}
	}
	return fmt.Sprintf("unknown check %q%s", id, near)
}

// leastPart is of how many letters the part of a name tells one.
const leastPart = 3

// ChecksNamed are the IDs that a name or a pattern (gpu-*) means.
func ChecksNamed(pattern string) []string {
	var ids []string
	for _, check := range catalogue.Catalogue {
		if match, err := path.Match(pattern, check.ID); match && err == nil {
			ids = append(ids, check.ID)
		}
	}
	return ids
}
