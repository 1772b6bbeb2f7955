// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"regexp"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// explained completes a finding with the cause that the output shows. If another check has failed
// on these nodes, the finding shares that check's cause.
func (s attempt) explained(f checks.Finding) checks.Finding {
	cause := s.causeOf(&f)
	if named := speaks.FindStringSubmatch(f.Got); f.Nodes == nil && named != nil {
		f.Nodes = s.known(named[1:])
	}
	if p := s.view.Head.Rehearsed.Program; f.Nodes == nil && p != nil {
		if first := srunEnds.FindStringSubmatch(p.Output); first != nil {
			names, _ := hostfile.Expand(first[1]) // no names if srun wrote something else
			f.Nodes = s.known(names)
		}
	}
	if cause == nil {
		f.SharesCause = s.sharedWith(f.Nodes, "")
		return f
	}
	f.Got += "; the output shows: " + cause.Summary
	var remedy []fix.Command
	for _, line := range cause.Fix {
		remedy = append(remedy, fix.Said(line))
	}
	f.Remedy = append(remedy, f.Remedy...)
	f.SharesCause = s.sharedWith(f.Nodes, cause.Check)
	return f
}

// speaks matches the complaint of a launcher in which pdsh or Open MPI names the node that it is from.
var speaks = regexp.MustCompile(`: (?:pdsh@\S+: )?\[?([^\s:\[\]]+)(?::\d+\]|: )`)

// waits matches the error of a rank that waited for others in vain, or whose connection another one
// closed.
var waits = regexp.MustCompile(`(?i)time[d-]? ?out|connection was likely closed|connection reset|connection closed by peer`)

// causeOf returns the first cause that the output shows for the blamed nodes, nil for none. What
// it shows for other nodes is the effect on them. It is the reverse if the blamed ranks only waited
// in vain: then the finding moves to the nodes of the cause.
func (s attempt) causeOf(f *checks.Finding) *facts.RehearsedCause {
	causes := s.view.Head.Rehearsed.Causes
	for i := range causes {
		nodes := s.known(causes[i].Nodes)
		if f.Nodes == nil {
			f.Nodes = nodes
		}
		if len(nodes) == 0 || slices.ContainsFunc(nodes, func(node string) bool { return slices.Contains(f.Nodes, node) }) {
			return &causes[i]
		}
	}
	if len(causes) > 0 && waits.MatchString(f.WouldSee) {
		f.Nodes = s.known(causes[0].Nodes)
		return &causes[0]
	}
	return nil
}

// known returns the nodes of the launch with the given names or short names.
func (s attempt) known(given []string) (known []string) {
	for _, node := range s.view.Nodes {
		if slices.Contains(given, node.Name) || slices.Contains(given, hostfile.Bare(node.Name)) {
			known = append(known, node.Name)
		}
	}
	return known
}

// sharedWith returns the check that has failed with the same cause, "" for none. The check that
// the output points to comes first, then the first check that fails one of the nodes, then, if no
// node is blamed, the first check that fails any.
func (s attempt) sharedWith(nodes []string, pointedTo string) string {
	for _, check := range append([]string{pointedTo}, s.before...) {
		if !slices.Contains(s.before, check) {
			continue
		}
		failing := s.view.Failing(check)
		if len(failing) > 0 && (len(nodes) == 0 || check == pointedTo || slices.ContainsFunc(nodes, func(node string) bool { return failing[node] })) {
			return check
		}
	}
	return ""
}

// followers are the causes that package explain names when a rank or node only waited for another
// one. They do not say what is wrong with that one.
var followers = []string{"collective-timeout", "peer-exited", "rendezvous-timeout"}

// IsUnexplained reports whether the rehearsal failed and the report does not say why. If a rank
// failed before it met the others, its own error says why.
func IsUnexplained(r checks.Report) bool {
	fails := slices.ContainsFunc(r.Findings, func(f checks.Finding) bool {
		return f.Check == id && f.Verdict == checks.Fail && f.SharesCause == ""
	})
	return fails && isOpen(r.Head, r.Nodes)
}

// isOpen reports whether neither the output nor the ranks of a failed rehearsal say what is wrong.
func isOpen(head *facts.Node, nodes []facts.Node) bool {
	for _, cause := range head.Rehearsed.Causes {
		if cause.Cause != "" && !slices.Contains(followers, cause.Cause) {
			return false
		}
	}
	return !slices.ContainsFunc(nodes, func(node facts.Node) bool {
		return slices.ContainsFunc(node.Rehearsed.Ranks, failedAlone)
	})
}

// isolated completes a finding whose cause is open with what the smoke test shows: the nodes that
// fail there too, or that the nodes pass without the launcher.
func (s attempt) isolated(f checks.Finding) checks.Finding {
	if !isOpen(s.view.Head, s.view.All) {
		return f
	}
	var failing []string
	with := ""
	for _, node := range s.view.Nodes {
		smoke := node.Smoke
		if smoke == nil || smoke.Refused != "" || len(smoke.Untried) > 0 && smoke.Fault == "" {
			return f // the test has not run to its end
		}
		if smoke.Fault != "" {
			failing = append(failing, node.Name)
		}
		with = smoke.Engine + " over " + smoke.Backend
	}
	if failing != nil {
		f.Nodes = failing
		f.Got += "; the smoke test with " + with + " fails too"
		return f
	}
	f.Got += "; the smoke test with " + with + " passes on all nodes"
	f.Remedy = append([]fix.Command{fix.Note("The nodes compute and communicate without the launcher, so look for the fault in the launcher, the command and the environment that it gives the ranks.")}, f.Remedy...)
	return f
}
