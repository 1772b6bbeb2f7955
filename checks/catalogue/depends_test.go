package catalogue

import (
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
	"preflight/checks/network"
	"preflight/facts"
)

// TestDependenciesComeFirst: what a check asks for has been judged, by a check of the catalogue.
func TestDependenciesComeFirst(t *testing.T) {
	place := map[string]int{}
	for at, i := range engine.InOrder(Catalogue) {
		place[Catalogue[i].ID] = at
	}
	if len(place) != len(Catalogue) {
		t.Errorf("%d of %d checks are evaluated", len(place), len(Catalogue))
	}
	for _, check := range Catalogue {
		for _, id := range check.DependsOn {
			before, known := place[id]
			if !known {
				t.Errorf("%s depends on %s, which is no check", check.ID, id)
			} else if before >= place[check.ID] {
				t.Errorf("%s depends on %s, which is evaluated after it", check.ID, id)
			}
		}
	}
}

// TestWeighedDownCauseExplainsNothing: names that do not resolve are only warned of under this
// policy, so the rendezvous that fails by them says so itself.
func TestWeighedDownCauseExplainsNothing(t *testing.T) {
	fleet := withoutDNS(4)
	policy := checks.DefaultPolicy()
	for severity, want := range map[checks.Severity]checks.Verdict{"": checks.Skip, checks.Warning: checks.Fail} {
		if severity != "" {
			policy.Severities = map[string]checks.Severity{"host-names": severity}
		}
		if got := alone(network.Rendezvous, fleet, policy).Checks[0]; got.Verdict != want {
			t.Errorf("host-names weighing %q: rendezvous is %s (%s), want %s", severity, got.Verdict, got.Reason, want)
		}
	}
}

// withoutDNS is a fleet in which every other node resolves no name, and so does not get to the
// rendezvous, which all look for by the name of node 0.
func withoutDNS(size int) fleettest.Fleet {
	fleet := fleettest.Healthy(size)
	fleet.Launch.MasterAddr = "w1"
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		node.Rendezvous.Endpoint = "w1:29500"
		if i%2 == 1 {
			for j := range node.Names.Lookups {
				node.Names.Lookups[j] = facts.Lookup{Name: node.Names.Lookups[j].Name, Error: "Temporary failure in name resolution"}
			}
			node.Rendezvous.Failed, node.Rendezvous.Error = facts.HopResolve, "Temporary failure in name resolution"
			node.Rendezvous.Addresses, node.Rendezvous.Address = nil, ""
		} else if i > 0 {
			node.Rendezvous.Failed = facts.HopWait
		}
	}
	return fleet
}
