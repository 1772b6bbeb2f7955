package checks

import (
	"slices"

	"preflight/facts"
	"preflight/launch"
)

// LeftOut is why a check does not judge a normalized snapshot.
const LeftOut = "a normalized snapshot leaves out what this is judged by"

// momentary are the checks that judge by what a normalized snapshot leaves out, be it for
// some of their findings only, beside those that need a section of facts.Momentary.
var momentary = []string{
	"host-distinct", "launcher-ready", "launcher-args", "script-same", "offload-path",
	"shm-size", "shm-leftovers", "shm-limits", "numa-memory", "disk-space", "memory-available",
	"gpu-healthy", "gpu-idle", "gpu-mode", "gpu-throttle", "gpu-links",
	"nic-choice", "master-address", "master-port-free",
}

// Lasting is a catalogue for normalized snapshots. What a check would judge by facts that
// were left out it cannot judge: it is skipped, with that reason, for no node is to blame.
func Lasting(catalogue []Check) []Check {
	judged := slices.Clone(catalogue)
	for i := range judged {
		if slices.Contains(momentary, judged[i].ID) {
			judged[i].Run = func(View) []Finding { return skip(LeftOut) }
		}
	}
	return judged
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
	for section, reason := range fleet.NotTried {
		notTried[section] = reason
	}
	for _, section := range facts.Momentary {
		notTried[section] = LeftOut
	}
	fleet.NotTried = notTried
	return fleet
}
