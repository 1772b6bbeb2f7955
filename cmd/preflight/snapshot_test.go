// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
)

func TestLacking(t *testing.T) {
	node := func(reached bool, cause string) facts.Node {
		return facts.Node{Reached: reached, Facts: facts.Facts{SSH: &facts.SSH{Cause: cause}}}
	}
	for name, c := range map[string]struct {
		nodes       []facts.Node
		interrupted bool
		want        string
	}{
		"whole":       {[]facts.Node{node(true, ""), {Reached: true}}, false, ""},
		"not reached": {[]facts.Node{node(true, ""), node(false, "timed-out")}, false, "the snapshot lacks 1 of 2 nodes, which were not reached or lost during the run"},
		"lost midway": {[]facts.Node{node(true, "killed")}, false, "the snapshot lacks 1 of 1 nodes, which were not reached or lost during the run"},
		"interrupted": {[]facts.Node{node(true, "")}, true, "the snapshot was interrupted"},
		"both": {[]facts.Node{node(false, "interrupted")}, true,
			"the snapshot was interrupted and lacks 1 of 1 nodes, which were not reached or lost during the run"},
	} {
		if got := lacking(checks.Report{Interrupted: c.interrupted, Fleet: facts.Fleet{Nodes: c.nodes}}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestFaults checks the warning of a snapshot. The warning names the checks that a run would fail,
// and their nodes. It leaves out faults that the snapshot does not contain or that are reported
// elsewhere.
func TestFaults(t *testing.T) {
	fleet := facts.Fleet{}
	for _, name := range []string{"w1", "w2", "w3"} {
		fleet.Nodes = append(fleet.Nodes, facts.Node{Name: name, Reached: true, Facts: facts.Facts{
			SSH: &facts.SSH{}, Host: &facts.Host{}, Limits: &facts.Limits{NoFile: facts.Limit{Soft: 1 << 20, Hard: 1 << 20}},
			SHM:   &facts.SHM{Exists: true, Mounted: true, FSType: "tmpfs", Writable: true, Size: 1 << 40, Free: 1 << 40, FreeInodes: 1 << 20},
			Clock: &facts.Clock{},
		}})
	}
	policy := checks.DefaultPolicy()
	policy.Only = []string{"shm-writable", "clock-skew", "ssh-reach"}
	warning := func() string { return faults(fleet, launch.Prediction{}, policy) }
	if got := warning(); got != "" {
		t.Errorf("of healthy nodes: %q", got)
	}
	fleet.Nodes[2].SHM.Writable, fleet.Nodes[1].SHM.Writable = false, false
	fleet.Nodes[0].Clock.Offset = 3600
	policy.Severities = map[string]checks.Severity{"clock-skew": checks.Error}
	fleet.Nodes = append(fleet.Nodes, facts.Node{Name: "w4", Facts: facts.Facts{SSH: &facts.SSH{Stage: "tcp", Cause: "timed-out"}}})
	if got := warning(); got != "shm-writable w[2-3]" {
		t.Errorf("two cannot write there, one's clock is off, one is not reached: %q", got)
	}
	policy.Severities["shm-writable"] = checks.Warning
	if got := warning(); got != "" {
		t.Errorf("what the policy only warns of: %q", got)
	}
}
