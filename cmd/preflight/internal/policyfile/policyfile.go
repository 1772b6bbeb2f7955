// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads preflight.yaml, which contains settings and the requirements of a team.
//
// It does not guess. Every mistake is an error with its line, and Read returns all errors at once,
// from the top of the file to its end. An unknown key is a mistake, because a misspelt key would
// silently have no effect. The package reads the YAML itself, because viper knows no lines and
// changes the spelling of keys.
package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
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

// mostOfFile is a limit in bytes above the size of any policy. It protects against a large file or
// an endless device that was named by mistake.
const mostOfFile = 1 << 20

// Setting describes a setting that the file may contain.
type Setting struct {
	Key   string
	List  bool                  // the setting takes several values
	Takes string                // the kind of value, in words: "a duration like 30s or 2m"
	Split func(string) []string // splits a text into values
	Wrong func(string) error    // returns an error for a value that is not allowed
}

// Policy is the content of preflight.yaml: settings, expectations, severities, waivers and known
// defects.
type Policy struct {
	File       string           // "" if there is no file
	Settings   map[string]Value // maps keys to values
	Expect     []checks.Expectation
	Off        []string // IDs of checks
	Severities map[string]checks.Severity
	Drift      []checks.DriftSeverity
	Waivers    []checks.Waiver
	Groups     []checks.Group
	KnownBad   []checks.KnownBad
	In         []In
}

// In describes the container in which the ranks run on some nodes.
type In struct {
	Nodes []string // nil for all nodes
	Words []string // the command that enters the container; nil means the node itself
}

// Value holds the values of one setting in the file, and the place where they are set.
type Value struct {
	At     string // "preflight.yaml:3"
	Values []string
}

// Read reads the configuration file. It returns an empty policy if name is "".
func Read(name string, settings []Setting) (Policy, error) {
	if name == "" {
		return Policy{}, nil
	}
	text, err := readSmall(name)
	if err != nil {
		return Policy{}, err
	}
	f := &file{name: name, groups: map[string]string{}}
	root := f.document(text)
	if root == nil {
		return Policy{}, f.err()
	}
	if root.Kind != yaml.MappingNode && root.Kind != 0 && root.Tag != "!!null" {
		f.fault(root, "settings must be written as \"name: value\"")
		root = &yaml.Node{}
	}
	policy := f.policy(values(root))
	policy.Settings = f.settings(root, settings)
	return policy, f.err()
}

func (f *file) settings(root *yaml.Node, all []Setting) map[string]Value {
	keys := slices.Clone(sections)
	for _, s := range all {
		keys = append(keys, s.Key)
	}
	set := map[string]Value{}
	for pair := range slices.Chunk(root.Content, 2) {
		key, node := pair[0], pair[1]
		at := slices.IndexFunc(all, func(s Setting) bool { return s.Key == strings.ToLower(key.Value) })
		switch {
		case slices.Contains(sections, key.Value), key.Value == perNode && node.Kind != yaml.ScalarNode:
		case at < 0:
			near := usage.Nearest(key.Value, keys)
			f.fault(key, "unknown setting %q%s", key.Value, cmp.Or(near, ": settings are the long names of the flags, with underscores, and "+strings.Join(sections, ", ")))
		case node.Tag != "!!null": // an empty value counts as missing
			set[all[at].Key] = Value{f.at(key), f.values(all[at], node)}
		}
	}
	return set
}

// values returns the values of a setting, and reports values that are not allowed.
func (f *file) values(s Setting, node *yaml.Node) (all []string) {
	nodes := []*yaml.Node{node}
	if s.List && node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	for _, one := range nodes {
		if !f.single(one, s.Key, s.Takes) {
			continue
		}
		for _, text := range s.Split(one.Value) {
			if err := s.Wrong(text); err != nil {
				f.fail(one, fmt.Errorf("%s: %w", s.Key, err))
			}
			all = append(all, text)
		}
	}
	return all
}

// readSmall returns the content of a file, or an error if it is too large for a configuration.
func readSmall(name string) (string, error) {
	open, err := os.Open(name)
	if err != nil {
		return "", Unreadable(name, err)
	}
	defer open.Close() // opened only for reading, so an error loses nothing
	text, err := io.ReadAll(io.LimitReader(open, mostOfFile+1))
	switch {
	case err != nil:
		return "", Unreadable(name, err)
	case len(text) > mostOfFile:
		return "", fmt.Errorf("configuration file %s: larger than 1 MiB", name)
	}
	return string(text), nil
}

