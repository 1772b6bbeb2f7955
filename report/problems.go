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

// Label returns what the step is called: "look", "fix", "then" or "or".
func (s Step) Label() string { return RoleLabels[s.Role] }

// Steps returns the commands of a finding with their roles. Reports of older releases have no
// roles: there each command counts as a fix.
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

// Cure returns the commands that cure a finding when they are pasted together, in their order:
// those of the roles fix and then.
func Cure(steps []Step) (commands []string) {
	for _, step := range steps {
		if step.Role == fix.Fix || step.Role == fix.Then {
			commands = append(commands, step.Command)
		}
	}
	return commands
}

// Paste is commands to copy together.
type Paste struct {
	Label    string // "look", "fix" or "or"
	Commands []string
}

// Pastes returns the commands of steps as they are copied: what cures a finding in one piece, each
// alternative in one of its own.
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

// setSteps makes these the commands of a finding.
func setSteps(f *checks.Finding, steps []Step) {
	f.Fix, f.Roles = nil, nil
	for _, step := range steps {
		f.Fix, f.Roles = append(f.Fix, step.Command), append(f.Roles, step.Role)
	}
}

// Problem is one row of the table of problems and one block below it: a finding, all findings of
// what changed since a baseline, or all checks that are unknown for one reason.
type Problem struct {
	checks.Finding
	// Mark is what the table and the block have in common: a number for a failure, "!" for a
	// warning, "?" for what is unknown, "" for what another problem causes.
	Mark string
	// Index is the place of the finding in the report, of a drift that of the first one; of an
	// unknown its place among [Words.Unknowns].
	Index   int
	Changes []Row            // of a drift, nil elsewhere
	Checks  []string         // of an unknown: the checks that it affects
	Parts   []checks.Finding // of a drift and of an unknown: the findings that are one here
}

// wholeLaunch are the checks whose findings concern all ranks, though they name the node to mend.
var wholeLaunch = []string{"master-address", "master-port-free", "rendezvous"}

// Problems returns what is wrong in the order in which it is read: failures before what is unknown
// before warnings, and within each what concerns the whole launch, then nodes that were not
// reached, then the others. With all, no change since a baseline is folded.
func (w Words) Problems(all bool) (problems []Problem) {
	drift, at := w.Drift(all)
	for i, f := range w.report.Findings {
		switch {
		case i == at:
			problems = append(problems, Problem{Finding: drift.Finding, Index: i, Changes: drift.Rows, Parts: drift.Parts})
		case f.Verdict != checks.Unknown && !HasChanges(f):
			problems = append(problems, Problem{Finding: f, Index: i})
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

// reach orders problems by what they concern: 0 the whole launch, 1 nodes that were not reached, 2
// other nodes, 3 changes since a baseline, whose causes come first.
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

// Name returns what a problem is called in a table: its check, or how many checks are unknown.
func (p Problem) Name() string {
	if len(p.Checks) > 1 {
		return text.Plural(len(p.Checks), "check")
	}
	return p.Check
}

// widestTable is how many columns the table has where nobody says how many the page has: a file cuts
// no line, and its reader scrolls.
const widestTable = 120

// leastProblem is how many characters of a problem the table shows at least.
const leastProblem = 24

// problems draws the table: one row for each problem, cut to the width of the page.
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
