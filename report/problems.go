// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

// Step is one command of a finding and what it is for.
type Step struct {
	Role    fix.Role
	Command string
}

// Label returns the label of the step: "look", "fix", "then" or "or".
func (s Step) Label() string { return RoleLabels[s.Role] }

// Steps returns the commands of a finding with their roles. Reports of older releases have no
// roles, so each of their commands counts as a fix.
func Steps(f checks.Finding) []Step {
	steps := make([]Step, len(f.Fix))
	for i, command := range f.Fix {
		steps[i] = Step{fix.Fix, command}
		if i < len(f.Roles) {
			steps[i].Role = f.Roles[i]
		}
	}
	return steps
}

// Cure returns the commands with the roles fix and then. Pasted in this order, they cure the
// finding.
func Cure(steps []Step) (commands []string) {
	for _, step := range steps {
		if step.Role == fix.Fix || step.Role == fix.Then {
			commands = append(commands, step.Command)
		}
	}
	return commands
}

// Paste holds commands to copy in one piece.
type Paste struct {
	Label    string // "look", "fix" or "or"
	Commands []string
}

// Pastes groups the commands that are copied in one piece. Commands that cure a finding together
// form one piece, and each alternative is a separate piece.
func Pastes(steps []Step) (pastes []Paste) {
	for i, step := range steps {
		cures := func(step Step) bool { return step.Role == fix.Fix || step.Role == fix.Then }
		goesOn := i > 0 && (cures(step) && cures(steps[i-1]) || step.Role == fix.Look && steps[i-1].Role == fix.Look)
		if !goesOn {
			pastes = append(pastes, Paste{Label: step.Label()})
		}
		last := &pastes[len(pastes)-1]
		last.Commands = append(last.Commands, step.Command)
	}
	return pastes
}

// setSteps replaces the commands of a finding.
func setSteps(f *checks.Finding, steps []Step) {
	f.Fix, f.Roles = nil, nil
	for _, step := range steps {
		f.Fix, f.Roles = append(f.Fix, step.Command), append(f.Roles, step.Role)
	}
}

// Problem is one row of the table of problems and one block below it. It stands for a finding, for
// all findings about changes since a baseline, or for all checks that are unknown for one reason.
type Problem struct {
	checks.Finding
	// Mark links the row and the block: a number for a failure, "!" for a warning, "?" for an
	// unknown, and "" for a finding that another one causes.
	Mark string
	// Index is the index of the finding in the report. For changes it is the index of the first
	// finding about changes, and for an unknown the index in [Words.Unknowns].
	Index   int
	Changes []Row            // changes since a baseline, nil for other problems
	Checks  []string         // the checks that are unknown, nil for other problems
	Parts   []checks.Finding // the findings that are joined, nil for a single finding
}

// wholeLaunch lists the checks whose findings concern all ranks, although the findings name only
// the node to fix.
var wholeLaunch = []string{"master-address", "master-port-free", "rendezvous"}

// Problems returns the problems in reading order: failures, then unknowns, then warnings. Within
// each verdict, problems of the whole launch come first, then problems of nodes that were not
// reached, then those of other nodes. If all is true, changes since a baseline are not folded.
func (w Words) Problems(all bool) (problems []Problem) {
	drift, at := w.Drift(all)
	for i, f := range w.report.Findings {
		switch {
		case i == at:
			problems = append(problems, Problem{Finding: drift.Finding, Index: i, Changes: drift.Rows, Parts: drift.Parts})
		case f.Verdict != checks.Unknown && !HasChanges(f) && w.ShownAt(i) == i:
			problems = append(problems, Problem{Finding: w.Shown(i), Index: i})
		}
	}
	for i, u := range w.Unknowns() {
		problems = append(problems, Problem{Finding: u.Finding, Index: i, Checks: u.Checks, Parts: u.Parts})
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(checks.Gravity(a.Verdict), checks.Gravity(b.Verdict)), cmp.Compare(w.reach(a), w.reach(b)))
	})
	number := 0
	for i := range problems {
		switch p := &problems[i]; {
		case p.Verdict == checks.Unknown:
			p.Mark = "?"
		case w.countsElsewhere(p.Finding), p.Changes != nil && !slices.ContainsFunc(p.Parts, w.countsItself):
		case p.Verdict == checks.Warn:
			p.Mark = "!"
		default:
			number++
			p.Mark = strconv.Itoa(number)
		}
	}
	return problems
}

