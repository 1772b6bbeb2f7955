package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
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
)

// Check is one entry of the catalogue: a value with its documentation.
type Check struct {
	ID       string // stable, kebab-case, never reused
	Title    string // what is true when it passes
	Severity Severity
	// Needs are the sections a node must have shown. Run gets only nodes that
	// have them all; the others become unknown, with the reason.
	Needs []facts.Section
	// OnHead asks for the sections on the launching machine instead.
	OnHead bool
	// FromPolicy says that the policy decides what is looked at: Run gets every node,
	// and says itself what could not be seen.
	FromPolicy bool
	// Agreed says that it holds nodes to what a team has stated or recorded: a launch may
	// work on nodes that fail it.
	Agreed bool
	// Volatile says that it judges, if only for some of its findings, by facts that
	// facts.Lasting leaves out, or by what LastingLaunch does: a normalized snapshot
	// tells it nothing.
	Volatile bool
	Doc      string // one paragraph: what it looks at, why it matters
	WouldSee string // the message training would have died with
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

	rankEnvs map[*facts.Node]map[string]facts.Setting // what rankEnv has worked out; many checks ask
	networks map[*facts.Node]launch.Network           // what ncclNetwork has, for the same reason
	cards    func(*facts.Node) []*facts.Card          // what launchCards has

	found    map[string]map[string]bool // what the checks before this one have found: nodes by check ID
	severity Severity                   // what the check that runs weighs here
	stated   []statement                // the policy's expectations, held against the fleet
	waiving  *waiving                   // what its waivers have done so far
}

// Finding is one thing a check found, on the nodes it concerns. A check fills
// in what it knows; Evaluate adds the check's ID, its verdict by severity and
// its WouldSee, and folds findings that differ in their nodes only.
//
// In WouldSee, as in the code of Remedy, {nodes} becomes the folded node set, {node}
// the first node and {host} its name without a user, once folding is done.
type Finding struct {
	Check    string   `json:"check"`
	Verdict  Verdict  `json:"verdict"`
	Nodes    []string `json:"nodes"`
	Summary  string   `json:"summary"`
	Got      string   `json:"got,omitempty"`
	Want     string   `json:"want,omitempty"`
	Fix      []string `json:"fix,omitempty"` // Remedy, as folding has addressed it
	WouldSee string   `json:"would_see,omitempty"`
	// Fact is the path of the one fact it is about, where a policy states that fact.
	Fact string `json:"fact,omitempty"`
	// Facts are several that it is about and that weigh alike, Fact the first of them, nil
	// for one: what covers the finding has to cover each.
	Facts []string `json:"-"`
	// At is where a policy states what was not met, "preflight.yaml:12", "" elsewhere.
	At string `json:"at,omitempty"`

	// Remedy are the commands to paste, as a check has them.
	Remedy []fix.Command `json:"-"`
	// Explained is an unknown whose cause another check reports: it makes the check's
	// verdict unknown and is told no second time.
	Explained bool `json:"-"`
}

// skip is the whole answer of a check that does not apply to this fleet.
func skip(reason string) []Finding {
	return []Finding{{Verdict: Skip, Summary: reason}}
}

// unknown says that one node could not be judged although its sections are there.
func unknown(node *facts.Node, reason string) Finding {
	return Finding{Verdict: Unknown, Nodes: []string{node.Name}, Summary: reason}
}
