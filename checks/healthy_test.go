package checks

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata: healthy4.json, and below the arrows of the fixtures")

func TestHealthyFleetIsHealthy(t *testing.T) {
	for _, n := range []int{1, 2, 4, 40} {
		report := evaluate(healthyFleet(n), Catalogue...)
		if report.ExitCode != 0 || len(report.Findings) > 0 || len(report.Diff) > 0 {
			t.Errorf("%d nodes: verdict %s, findings %+v, diff %+v", n, report.Verdict, report.Findings, report.Diff)
		}
		for _, outcome := range report.Checks {
			if outcome.Verdict == Unknown {
				t.Errorf("%d nodes: %s is unknown: %s", n, outcome.Check, outcome.Reason)
			}
		}
	}
}

// TestHealthyFile keeps the file that other packages' tests start from.
func TestHealthyFile(t *testing.T) {
	const path = "testdata/healthy4.json"
	want, err := json.MarshalIndent(healthyFleet(4), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, append(want, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(bytes.TrimSpace(got))); diff != "" {
		t.Errorf("%s is not the healthy fleet; run go test ./checks -update (-want +got):\n%s", path, diff)
	}
}
