package checks

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestPart parts runs of the whole catalogue over four nodes, of which w1 is well and w2
// cannot carry the launch, so that the exit code says nothing of the others.
func TestPart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*launchable)
		want   Parted
	}{
		"one fails":       {func(*launchable) {}, Parted{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"one is not seen": {func(f *launchable) { *f = without(*f, 2, facts.SectionNVML) }, Parted{Good: []string{"w1", "w4"}, Bad: []string{"w2"}, Untold: []string{"w3"}}},
		"nobody asked": {func(f *launchable) {
			for i := range f.Nodes {
				f.Nodes[i].NVML = nil
			}
			f.NotTried[facts.SectionNVML] = "--accelerator cpu"
		}, Parted{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"its answer ended in the middle": {func(f *launchable) {
			f.Nodes[3].Facts = facts.Facts{SSH: &facts.SSH{Cause: "truncated"}}
		}, Parted{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}}, // agent-start fails there
		"not reached": {func(f *launchable) {
			f.Nodes[3].Reached, f.Nodes[3].Facts = false, facts.Facts{SSH: &facts.SSH{Cause: "refused"}}
		}, Parted{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}},
	} {
		fleet := healthyFleet(4)
		fleet.Nodes[1].SHM.Size = 64 << 20
		c.change(&fleet)
		got := Evaluate(Catalogue, fleet.Fleet, fleet.Launch, DefaultPolicy()).Part()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPartLostMidway: nobody says it where the checks that would are switched off.
func TestPartLostMidway(t *testing.T) {
	fleet := healthyFleet(4)
	fleet.Nodes[3].SSH.Cause = "truncated"
	r := Evaluate([]Check{shmSize}, fleet.Fleet, fleet.Launch, DefaultPolicy())
	if diff := cmp.Diff(Parted{Good: []string{"w1", "w2", "w3"}, Untold: []string{"w4"}}, r.Part()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPartNeedsEverySection: of a node that a check could not look at nothing good is said.
func TestPartNeedsEverySection(t *testing.T) {
	for _, check := range Catalogue {
		for _, section := range check.Needs {
			fleet := without(healthyFleet(4), 2, section)
			r := Evaluate([]Check{check}, fleet.Fleet, fleet.Launch, DefaultPolicy())
			r.Findings = nil // as where another check tells why
			if good := slices.Contains(r.Part().Good, "w3"); good != check.OnHead {
				t.Errorf("%s without %s: good is %t", check.ID, section, good)
			}
		}
	}
}
