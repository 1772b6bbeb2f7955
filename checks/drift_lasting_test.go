package checks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// lastingOf is a fleet as it is read back from a normalized snapshot.
func lastingOf(t *testing.T, fleet launchable) launchable {
	t.Helper()
	through := func(node facts.Node) facts.Node {
		text, err := json.Marshal(node.Lasting())
		if err != nil {
			t.Fatal(err)
		}
		node.Facts = facts.Facts{}
		if err := json.Unmarshal(text, &node.Facts); err != nil {
			t.Fatal(err)
		}
		return node
	}
	fleet.Nodes = slices.Clone(fleet.Nodes)
	for i := range fleet.Nodes {
		fleet.Nodes[i] = through(fleet.Nodes[i])
	}
	if fleet.Head != nil {
		head := through(*fleet.Head)
		fleet.Head = &head
	}
	fleet.Fleet = LastingFleet(fleet.Fleet, fleet.Launch)
	return fleet
}

// TestLastingJudgesAlike judges every fixture as it is and as its normalized snapshot: a
// check says the same of both, or that it cannot judge the second, and never passes what
// it has not seen.
func TestLastingJudgesAlike(t *testing.T) {
	for _, check := range Catalogue {
		for _, path := range fixturesOf(t, check.ID) {
			fleet, policy := readFixture(t, path).build(t)
			whole := Evaluate([]Check{check}, fleet.Fleet, fleet.Launch, policy)
			left := lastingOf(t, fleet)
			part := Evaluate(Lasting([]Check{check}), left.Fleet, left.Launch, policy)
			a, b := whole.Checks[0], part.Checks[0]
			if strings.Contains(b.Reason, LeftOut) || slices.Contains(momentary, check.ID) && b.Verdict == Unknown {
				continue
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("%s: whole and normalized (-whole +normalized):\n%s", path, diff)
			} else if diff := cmp.Diff(whole.Findings, part.Findings); diff != "" {
				t.Errorf("%s: whole and normalized (-whole +normalized):\n%s", path, diff)
			}
		}
	}
}

// TestLastingHealthy has nothing to find, and no judgement on what was left out.
func TestLastingHealthy(t *testing.T) {
	fleet := lastingOf(t, healthyFleet(4))
	report := Evaluate(Lasting(Catalogue), fleet.Fleet, fleet.Launch, DefaultPolicy())
	if diff := cmp.Diff([]Finding{}, report.Findings); diff != "" || report.Verdict != Pass {
		t.Errorf("%s (-want +got):\n%s", report.Verdict, diff)
	}
	for _, id := range momentary {
		if _, known := Lookup(id); !known {
			t.Errorf("there is no check %s", id)
		}
	}
}