// reach returns a number for sorting problems by how far they reach. It is 0 for the whole launch,
// 1 for nodes that were not reached, 2 for other nodes, and 3 for changes since a baseline. Changes
// come last, after their causes.
func (w Words) reach(p Problem) int {
	f := p.Finding
	missed := func(name string) bool {
		return slices.ContainsFunc(w.report.Nodes, func(node facts.Node) bool { return node.Name == name && !node.Reached })
	}
	reached := func(name string) bool { return !missed(name) }
	head := w.report.Head != nil && slices.Equal(f.Nodes, []string{w.report.Head.Name})
	switch {
	case p.Changes != nil:
		return 3
	case len(f.Nodes) == 0, head, len(f.Nodes) == w.fleet && w.fleet > 1, slices.Contains(wholeLaunch, f.Check):
		return 0
	case !slices.ContainsFunc(f.Nodes, reached):
		return 1
	}
	return 2
}

// Name returns the first column of a problem in a table: its check, or the number of unknown
// checks.
func (p Problem) Name() string {
	if len(p.Checks) > 1 {
		return text.Plural(len(p.Checks), "check")
	}
	return p.Check
}

// widestTable is the width of the table in columns if the output is not a terminal, because a
// reader of a file can scroll.
const widestTable = 120

// leastProblem is the minimum number of characters of a problem that the table shows on any page.
const leastProblem = 24

// problems draws the table with one row for each problem, cut to the width of the page.
func (p *page) problems(all []Problem) {
	rows := text.Map(all, func(one Problem) []string {
		return []string{one.Mark, text.Escape(one.Name()), p.shortWhom(one.Finding), text.Escape(oneLine(one.Summary))}
	})
	widths := make([]int, len(problemHeader))
	for _, row := range append([][]string{problemHeader}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	left := max(cmp.Or(p.style.Width, widestTable)-widths[0]-widths[1]-widths[2]-2*4, leastProblem)
	line := func(row []string) string {
		return fmt.Sprintf("%*s  %s  %s  %s", widths[0]+2, row[0], padded(row[1], widths[1]), padded(row[2], widths[2]), Shorten(row[3], left))
	}
	p.line("\n%s", p.faint(line(problemHeader)))
	for i, row := range rows {
		row[0] = fmt.Sprintf("%*s", widths[0], row[0])
		shown := line(row)
		if at := len(row[0]) + 2; p.style.Color {
			shown = p.colored(all[i].Verdict, shown[:at]) + shown[at:]
		}
		p.line("%s", shown)
	}
}

// These are the labels of a report. They are the same in every format. Sentences about the launch
// are in words.go.
const (
	LabelGot      = "got"
	LabelWant     = "want"
	LabelNote     = "note"
	LabelWouldSee = "would see" // what training would have printed: would_see in JSON
	LabelReason   = "reason"    // why checks are unknown
	LabelAffects  = "affects"   // the checks that are unknown for that reason
	LabelCause    = "cause"     // the check that finds what causes a finding

	LabelNotTested = "not tested" // problems that can end the launch and that no check of this run tested
	LabelUsable    = "usable now" // the nodes that a launch could use

	labelChecks     = "checks"
	labelUnreached  = "unreached"
	labelRemark     = "remark"
	labelMore       = "more"
	labelWaived     = "waived"
	labelThroughput = "throughput"

	headingProven  = "proven to work by this run"
	headingRefused = "proven to work, but do not write these down"
	headingDerived = "derived from the facts, not tried"
)

// RoleLabels maps the roles of commands to their labels.
var RoleLabels = map[fix.Role]string{fix.Look: "look", fix.Fix: "fix", fix.Then: "then", fix.Or: "or"}

// verdicts maps verdicts to words in capitals, so that logs can be searched for them.
var verdicts = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

// Word returns a verdict in capitals: "FAIL".
func Word(v checks.Verdict) string { return verdicts[v] }

// labels maps the verdicts of checks without a finding to the labels of their reasons.
var labels = map[checks.Verdict]string{checks.Pass: "passed", checks.Unknown: "unknown", checks.Skip: "skipped"}

// Counted lists the verdicts whose checks are counted, in the order of the output.
var Counted = []struct {
	Verdict checks.Verdict
	Word    string
}{{checks.Pass, "passed"}, {checks.Fail, "failed"}, {checks.Warn, "warned"}, {checks.Unknown, "unknown"}}

// These are the column headers of the tables.
var (
	problemHeader    = []string{"", "CHECK", "NODES", "PROBLEM"}
	differenceHeader = []string{"differs", "most nodes", "others"}
)
