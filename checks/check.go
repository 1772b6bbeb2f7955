// SPDX-License-Identifier: Apache-2.0

// Package checks defines the types that every check shares. A check decides which facts of a fleet
// will break a launch, on which nodes, and which commands repair those nodes.
//
// A check is a value in the catalogue. It gets the facts of the whole fleet and the prediction of
// the launch, and returns findings. Package engine runs the catalogue, decides which nodes a check
// could not examine, and folds equal findings.
//
// A check uses no file, network, clock, environment or process. A check that needs more information
// needs a new fact. What was not seen is unknown, never a pass or a fail. A fix is text for a
// person and is never run here. Package report renders the results.
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
	Unknown Verdict = "unknown" // the check had too few facts: never a pass, never a fail
	Skip    Verdict = "skip"    // the check does not apply to this launch; the finding has the reason
)

// Severity is the weight of a check's findings, unless a finding sets its own verdict.
type Severity string

const (
	Error   Severity = "error"   // the launch will fail or hang: verdict fail
	Warning Severity = "warning" // the launch will work, but slower or only by chance: verdict warn
	Off     Severity = "off"     // the check does not run; only a policy sets this
)

// Check is one entry of the catalogue. Its text is in FAMILY/ID.md.
type Check struct {
	ID       string // stable, kebab-case, never reused
	Severity Severity
	// Needs lists the sections that a node must have reported. Run gets only nodes with all of
	// these sections. All other nodes become unknown, with the reason.
	Needs []facts.Section
	// OnHead means that Needs applies to the launching machine instead. Findings without a node
	// then belong to the launching machine.
	OnHead bool
	// FromPolicy means that the policy decides what is checked. Run then gets every node and must
	// itself report what was not seen.
	FromPolicy bool
	// DependsOn lists the IDs of the checks whose findings this check reads through the View. Those
	// checks run first, whatever their place in the catalogue.
	DependsOn []string
	// Rung is the position of a check in the order in which a login passes the checks, from 1. It
	// is 0 for checks that are not about the login. If the login to a node failed at a lower rung,
	// the check has nothing to examine on that node.
	Rung int
	// Stopped returns the rung at which the login to a node failed, and the finding for that
	// failure. The rung is 0 if the login did not fail. All checks with a Rung set Stopped.
	Stopped func(*facts.Node) (rung int, finding Finding)
	// Agreed means that the check compares nodes with a policy or a baseline. A launch may work on
	// nodes that fail the check.
	Agreed bool
	// Volatile means that some findings depend on facts that facts.Lasting leaves out, or on launch
	// settings that LastingLaunch removes. The check then cannot run on a normalized snapshot.
	Volatile bool
	// Undecided is the reason why the check reports no verdict whatever it finds. It is "" for
	// checks that report a verdict. The findings of an undecided check serve only the checks that
	// depend on it.
	Undecided string
	// Run returns the findings. It is pure: no clock, no I/O, no state.
	Run func(View) []Finding
}

// View is the input of a check.
type View struct {
	Nodes  []*facts.Node // nodes that reported every needed section, in hostfile order; all nodes for an OnHead check
	Head   *facts.Node   // the launching machine, never nil for an OnHead check
	All    []facts.Node  // the whole fleet, for names and counts
	Launch launch.Prediction
	Policy Policy
	// NotTried maps each section that this run did not collect to the reason.
	NotTried map[facts.Section]string

	// Found returns the nodes for which another check has a finding with one of these verdicts. It
	// uses the verdicts that the policy gives, and waived findings count too. The result is empty
	// if the other check is switched off or does not apply. Found panics if DependsOn does not list
	// the other check.
	Found func(check string, verdicts ...Verdict) map[string]bool
	// Reported returns the gravest warning or failure of another check on a node in this report. ok
	// is false if there is none.
	Reported func(check, node string) (f Finding, ok bool)
	// Stated returns the policy's expectations for a fact, or nil if there are none.
	Stated func(fact string) []Stated
	Memory Memory
}

// Failing returns the nodes that another check fails. DependsOn must list that check.
func (v View) Failing(check string) map[string]bool { return v.Found(check, Fail) }

// Stated is an expectation of the policy in the form that a comparison of nodes needs.
type Stated struct {
	Of     func(node string) bool  // reports whether the expectation applies to a node
	Allows func(value string) bool // reports whether the expectation allows a value; "" is an absent value
	Least  int64                   // the smallest number that the expectation allows if it states one, otherwise 0
	// Missed holds the nodes that do not meet the expectation. It is filled only if missing the
	// expectation is at least as grave as a finding of the running check.
	Missed map[string]bool
}

// Memory caches results that many checks of one evaluation need. Each package uses its own types as
// keys.
type Memory map[any]any

// Remember returns the result of find. Within an evaluation, find runs only once per key. All
// values under one key must have the same type.
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

