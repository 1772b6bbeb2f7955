// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"maps"
	"slices"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
)

// LeftOut is why a check does not judge a normalized snapshot.
const LeftOut = "a normalized snapshot leaves out the facts that this check needs"

// Lasting is a catalogue for normalized snapshots. What a check would judge by facts that
// were left out it cannot tell, and no node is to blame.
func Lasting(catalogue []checks.Check) []checks.Check {
	judged := slices.Clone(catalogue)
	for i := range judged {
		check := &judged[i]
		lasting := slices.DeleteFunc(slices.Clone(check.Needs), func(s facts.Section) bool { return isGone(check, s) })
		if len(lasting) < len(check.Needs) {
			check.Needs = lasting // what the run was never to look at is still not judged
			check.Run = func(checks.View) []checks.Finding { return nil }
			check.Undecided = LeftOut
		}
		if check.Volatile {
			check.Undecided = LeftOut
		}
	}
	return judged
}

// Lasts is whether a normalized snapshot holds something of what a check judges by.
func Lasts(check checks.Check) bool {
	return check.FromPolicy || slices.ContainsFunc(check.Needs, func(s facts.Section) bool { return !isGone(&check, s) })
}

func isGone(c *checks.Check, s facts.Section) bool {
	return slices.Contains(facts.Momentary, s) || c.OnHead && s != facts.SectionLauncher
}

// LastingLaunch is a launch without what it takes from the shell and the directory that it
// was typed in: whose cluster it is does not change with them.
func LastingLaunch(p launch.Prediction) launch.Prediction {
	p.WorkDir, p.Exports, p.Command, p.CommandEnv = "", nil, nil, nil
	p.Script, p.Arguments, p.Files, p.Places, p.Models, p.Config, p.NodeLocal = "", nil, nil, nil, nil, nil, false
	return p
}

// LastingFleet is a fleet read from a normalized snapshot, as the checks take it: in the
// order of the launch, which is not that of the file, and with the sections of
// facts.Momentary not tried.
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
