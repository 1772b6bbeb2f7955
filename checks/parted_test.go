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
		want   Partition
	}{
		"one fails":       {func(*launchable) {}, Partition{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"one is not seen": {func(f *launchable) { *f = without(*f, 2, facts.SectionNVML) }, Partition{Good: []string{"w1", "w4"}, Bad: []string{"w2"}, Unknown: []string{"w3"}}},
		"nobody asked": {func(f *launchable) {
			for i := range f.Nodes {
				f.Nodes[i].NVML = nil
			}
			f.NotTried[facts.SectionNVML] = "--accelerator cpu"
		}, Partition{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"its answer ended in the middle": {func(f *launchable) {
			f.Nodes[3].Facts = facts.Facts{SSH: &facts.SSH{Cause: "truncated"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}}, // agent-start fails there
		"not heard when it was interrupted": {func(f *launchable) {
			f.Nodes[3].Reached, f.Nodes[3].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "interrupted"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2"}, Unknown: []string{"w4"}}},
		"not reached": {func(f *launchable) {
			f.Nodes[3].Reached, f.Nodes[3].Facts = false, facts.Facts{SSH: &facts.SSH{Cause: "refused"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}},
	} {
		fleet := healthyFleet(4)
		fleet.Nodes[1].SHM.Size = 64 << 20
		c.change(&fleet)
		got := Partitioned(Evaluate(Catalogue, fleet.Fleet, fleet.Launch, DefaultPolicy()))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPartUnaccused: it is nobody's fault that a node was not reached where nobody was to
// ask, or where that is waived.
func TestPartUnaccused(t *testing.T) {
	fleet := healthyFleet(3)
	fleet.Nodes[2].Reached, fleet.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	for name, c := range map[string]struct {
		policy Policy
		want   Partition
	}{
		"accused": {Policy{}, Partition{Good: []string{"w1", "w2"}, Bad: []string{"w3"}}},
		"waived":  {Policy{Today: "2026-11-21", Waivers: []Waiver{{Check: "ssh-reach", Until: "2026-12-31"}}}, Partition{Good: []string{"w1", "w2"}, Unknown: []string{"w3"}}},
		"off":     {Policy{Only: []string{"shm-writable"}}, Partition{Good: []string{"w1", "w2"}, Unknown: []string{"w3"}}},
	} {
		got := Partitioned(Evaluate([]Check{sshReach, shmWritable}, fleet.Fleet, fleet.Launch, c.policy))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	nobody := Report{Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}}}}
	if diff := cmp.Diff(Partition{Unknown: []string{"w1"}}, Partitioned(nobody)); diff != "" {
		t.Errorf("nobody tried (-want +got):\n%s", diff)
	}
}

// TestPartStrict: who is only warned of is bad under strict, whether another one fails or not.
func TestPartStrict(t *testing.T) {
	warned := Finding{Verdict: Warn, Nodes: []string{"w1"}, Summary: "odd"}
	failed := Finding{Nodes: []string{"w2"}, Summary: "bad"}
	for _, c := range []struct {
		strict   bool
		findings []Finding
		bad      []string
	}{
		{true, []Finding{warned, failed}, []string{"w1", "w2"}},
		{true, []Finding{warned}, []string{"w1"}},
		{false, []Finding{warned, failed}, []string{"w2"}},
		{false, []Finding{warned}, nil},
	} {
		fleet := healthyFleet(3)
		r := Evaluate([]Check{says("x", c.findings...)}, fleet.Fleet, fleet.Launch, Policy{Strict: c.strict})
		if diff := cmp.Diff(c.bad, Partitioned(r).Bad); diff != "" || r.Strict != c.strict {
			t.Errorf("strict %t, kept as %t (-want +got):\n%s", c.strict, r.Strict, diff)
		}
	}
}

// TestPartLostMidway: nobody says it where the checks that would are switched off.
func TestPartLostMidway(t *testing.T) {
	fleet := healthyFleet(4)
	fleet.Nodes[3].SSH.Cause = "truncated"
	r := Evaluate([]Check{shmSize}, fleet.Fleet, fleet.Launch, DefaultPolicy())
	if diff := cmp.Diff(Partition{Good: []string{"w1", "w2", "w3"}, Unknown: []string{"w4"}}, Partitioned(r)); diff != "" {
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
			if good := slices.Contains(Partitioned(r).Good, "w3"); good != check.OnHead {
				t.Errorf("%s without %s: good is %t", check.ID, section, good)
			}
		}
	}
}