// Unreadable returns an error that names the file and the system's reason.
func Unreadable(name string, err error) error {
	return fmt.Errorf("configuration file %s: %w", name, usage.Reason(err))
}

// sections lists the keys of a configuration file that are not settings.
var sections = []string{"expect", "groups", "known_bad", "severity", "waivers"}

func (f *file) policy(document map[string]*yaml.Node) Policy {
	s := Policy{File: f.name, Severities: map[string]checks.Severity{}}
	if groups := document["groups"]; groups != nil {
		s.Groups = f.readGroups(groups)
	}
	for _, entry := range f.entries(document["expect"], "expect", "fact", "is", "nodes?", "severity?", "fix?") {
		s.Expect = append(s.Expect, entry.expectation())
	}
	if in := document[perNode]; in != nil && in.Kind != yaml.ScalarNode {
		for _, entry := range f.entries(in, perNode, "nodes?", "command") {
			s.In = append(s.In, entry.inside())
		}
	}
	f.severities(f.entries(document["severity"], "severity", "check", "severity", "fact?"), &s)
	for _, entry := range f.entries(document["waivers"], "waivers", "check", "nodes?", "fact?", "reason", "owner", "until") {
		s.Waivers = append(s.Waivers, entry.waiver())
	}
	for _, entry := range f.entries(document["known_bad"], "known_bad", "id", "when", "says", "severity?", "fixed?", "cure?", "would_see?", "source?") {
		s.KnownBad = append(s.KnownBad, entry.knownBad())
	}
	return s
}

// perNode is the setting that may have a list of entries, with different values for some nodes.
const perNode = "in"

func (e entry) inside() (in In) {
	e.decode(&in)
	in.Nodes = e.nodeSet(in.Nodes)
	words, err := inside.Words(e.text("command"))
	if err != nil {
		e.fail(e.keys["command"], fmt.Errorf("%s: %w", perNode, err))
	}
	in.Words = words
	return in
}

