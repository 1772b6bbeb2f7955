// SPDX-License-Identifier: Apache-2.0

// Package rehearsal judges the rehearsal of a launch, in which the user's own launcher ran with a
// stand-in script in place of the training.
package rehearsal

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

const id = "rehearsal"

// After returns the check. It fails exactly if the launch with the stand-in script did. Each of the
// other checks may already have reported the cause.
func After(others []checks.Check) checks.Check {
	var before []string
	for _, check := range others {
		before = append(before, check.ID)
	}
	return checks.Check{
		ID:        id,
		Severity:  checks.Error,
		Needs:     []facts.Section{facts.SectionRehearsed},
		DependsOn: before,
		Volatile:  true,
		Run:       func(view checks.View) []checks.Finding { return judge(view, before) },
	}
}

func judge(view checks.View, before []string) []checks.Finding {
	switch head := view.Head; {
	case head == nil || head.Rehearsed == nil:
		return []checks.Finding{{Verdict: checks.Unknown, Summary: "the launching machine has no record of the rehearsal"}}
	case head.Rehearsed.Refused != "":
		return []checks.Finding{{Verdict: checks.Unknown, Summary: "cannot be rehearsed: " + head.Rehearsed.Refused, Remedy: []fix.Command{fix.Note("Add --rehearse=0 to leave the rehearsal out.")}}}
	}
	if findings := undelivered(view.Nodes); findings != nil {
		return findings
	}
	findings := left(view)
	s := attempt{view: view, before: before, ranks: map[*facts.Node][]facts.RehearsedRank{}}
	for _, node := range view.Nodes {
		s.ranks[node] = node.Rehearsed.Ranks
	}
	findings = append(findings, s.unwritten()...)
	if s.succeeded() {
		return findings
	}
	if building := s.building(); building != nil {
		return append(findings, *building)
	}
	f := s.blame()
	if f.Verdict == checks.Unknown {
		return append(findings, f)
	}
	return append(findings, s.explained(s.isolated(f)))
}

// undelivered returns a finding for each node that did not get the stand-in script.
func undelivered(nodes []*facts.Node) (findings []checks.Finding) {
	for _, node := range nodes {
		if why := node.Rehearsed.Undelivered; why != "" {
			findings = append(findings, checks.UnknownFor(node, "the stand-in script could not be put on the node: "+why))
		}
	}
	return findings
}

// left returns a warning for each machine on which something of the rehearsal remained.
func left(view checks.View) (findings []checks.Finding) {
	warn := func(nodes []string, left []string) {
		if len(left) > 0 {
			findings = append(findings, checks.Finding{Verdict: checks.Warn, Nodes: nodes, Summary: "parts of the rehearsal could not be removed",
				Got: strings.Join(left, "; "), Want: "nothing left", Remedy: []fix.Command{fix.Note("Remove the named files, and end the named processes by their numbers.")}})
		}
	}
	warn(nil, view.Head.Rehearsed.Left)
	for _, node := range view.Nodes {
		warn([]string{node.Name}, node.Rehearsed.Left)
	}
	return findings
}

// attempt is a rehearsal with the ranks of each node.
type attempt struct {
	view   checks.View
	before []string // the checks that may have reported the cause
	ranks  map[*facts.Node][]facts.RehearsedRank
}

// succeeded reports whether all ranks finished and all launchers ended without an error.
func (s attempt) succeeded() bool {
	return s.finished() && !slices.ContainsFunc(s.programs(), func(p program) bool { return p.ExitCode != 0 })
}

// finished reports whether all ranks finished.
func (s attempt) finished() bool {
	finished := 0
	for _, node := range s.view.Nodes {
		if slices.ContainsFunc(s.ranks[node], func(r facts.RehearsedRank) bool { return r.End != facts.EndFinished }) {
			return false
		}
		finished += len(s.ranks[node])
	}
	return finished > 0 && finished >= s.view.Launch.WorldSize()
}

// unwritten warns about nodes on which only ranks other than rank 0 failed to write. The launch
// works unless its script lets all ranks write.
func (s attempt) unwritten() (findings []checks.Finding) {
	for _, node := range s.view.Nodes {
		for _, rank := range s.ranks[node] {
			if rank.Unwritten != "" {
				findings = append(findings, checks.Finding{
					Verdict: checks.Warn, Nodes: []string{node.Name}, Summary: "ranks cannot write to a directory of the launch",
					Got: rank.Unwritten, Want: "every rank can write there, if the script lets every rank write",
					WouldSee: "nothing, unless ranks other than rank 0 write there", Remedy: []fix.Command{fix.Note("make the directory writable on these nodes, or let only rank 0 write")},
				})
				break
			}
		}
	}
	return findings
}

// program is a launcher that preflight started, and its node; nil for the launching machine.
type program struct {
	*facts.RehearsedProgram
	node *facts.Node
}

func (s attempt) programs() (all []program) {
	if p := s.view.Head.Rehearsed.Program; p != nil {
		all = append(all, program{p, nil})
	}
	for _, node := range s.view.Nodes {
		if p := node.Rehearsed.Program; p != nil {
			all = append(all, program{p, node})
		}
	}
	return all
}

var moreTime = fix.Note("Give the rehearsal more time with --rehearse-time, for example 3m.")

// building returns the finding for a rehearsal that ended while ranks were compiling, or nil if
// none was. A later rehearsal needs less time, because compilers keep what they have finished.
func (s attempt) building() *checks.Finding {
	for _, node := range s.view.Nodes {
		for _, rank := range s.ranks[node] {
			if rank.End == facts.EndFailed {
				return nil
			}
		}
	}
	f := checks.Finding{Verdict: checks.Unknown, Summary: "the time ended while ranks were compiling", Remedy: []fix.Command{moreTime}}
	for _, node := range s.view.Nodes {
		for _, rank := range s.ranks[node] {
			if rank.Building != "" {
				f.Nodes, f.Got = append(f.Nodes, node.Name), rank.Building
				break
			}
		}
	}
	if f.Nodes == nil {
		return nil
	}
	return &f
}
