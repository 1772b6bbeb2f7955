// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"maps"
	"slices"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
)

// LeftOut is the reason why a check does not run on a normalized snapshot.
const LeftOut = "a normalized snapshot leaves out the facts that this check needs"

// Lasting returns a catalogue for normalized snapshots. Its checks do not use facts that such
// snapshots leave out.
func Lasting(catalogue []checks.Check) []checks.Check {
	judged := slices.Clone(catalogue)
	for i := range judged {
		check := &judged[i]
		lasting := slices.DeleteFunc(slices.Clone(check.Needs), func(s facts.Section) bool { return isGone(check, s) })
		if len(lasting) < len(check.Needs) {
			check.Needs = lasting // the check is still skipped if the run did not collect one of these sections
			check.Run = func(checks.View) []checks.Finding { return nil }
			check.Undecided = LeftOut
		}
		if check.Volatile {
			check.Undecided = LeftOut
		}
	}
	return judged
}

// Lasts reports whether a normalized snapshot contains any of the facts that a check needs.
func Lasts(check checks.Check) bool {
	return check.FromPolicy || slices.ContainsFunc(check.Needs, func(s facts.Section) bool { return !isGone(&check, s) })
}

func isGone(c *checks.Check, s facts.Section) bool {
	return slices.Contains(facts.Momentary, s) || c.OnHead && s != facts.SectionLauncher
}

// LastingLaunch returns a launch without the fields that depend on the shell and the directory in
// which the user typed the command.
func LastingLaunch(p launch.Prediction) launch.Prediction {
	p.WorkDir, p.Exports, p.Command, p.CommandEnv = "", nil, nil, nil
	p.Script, p.Arguments, p.Files, p.Places, p.Models, p.Config, p.NodeLocal = "", nil, nil, nil, nil, nil, false
	return p
}

// LastingFleet returns a fleet from a normalized snapshot in the form that the checks expect. Its
// nodes are in the order of the launch, not in the order of the file. The sections of
// facts.Momentary are marked as not collected.
func LastingFleet(fleet facts.Fleet, prediction launch.Prediction) facts.Fleet {
	place := map[string]int{}
	for i, host := range prediction.Hosts {
		place[host.Name] = i
	}
	fleet.Nodes = slices.Clone(fleet.Nodes)
	slices.SortStableFunc(fleet.Nodes, func(a, b facts.Node) int { return place[a.Name] - place[b.Name] })
	notTried := map[facts.Section]string{}
	maps.Copy(notTried, fleet.NotTried)
	for _, section := range facts.Momentary {
		notTried[section] = LeftOut
	}
	fleet.NotTried = notTried
	return fleet
}
