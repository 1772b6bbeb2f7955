package preflight_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
)

// TestRunsAtOnce: runs that begin at the same moment on the same hosts, as cron and a
// colleague have it, step aside for each other: each of them meets, and finds what it finds
// alone.
func TestRunsAtOnce(t *testing.T) {
	cluster := raise(t, "at-once")
	// More rounds than that only until two have met at the port, which each holds for
	// milliseconds.
	const rounds, most, runs = 4, 24, 4
	alone := short(judge(t, cluster).Findings)
	waited := 0
	for round := 0; round < rounds || waited == 0 && round < most; round++ {
		reports := make([]checks.Report, runs)
		var all sync.WaitGroup
		for i := range reports {
			all.Go(func() { reports[i] = judge(t, cluster) })
		}
		all.Wait()
		if t.Failed() {
			return // a report may be missing
		}
		for _, report := range reports {
			if diff := cmp.Diff(alone, short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			at := slices.IndexFunc(report.Checks, func(o checks.Outcome) bool { return o.Check == "rendezvous" })
			if outcome := report.Checks[at]; outcome.Verdict != checks.Pass {
				t.Errorf("rendezvous: %s %s", outcome.Verdict, outcome.Reason)
			}
			if seen := report.Nodes[0].Rendezvous; seen != nil && seen.Waited > 0 {
				waited++
			}
		}
	}
	if waited == 0 {
		t.Errorf("none of %d runs waited for another: they were not at the port at once", most*runs)
	}
}
