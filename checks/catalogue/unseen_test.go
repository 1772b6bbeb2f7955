// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// without returns a fleet in which one node lacks one section.
func without(fleet fleettest.Fleet, i int, section facts.Section) fleettest.Fleet {
	fleet.Nodes = slices.Clone(fleet.Nodes)
	var node *facts.Node
	if i < 0 { // a negative index stands for the launching machine
		head := *fleet.Head
		fleet.Head, node = &head, &head
	} else {
		node = &fleet.Nodes[i]
	}
	unseen := facts.Facts{}
	for _, other := range sections {
		if other != section {
			unseen.Take(other, node.Facts)
		}
	}
	node.Facts = unseen
	node.Missing = maps.Clone(node.Missing)
	if node.Missing == nil {
		node.Missing = map[facts.Section]string{}
	}
	node.Missing[section] = "switched off by a test"
	fleet.NotTried = maps.Clone(fleet.NotTried)
	delete(fleet.NotTried, section) // the section was collected, but failed on this node
	return fleet
}

// TestBlackout removes each needed section from each node in turn. The check must be unknown on
// that node, and must neither pass, skip nor panic.
func TestBlackout(t *testing.T) {
	const size = 3
	for _, check := range Catalogue {
		for _, section := range check.Needs {
			if check.OnHead {
				judgeUnseen(t, check, without(fleettest.Healthy(size), -1, section), section)
				continue
			}
			for i := range size {
				judgeUnseen(t, check, without(fleettest.Healthy(size), i, section), section)
			}
		}
	}
}

func judgeUnseen(t *testing.T, check checks.Check, fleet fleettest.Fleet, section facts.Section) {
	t.Helper()
	outcome := judged(fleet, check).Checks[0]
	if outcome.Verdict != checks.Unknown || !strings.Contains(outcome.Reason, string(section)+": switched off by a test") {
		t.Errorf("%s without %s: %s (%s)", check.ID, section, outcome.Verdict, outcome.Reason)
	}
}

// TestBlackoutElsewhere removes sections that a check does not declare. The check may use them, but
// must work without them.
func TestBlackoutElsewhere(t *testing.T) {
	for _, section := range sections {
		for _, i := range []int{-1, 0, 1} {
			judged(without(fleettest.Healthy(3), i, section), Catalogue...) // the checks must not panic
		}
	}
	fleet := fleettest.Healthy(3)
	fleet.Head = nil
	judged(fleet, Catalogue...)
	fleet.Nodes = nil
	judged(fleet, Catalogue...)
	var empty facts.Facts // its sections exist but are empty
	for _, section := range reflect.ValueOf(&empty).Elem().Fields() {
		section.Set(reflect.New(section.Type().Elem()))
	}
	for i, node := range fleettest.Healthy(3).Nodes {
		fleet.Nodes = append(fleet.Nodes, facts.Node{Name: node.Name, Reached: true, Slots: 8, Facts: empty})
		fleet.Head = &fleet.Nodes[i]
	}
	judged(fleet, Catalogue...)
}

