// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/host"
	"preflight/checks/ssh"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// TestPartition evaluates the whole catalogue over four nodes. w1 is healthy and w2 cannot run the
// launch, so the exit code says nothing about the other nodes.
func TestPartition(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fleettest.Fleet)
		want   Partition
	}{
		"one fails":       {func(*fleettest.Fleet) {}, Partition{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"one is not seen": {func(f *fleettest.Fleet) { *f = without(*f, 2, facts.SectionNVML) }, Partition{Good: []string{"w1", "w4"}, Bad: []string{"w2"}, Unknown: []string{"w3"}}},
		"nobody asked": {func(f *fleettest.Fleet) {
			for i := range f.Nodes {
				f.Nodes[i].NVML = nil
			}
			f.NotTried[facts.SectionNVML] = "--accelerator cpu"
		}, Partition{Good: []string{"w1", "w3", "w4"}, Bad: []string{"w2"}}},
		"its answer ended in the middle": {func(f *fleettest.Fleet) {
			f.Nodes[3].Facts = facts.Facts{SSH: &facts.SSH{Cause: "truncated"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}}, // agent-start fails on w4
		"not heard when it was interrupted": {func(f *fleettest.Fleet) {
			f.Nodes[3].Reached, f.Nodes[3].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "interrupted"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2"}, Unknown: []string{"w4"}}},
		"not reached": {func(f *fleettest.Fleet) {
			f.Nodes[3].Reached, f.Nodes[3].Facts = false, facts.Facts{SSH: &facts.SSH{Cause: "refused"}}
		}, Partition{Good: []string{"w1", "w3"}, Bad: []string{"w2", "w4"}}},
	} {
		fleet := fleettest.Healthy(4)
		fleet.Nodes[1].SHM.Size = 64 << 20
		c.change(&fleet)
		got := PartitionOf(engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPartitionUnaccused checks that an unreached node is not bad if the check that would blame it
// did not run or is waived.
func TestPartitionUnaccused(t *testing.T) {
	fleet := fleettest.Healthy(3)
	fleet.Nodes[2].Reached, fleet.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	for name, c := range map[string]struct {
		policy checks.Policy
		want   Partition
	}{
		"accused": {checks.Policy{}, Partition{Good: []string{"w1", "w2"}, Bad: []string{"w3"}}},
		"waived":  {checks.Policy{Today: "2026-11-21", Waivers: []checks.Waiver{{Check: "ssh-reach", Until: "2026-12-31"}}}, Partition{Good: []string{"w1", "w2"}, Unknown: []string{"w3"}}},
		"off":     {checks.Policy{Only: []string{"shm-writable"}}, Partition{Good: []string{"w1", "w2"}, Unknown: []string{"w3"}}},
	} {
		got := PartitionOf(engine.Evaluate([]checks.Check{ssh.Reach, host.SHMWritable}, fleet.Fleet, fleet.Launch, c.policy))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	nobody := checks.Report{Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}}}}
	if diff := cmp.Diff(Partition{Unknown: []string{"w1"}}, PartitionOf(nobody)); diff != "" {
		t.Errorf("nobody tried (-want +got):\n%s", diff)
	}
}

// TestPartitionStrict checks that a node with only a warning is bad under --strict, whether or not
// another node fails.
func TestPartitionStrict(t *testing.T) {
	warned := checks.Finding{Verdict: checks.Warn, Nodes: []string{"w1"}, Summary: "odd"}
	failed := checks.Finding{Nodes: []string{"w2"}, Summary: "bad"}
	for _, c := range []struct {
		strict   bool
		findings []checks.Finding
		bad      []string
	}{
		{true, []checks.Finding{warned, failed}, []string{"w1", "w2"}},
		{true, []checks.Finding{warned}, []string{"w1"}},
		{false, []checks.Finding{warned, failed}, []string{"w2"}},
		{false, []checks.Finding{warned}, nil},
	} {
		fleet := fleettest.Healthy(3)
		r := engine.Evaluate([]checks.Check{fleettest.Says("x", c.findings...)}, fleet.Fleet, fleet.Launch, checks.Policy{Strict: c.strict})
		if diff := cmp.Diff(c.bad, PartitionOf(r).Bad); diff != "" || r.Strict != c.strict {
			t.Errorf("strict %t, kept as %t (-want +got):\n%s", c.strict, r.Strict, diff)
		}
	}
}

// TestPartitionLostMidway checks a node whose connection was lost during the run. The checks that
// would report that are switched off.
func TestPartitionLostMidway(t *testing.T) {
	fleet := fleettest.Healthy(4)
	fleet.Nodes[3].SSH.Cause = "truncated"
	r := engine.Evaluate([]checks.Check{host.SHMSize}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
	if diff := cmp.Diff(Partition{Good: []string{"w1", "w2", "w3"}, Unknown: []string{"w4"}}, PartitionOf(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPartitionNeedsEverySection checks that a node is not good if a check could not examine it.
func TestPartitionNeedsEverySection(t *testing.T) {
	for _, check := range Catalogue {
		for _, section := range check.Needs {
			fleet := without(fleettest.Healthy(4), 2, section)
			r := engine.Evaluate([]checks.Check{check}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
			r.Findings = nil // as if another check reported the cause
			if good := slices.Contains(PartitionOf(r).Good, "w3"); good != check.OnHead {
				t.Errorf("%s without %s: good is %t", check.ID, section, good)
			}
		}
	}
}
