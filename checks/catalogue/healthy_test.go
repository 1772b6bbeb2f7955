package catalogue

import (
	"flag"
	"testing"

	"preflight/checks"
	"preflight/checks/fleettest"
)

var update = flag.Bool("update", false, "rewrite what stands below the arrows of the fixtures in testdata")

func TestHealthyFleetIsHealthy(t *testing.T) {
	for _, n := range []int{1, 2, 4, 40} {
		report := judged(fleettest.Healthy(n), Catalogue...)
		if report.ExitCode != 0 || len(report.Findings) > 0 || len(report.Diff) > 0 {
			t.Errorf("%d nodes: verdict %s, findings %+v, diff %+v", n, report.Verdict, report.Findings, report.Diff)
		}
		for _, outcome := range report.Checks {
			if outcome.Verdict == checks.Unknown {
				t.Errorf("%d nodes: %s is unknown: %s", n, outcome.Check, outcome.Reason)
			}
		}
	}
}
