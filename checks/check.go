// SPDX-License-Identifier: Apache-2.0

// Package checks judges a fleet of nodes before a launch: which facts will
// break it, on which nodes, and what to type.
//
// A check is a value in the catalogue. It gets the facts of the whole fleet and
// the prediction of the launch, and returns findings; Evaluate runs the
// catalogue, decides what could not be judged and folds equal findings.
//
// The package refuses to look: no file, no network, no clock, no environment,
// no process. A check that wants to know more is asking for a new fact. It
// refuses to guess: what was not seen is unknown, never a pass and never a
// fail. It refuses to act: a fix is text for a person, never run here. It does
// not print: package report renders what is found.
package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
)

// Verdict is the outcome of a check, of a finding or of a whole run.
type Verdict string

const (
	Pass    Verdict = "pass"
	Warn    Verdict = "warn"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown" // could not look: never a pass, never a fail
	Skip    Verdict = "skip"    // does not apply here, with the reason
)

// Severity is what a finding of a check weighs unless the finding says otherwise.
type Severity string

const (
	Error   Severity = "error"   // the launch will fail or hang: verdict fail
	Warning Severity = "warning" // it will work, but worse or by luck: verdict warn
	Off     Severity = "off"     // nobody is to look: said by a policy alone
)

// Check is one entry of the catalogue. Its text is in FAMILY/ID.md.
type Check struct {
	ID       string // stable, kebab-case, never reused
	Severity Severity
	// Needs are the sections a node must have shown. Run gets only nodes that
	// have them all; the others become unknown, with the reason.
	Needs []facts.Section
	// OnHead asks for the sections on the launching machine instead, of which its findings
	// are that name no node.
	OnHead bool
	// FromPolicy says that the policy decides what is looked at: Run gets every node,
	// and says itself what could not be seen.
	FromPolicy bool
	// DependsOn are the IDs of the checks whose findings it asks for through the View. They
	// are evaluated before it, wherever they stand in the catalogue.
	DependsOn []string
	// Rung is the place of a check that a login meets, the first 1; 0 for any other. A node
	// whose way in ended below it has nothing for it to judge.
	Rung int
	// Stopped is at which rung the way in to a node ended, and what is to be said of that; 0
	// where it did not. All checks with a Rung have it.
	Stopped func(*facts.Node) (rung int, finding Finding)
	// Agreed says that it holds nodes to what a team has stated or recorded: a launch may
	// work on nodes that fail it.
	Agreed bool
	// Volatile says that it judges, if only for some of its findings, by facts that
	// facts.Lasting leaves out, or by what LastingLaunch does: a normalized snapshot
	// tells it nothing.
	Volatile bool
	// Undecided is why it comes to no verdict, whatever it finds, "" where it does: what it
	// finds is for those that depend on it alone.
	Undecided string
	// Run judges. It is pure: no clock, no I/O, no state.
	Run func(View) []Finding
}

// View is what a check may look at.
type View struct {
	Nodes  []*facts.Node // nodes that showed every needed section, in hostfile order; all of them for an OnHead check
	Head   *facts.Node   // the launching machine, never nil for an OnHead check
	All    []facts.Node  // the whole fleet, for names and counts
	Launch launch.Prediction
	Policy Policy
	// NotTried are the sections that nobody was to look at, each with the reason.
	NotTried map[facts.Section]string

	// Found are the nodes of which a check has found one of these verdicts, as the policy
	// weighs them, whether they are waived or not; none where the check is switched off or
	// did not apply. It panics where the check that runs does not depend on that one.
	Found func(check string, verdicts ...Verdict) map[string]bool
	// Reported is what a check warns of or fails on a node in this report, of several the
	// gravest; ok is false where it finds nothing there.
	Reported func(check, node string) (f Finding, ok bool)
	// Stated are the policy's expectations of a fact, nil without any.
	Stated func(fact string) []Stated
	Memory Memory
}

// Failing are the nodes that a check fails, which the one that runs depends on.
func (v View) Failing(check string) map[string]bool { return v.Found(check, Fail) }

// Stated is an expectation of the policy, as a comparison of nodes needs it.
type Stated struct {
	Of     func(node string) bool  // whether it is stated of a node
	Allows func(value string) bool // whether it takes a value, "" for an absent one
	// Missed are the nodes that miss it, where that counts at least as much as what the check
	// that runs may find.
	Missed map[string]bool
}

// Memory is what is worked out once in an evaluation, because many checks ask for it: each
// package keeps what is its own under keys of its own types.
type Memory map[any]any

// Remember is what find gives, which is asked but once for a key; every time where the View
// is not of an evaluation. A key has to be of one kind of value.
func Remember[K comparable, V any](v View, key K, find func() V) V {
	if v.Memory == nil {
		return find()
	}
	known, met := v.Memory[key]
	if !met {
		known = find()
		v.Memory[key] = known
	}
	return known.(V)
}