// readGroups reads the groups, sorted by name.
func (f *file) readGroups(node *yaml.Node) (groups []checks.Group) {
	if node.Kind != yaml.MappingNode {
		f.fault(node, "groups: must map names to node sets, such as training: 'gpu[01-16]'")
		return nil
	}
	for pair := range slices.Chunk(node.Content, 2) {
		name, set := pair[0].Value, pair[1]
		if !f.single(set, "groups: "+name, "a single value") {
			continue
		}
		nodes, err := hostfile.Expand(set.Value)
		if groupName.FindString("@"+name) != "@"+name {
			f.fault(set, "groups: %q is not a valid group name: use letters, digits, _ and -", name)
		} else if err != nil {
			f.fault(set, "groups: %s: %v", name, err)
		}
		f.groups[name] = set.Value
		groups = append(groups, checks.Group{Name: name, Nodes: nodes, At: f.at(set)})
	}
	slices.SortFunc(groups, func(a, b checks.Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// groupName matches a group in a node set, at its start or after a comma or white space.
var groupName = regexp.MustCompile(`(^|[,\s])@([A-Za-z0-9_-]+)`)

// nodeSet returns the nodes of an entry's node sets, with groups replaced by their nodes.
func (e entry) nodeSet(sets []string) []string {
	node := e.keys["nodes"]
	if node == nil {
		return nil
	}
	set := strings.Join(sets, ",")
	for _, found := range groupName.FindAllStringSubmatch(set, -1) {
		group, there := e.groups[found[2]]
		if !there {
			e.fault(node, "nodes: unknown group %q%s", found[2], usage.Nearest(found[2], slices.Sorted(maps.Keys(e.groups))))
			return nil
		}
		set = strings.Replace(set, found[0], found[1]+group, 1)
	}
	names, err := hostfile.Expand(set)
	if err != nil {
		e.fault(node, "nodes: %v", err)
	}
	return names
}

func (e entry) expectation() (stated checks.Expectation) {
	e.decode(&stated)
	stated.Nodes, stated.At = e.nodeSet(stated.Nodes), e.at(e.node)
	e.choose("severity", "error", "warning")
	if err := agreement.ValidExpectation(stated); err != nil {
		place := e.keys["is"]
		if _, unknown := errors.AsType[*agreement.UnknownFactError](err); unknown {
			place = e.keys["fact"]
		}
		e.fault(place, "%v", err)
	}
	return stated
}

// Check is the ID of the check for the policy itself. Patterns do not change its severity.
const Check = "policy"

// weights lists the allowed severities.
var weights = []string{string(checks.Error), string(checks.Warning), string(checks.Off)}

// driftSeverities returns the severities of drift that an entry sets for single facts, groups of
// facts and topics.
func (e entry) driftSeverities() (all []checks.DriftSeverity) {
	pairs := []entry{e}
	if severity := e.keys["severity"]; severity.Kind == yaml.MappingNode {
		pairs = e.entries(severity, checks.DriftID, "fact", "severity")
	}
	for _, pair := range pairs {
		if _, err := agreement.ReadScope(pair.text("fact")); err != nil {
			e.fault(pair.keys["fact"], "%v", err)
		}
		all = append(all, checks.DriftSeverity{Of: pair.text("fact"), Severity: pair.choose("severity", weights...)})
	}
	return all
}

// severities sets the severities of checks, or switches checks off. An entry with a check's name
// overrides a pattern such as gpu-*, and a later pattern overrides an earlier pattern.
func (f *file) severities(entries []entry, s *Policy) {
	weighs, named := map[string]checks.Severity{}, map[string]string{} // severity of each check; place of the entry that names the check
	for _, entry := range entries {
		pattern := entry.text("check")
		if pattern == checks.DriftID && (entry.keys["fact"] != nil || entry.keys["severity"].Kind == yaml.MappingNode) {
			s.Drift = append(s.Drift, entry.driftSeverities()...)
			continue
		}
		severity := entry.choose("severity", weights...)
		if entry.keys["fact"] != nil {
			f.fault(entry.keys["fact"], "fact: not for %s: only findings of %s name single facts", pattern, checks.DriftID)
		}
		ids := ChecksNamed(pattern)
		if len(ids) == 0 {
			f.fault(entry.keys["check"], "%s", NoCheck(pattern))
		}
		byName := slices.Equal(ids, []string{pattern})
		if byName && pattern == Check {
			f.fault(entry.keys["check"], "severity: %s cannot be changed: an expired waiver always fails", Check)
		}
		if byName && named[pattern] != "" {
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
		if severity := weighs[id]; severity == checks.Off {
			s.Off = append(s.Off, id)
		} else {
			s.Severities[id] = severity
		}
	}
}

func (e entry) waiver() (w checks.Waiver) {
	e.decode(&w)
	w.Nodes, w.At = e.nodeSet(w.Nodes), e.at(e.node)
	if _, known := catalogue.Lookup(w.Check); !known {
		e.fault(e.keys["check"], "%s", NoCheck(w.Check))
	} else if err := agreement.ValidWaiver(w); err != nil {
		e.fault(cmp.Or(e.keys["fact"], e.keys["check"]), "%v", err)
	}
	if _, err := time.Parse(time.DateOnly, w.Until); err != nil {
		e.fault(e.keys["until"], "until: %q is not a date: write it like 2026-12-31", w.Until)
	}
	return w
}

func (e entry) knownBad() (bad checks.KnownBad) {
	e.decode(&bad)
	e.choose("severity", "error", "warning")
	bad.Severity, bad.At = cmp.Or(bad.Severity, checks.Error), e.at(e.node)
	if err := knownbad.Valid(bad); err != nil {
		e.fault(e.keys["when"], "%v", err)
	}
	return bad
}

// NoCheck returns the error text for an unknown check, with the check that the user likely meant.
func NoCheck(id string) string {
	ids := text.Map(catalogue.Catalogue, func(check checks.Check) string { return check.ID })
	near := usage.Nearest(id, ids)
	if near == "" && len(id) >= leastPart { // people often type a part of the name
		part := func(name string) bool { return slices.Contains(strings.Split(name, "-"), strings.ToLower(id)) }
		if at := slices.IndexFunc(ids, part); at >= 0 {
			near = text.DidYouMean(ids[at])
		}
	}
	return fmt.Sprintf("unknown check %q%s", id, near)
}

// leastPart is the minimum number of characters of a part of a name that NoCheck recognises.
const leastPart = 3

// ChecksNamed returns the IDs of the checks that match a name or a pattern (gpu-*).
func ChecksNamed(pattern string) []string {
	var ids []string
	for _, check := range catalogue.Catalogue {
		if match, err := path.Match(pattern, check.ID); match && err == nil {
			ids = append(ids, check.ID)
		}
	}
	return ids
}