// TestOrderOfNodesDoesNotMatter evaluates every failing fixture with its nodes shuffled. The launch
// keeps its order, so rank 0 stays on the same node.
func TestOrderOfNodesDoesNotMatter(t *testing.T) {
	ofFixtures(t, func(t *testing.T, check checks.Check, c fixture) {
		fleet, policy := c.build(t)
		want := sortedFindings(alone(check, fleet, policy))
		for seed := range uint64(3) {
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(fleet.Nodes), func(i, j int) {
				fleet.Nodes[i], fleet.Nodes[j] = fleet.Nodes[j], fleet.Nodes[i]
			})
			got := sortedFindings(alone(check, fleet, policy))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, shuffled (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// sortedFindings returns the findings in a form that does not depend on the order of nodes. It
// leaves out texts, because texts name nodes in hostfile order.
func sortedFindings(report checks.Report) []string {
	found := []string{}
	for _, f := range report.Findings {
		found = append(found, string(f.Verdict)+" "+f.Summary+" "+strings.Join(slices.Sorted(slices.Values(f.Nodes)), ","))
	}
	slices.Sort(found)
	return found
}

// TestUnnamed checks that a check says nothing about a node that it did not see. It also checks
// that a node does not pass only because another node failed.
func TestUnnamed(t *testing.T) {
	seen := &facts.Node{Name: "w1", Reached: true, Facts: facts.Facts{SHM: &facts.SHM{}}}
	unseen := &facts.Node{Name: "w2", Reached: true}
	locked := &facts.Node{Name: "w3", Facts: facts.Facts{SSH: &facts.SSH{Stage: "auth", Cause: "denied"}}}
	for _, c := range []struct {
		check   string
		outcome checks.Outcome
		node    *facts.Node
		want    checks.Verdict
		judges  bool
	}{
		{"shm-size", checks.Outcome{Verdict: checks.Pass}, seen, checks.Pass, true},
		{"shm-size", checks.Outcome{Verdict: checks.Warn}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Fail}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Unknown}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Fail}, unseen, checks.Unknown, true},
		{"shm-size", checks.Outcome{Verdict: checks.Skip, Reason: checks.SwitchedOff}, unseen, checks.Skip, true},
		{"shm-size", checks.Outcome{Verdict: checks.Skip, Reason: checks.AllWaived}, seen, "", true},
		{"ssh-reach", checks.Outcome{Verdict: checks.Pass}, locked, checks.Pass, true}, // the node was reached, but the login failed
		{"ssh-shell", checks.Outcome{Verdict: checks.Unknown}, locked, checks.Unknown, true},
		{"expectation", checks.Outcome{Verdict: checks.Pass}, locked, checks.Unknown, true},
		{"expectation", checks.Outcome{Verdict: checks.Pass}, seen, checks.Pass, true},
		{"policy", checks.Outcome{Verdict: checks.Pass}, seen, "", false},
		{"launcher-ready", checks.Outcome{Verdict: checks.Pass}, seen, "", false},
		{"launcher-ready", checks.Outcome{Verdict: checks.Skip}, seen, checks.Skip, true},
	} {
		check, known := Lookup(c.check)
		if !known {
			t.Fatalf("there is no %s", c.check)
		}
		if got, judges := check.Unnamed(c.outcome, c.node); got != c.want || judges != c.judges {
			t.Errorf("%s, %s, %s: %q, %v, want %q, %v", c.check, c.outcome.Verdict, c.node.Name, got, judges, c.want, c.judges)
		}
	}
}

// TestUnreachedIsAlwaysSaid checks an unreached node if the ssh check is switched off. The first
// check that could not see the node must name it and the reason, once.
func TestUnreachedIsAlwaysSaid(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*checks.Policy)
		check  string
	}{
		"skipped":      {func(p *checks.Policy) { p.Skip = []string{"ssh-reach"} }, "ssh-host-key"},
		"not the only": {func(p *checks.Policy) { p.Only = []string{"shm-size", "python-same"} }, "python-same"},
	} {
		fleet, policy := fleettest.Healthy(3), checks.DefaultPolicy()
		c.policy(&policy)
		fleet.Nodes[1].Reached = false
		fleet.Nodes[1].Facts = facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused", Port: 22, User: "train"}}
		report := engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy)
		if len(report.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1:\n%s", name, len(report.Findings), fleettest.Spelled(report.Findings))
			continue
		}
		f := report.Findings[0]
		if f.Check != c.check || f.Verdict != checks.Unknown || f.Nodes[0] != "w2" || !strings.HasPrefix(f.Summary, "not reached: refuses connections on port 22") {
			t.Errorf("%s:\n%s", name, fleettest.Spelled(report.Findings))
		}
		if report.ExitCode != 2 {
			t.Errorf("%s: exit code %d, want 2", name, report.ExitCode)
		}
	}
}

// TestDeadNode checks that a dead node is one finding, and that the facts of the other nodes are
// still checked. The checks that need the dead node must be skipped.
func TestDeadNode(t *testing.T) {
	for dead, skipped := range [][]string{{"master-address", "master-port-free", "rendezvous"}, {"rendezvous"}} {
		fleet := fleettest.Healthy(3)
		gone := &fleet.Nodes[dead]
		gone.Reached, gone.Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused", Port: 22, User: "train"}}
		for i := range fleet.Nodes {
			if node := &fleet.Nodes[i]; i != dead {
				delete(node.Mesh.Reached, gone.Name)
				node.Rendezvous.Failed, node.Rendezvous.Complete, node.Rendezvous.Missing = facts.HopWait, 0, []string{gone.Name}
			}
		}
		report := judged(fleet, Catalogue...)
		if len(report.Findings) != 1 || report.Findings[0].Check != "ssh-reach" || report.ExitCode != 1 {
			t.Errorf("without %s: exit %d\n%s", gone.Name, report.ExitCode, fleettest.Spelled(report.Findings))
		}
		for _, outcome := range report.Checks {
			if isSkipped := outcome.Verdict == checks.Skip; outcome.Verdict == checks.Unknown || slices.Contains(skipped, outcome.Check) && !isSkipped {
				t.Errorf("without %s: %s is %s (%s)", gone.Name, outcome.Check, outcome.Verdict, outcome.Reason)
			}
		}
	}
}