// Finding is one thing a check found, on the nodes it concerns. A check fills
// in what it knows; Evaluate adds the check's ID, its verdict by severity and
// the WouldSee of its text, and folds findings that differ in their nodes only.
//
// In WouldSee, as in the code of Remedy, {nodes} becomes the folded node set, {node}
// the first node and {host} its name without a user, once folding is done.
type Finding struct {
	Check    string     `json:"check"`
	Verdict  Verdict    `json:"verdict"`
	Nodes    []string   `json:"nodes"`
	Summary  string     `json:"summary"`
	Got      string     `json:"got,omitempty"`
	Want     string     `json:"want,omitempty"`
	Fix      []string   `json:"fix,omitempty"`       // the commands of Remedy, as folding has addressed them
	Roles    []fix.Role `json:"fix_roles,omitempty"` // what each command of Fix is for, in the same order
	Notes    []string   `json:"notes,omitempty"`     // what else Remedy says to do, which no command does
	WouldSee string     `json:"would_see,omitempty"`
	// Fact is the path of the one fact it is about, where a policy states that fact.
	Fact string `json:"fact,omitempty"`
	// Facts are several that it is about and that weigh alike, Fact the first of them, nil
	// for one: what covers the finding has to cover each.
	Facts []string `json:"-"`
	// Covers are facts, and what holds facts, that are on these nodes what they are because of
	// it: nobody need be told of them besides.
	Covers []string `json:"-"`
	// At is where a policy states what was not met, "preflight.yaml:12", "" elsewhere.
	At string `json:"at,omitempty"`
	// Changes are what it tells of a baseline and of now, node by node: what is found there by
	// drift.
	Changes []Change `json:"changes,omitempty"`
	// SharesCause is the check that finds on the same nodes what this comes from, and whose fix
	// this one has: one cause, which counts there. "" for a cause of its own.
	SharesCause string `json:"shares_cause,omitempty"`

	// Remedy are the commands to paste and the notes on what else to do, as a check has them.
	Remedy []fix.Command `json:"-"`
	// Weighed is whether the check has asked the policy itself what each thing weighs that it
	// found: then nobody else does.
	Weighed bool `json:"-"`
	// Explained is an unknown whose cause another check reports: it makes the check's
	// verdict unknown and is not reported again.
	Explained bool `json:"-"`
}

// Skipped is the whole answer of a check that does not apply to this fleet.
func Skipped(reason string) []Finding {
	return []Finding{{Verdict: Skip, Summary: reason}}
}

// UnknownFor says that one node could not be judged although its sections are there.
func UnknownFor(node *facts.Node, reason string) Finding {
	return Finding{Verdict: Unknown, Nodes: []string{node.Name}, Summary: reason}
}

// Unasked is what is said of a node that could not answer: lost is why one that was reached did not.
func Unasked(node *facts.Node, lost string) Finding {
	switch {
	case lost != "":
		return UnknownFor(node, lost)
	case node.SSH != nil:
		return UnknownFor(node, "not reached: "+node.SSH.Message)
	}
	return UnknownFor(node, "not reached: no login was tried")
}

// OnEach is the Run of a check that judges every node by itself. Findings that name no node
// are of the one judged.
func OnEach(judge func(View, *facts.Node) []Finding) func(View) []Finding {
	return func(view View) (findings []Finding) {
		for _, node := range view.Nodes {
			findings = append(findings, OfNode(node, judge(view, node)...)...)
		}
		return findings
	}
}

// OfNode are findings of which those that name no node are of this one.
func OfNode(node *facts.Node, findings ...Finding) []Finding {
	for i := range findings {
		if findings[i].Nodes == nil {
			findings[i].Nodes = []string{node.Name}
		}
	}
	return findings
}

// Remedies are unlike where findings are to be put right in different ways.
func (f Finding) Remedies() []string { return text.Map(f.Remedy, fix.Command.String) }

// Sight is which nodes a check can judge, and why not the others.
type Sight struct {
	Nodes []*facts.Node
	Head  string // why the launching machine cannot be judged
	// Failed are nodes whose way in failed, of which a failure of an ssh check says so, once:
	// that fails the run, and what is said of the others stands.
	Failed []string
	// Unreached are those of which nothing that counts says it, and it leaves a check unknown.
	Unreached []string
	Unknown   []Finding // one for each node that was reached and lacks a section
}

// Missing says why a node cannot be judged by the check, "" when it can.
func (c Check) Missing(node *facts.Node) string {
	for _, section := range c.Needs {
		if node.Has(section) {
			continue
		}
		if reason := node.Missing[section]; reason != "" {
			return fmt.Sprintf("%s: %s", section, reason)
		}
		return fmt.Sprintf("%s: not checked", section)
	}
	return ""
}

// Beyond is whether the way in to a node ended at a rung below the check's: it has nothing
// to judge there then.
func (c Check) Beyond(node *facts.Node) bool {
	if c.Rung == 0 {
		return false
	}
	rung, _ := c.Stopped(node)
	return rung > 0 && rung < c.Rung
}

// Everywhere is the whole fleet, as a check gets nodes.
func (v View) Everywhere() (nodes []*facts.Node) {
	nodes = make([]*facts.Node, len(v.All))
	for i := range v.All {
		nodes[i] = &v.All[i]
	}
	return nodes
}

// NamesOf are what nodes are called, in their order.
func NamesOf(nodes []*facts.Node) []string {
	return text.Map(nodes, func(node *facts.Node) string { return node.Name })
}

// Unnamed is what a check that came to an outcome says of a node that none of its
// findings names: Unknown where it could not look at the node, Skip where it does not
// apply, Pass where all of it passed. A check names those with whom something is wrong, and
// not those with whom all is well: where it found something elsewhere, or could not judge
// everything, the verdict is "", for nothing is said of the others.
//
// judges is false where the check is of the launching machine or of the policy, and says
// nothing of any node.
func (c Check) Unnamed(outcome Outcome, node *facts.Node) (verdict Verdict, judges bool) {
	switch {
	case outcome.Verdict == Skip && outcome.Reason != AllWaived:
		return Skip, true
	case c.OnHead, c.ID == PolicyID:
		return "", false
	case c.Beyond(node), c.Missing(node) != "", c.FromPolicy && !node.Reached:
		return Unknown, true
	case outcome.Verdict == Pass:
		return Pass, true
	}
	return "", true
}