// Finding is one problem that a check found, with the nodes that have it. A check fills in the
// fields that it knows. Evaluate adds the check's ID, the verdict that follows from the severity,
// and the WouldSee of the check's text. It then folds findings that differ only in their nodes.
//
// Folding replaces three names in WouldSee and in the code of Remedy. {nodes} becomes the folded
// node set, {node} becomes the first node, and {host} becomes the name of the first node without a
// user.
type Finding struct {
	Check   string     `json:"check"`
	Verdict Verdict    `json:"verdict"`
	Nodes   []string   `json:"nodes"`
	Summary string     `json:"summary"`
	Got     string     `json:"got,omitempty"`
	Want    string     `json:"want,omitempty"`
	Fix     []string   `json:"fix,omitempty"`       // the commands of Remedy, addressed to these nodes
	Roles   []fix.Role `json:"fix_roles,omitempty"` // the role of each command of Fix, in the same order
	Notes   []string   `json:"notes,omitempty"`     // steps of Remedy that are not commands
	// Decide is true if no command is sure to cure the finding, so that a person must decide.
	Decide   bool   `json:"decide,omitempty"`
	WouldSee string `json:"would_see,omitempty"`
	// Fact is the path of the fact that the finding is about, if a policy states that fact.
	Fact string `json:"fact,omitempty"`
	// Facts lists all facts of the finding with equal weight, Fact first. It is nil if there is
	// only one fact. A waiver of the finding must cover each of the facts.
	Facts []string `json:"-"`
	// Covers lists facts, and paths above facts, whose values on these nodes result from this
	// finding. Reports need not list those facts again.
	Covers []string `json:"-"`
	// At is the place of the policy statement that a node does not meet, such as
	// "preflight.yaml:12". It is "" for other findings.
	At string `json:"at,omitempty"`
	// Changes lists the differences from the baseline, node by node. Only findings of drift have
	// them.
	Changes []Change `json:"changes,omitempty"`
	// SharesCause is the ID of a check that reports the cause of this finding on the same nodes, or
	// "" if there is no such check. The same fix then cures both findings, and they count as one
	// problem.
	SharesCause string `json:"shares_cause,omitempty"`

	// Remedy holds the commands and notes of the fix, not yet addressed to nodes.
	Remedy []fix.Command `json:"-"`
	// Weighed means that the check itself has already applied the policy's severities.
	Weighed bool `json:"-"`
	// Explained marks an unknown finding whose cause another check reports. The finding makes the
	// check's verdict unknown but is not listed again.
	Explained bool `json:"-"`
}

// Skipped returns the findings of a check that does not apply to this launch.
func Skipped(reason string) []Finding {
	return []Finding{{Verdict: Skip, Summary: reason}}
}

// UnknownFor returns a finding for a node that reported the needed sections but that the check
// still cannot decide about.
func UnknownFor(node *facts.Node, reason string) Finding {
	return Finding{Verdict: Unknown, Nodes: []string{node.Name}, Summary: reason}
}

// Unasked returns the finding for a node that did not answer. If preflight had reached the node,
// lost is the reason why the answer is missing.
func Unasked(node *facts.Node, lost string) Finding {
	switch {
	case lost != "":
		return UnknownFor(node, lost)
	case node.SSH != nil:
		return UnknownFor(node, "not reached: "+node.SSH.Message)
	}
	return UnknownFor(node, "not reached: no login was tried")
}

// OnEach returns a Run that calls judge for every node separately. Findings without nodes get the
// node for which judge returned them.
func OnEach(judge func(View, *facts.Node) []Finding) func(View) []Finding {
	return func(view View) (findings []Finding) {
		for _, node := range view.Nodes {
			findings = append(findings, OfNode(node, judge(view, node)...)...)
		}
		return findings
	}
}

// OfNode adds the node to those findings that have no node, and returns the findings.
func OfNode(node *facts.Node, findings ...Finding) []Finding {
	for i := range findings {
		if findings[i].Nodes == nil {
			findings[i].Nodes = []string{node.Name}
		}
	}
	return findings
}

// Remedies returns the fix as a list of strings, for use as a key: findings with different fixes
// have different lists.
func (f Finding) Remedies() []string { return text.Map(f.Remedy, fix.Command.String) }

// Sight holds the nodes that a check can examine, and the reasons why it cannot examine the others.
type Sight struct {
	Nodes []*facts.Node
	Head  string // why the launching machine cannot be checked, "" if it can
	// Failed lists the nodes whose login failed and for which an ssh check fails the run. These
	// nodes do not affect the check's verdict for the other nodes.
	Failed []string
	// Unreached lists the nodes whose login failed without a finding that counts. These nodes make
	// the check's verdict unknown.
	Unreached []string
	Unknown   []Finding // one for each reached node that lacks a section
}

// Missing returns the reason why the check cannot examine a node, or "" if it can.
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

// Beyond reports whether the login to a node failed before the check's rung. The check then has
// nothing to examine on that node.
func (c Check) Beyond(node *facts.Node) bool {
	if c.Rung == 0 {
		return false
	}
	rung, _ := c.Stopped(node)
	return rung > 0 && rung < c.Rung
}

// Everywhere returns all nodes of the fleet.
func (v View) Everywhere() (nodes []*facts.Node) {
	nodes = make([]*facts.Node, len(v.All))
	for i := range v.All {
		nodes[i] = &v.All[i]
	}
	return nodes
}

// NamesOf returns the names of nodes, in their order.
func NamesOf(nodes []*facts.Node) []string {
	return text.Map(nodes, func(node *facts.Node) string { return node.Name })
}

// Unnamed returns the verdict of a check for a node that none of its findings names. The verdict is
// Unknown if the check could not see the node, Skip if the check does not apply, and Pass if the
// whole check passed. It is "" if the check found something on other nodes or could not examine
// everything. The outcome then does not say whether this node is fine.
//
// judges is false for checks of the launching machine or of the policy, because they have no
// verdict for a node.
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
