package checks

import (
	"fmt"
	"slices"
	"testing"

	"preflight/facts"
)

// TestDependenciesComeFirst: what a check asks for has been judged, by a check of the catalogue.
func TestDependenciesComeFirst(t *testing.T) {
	place := map[string]int{}
	for at, i := range InOrder(Catalogue) {
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

func asks(id string, dependsOn []string, ask func(View)) Check {
	return Check{ID: id, Severity: Error, DependsOn: dependsOn, Run: func(v View) []Finding {
		ask(v)
		return nil
	}}
}

func TestUndeclaredDependencyPanics(t *testing.T) {
	for name, ask := range map[string]func(View){
		"Found":    func(v View) { v.Failing("a") },
		"Reported": func(v View) { v.Reported("a") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			fleet := healthyFleet(1)
			Evaluate([]Check{says("a"), asks("b", nil, ask)}, fleet.Fleet, fleet.Launch, DefaultPolicy())
		})
	}
}

// TestFoundIsWhatTheReportWeighs: a check learns of another what the report says of it, and not
// what that would say elsewhere.
func TestFoundIsWhatTheReportWeighs(t *testing.T) {
	on := []Finding{{Nodes: []string{"w1"}}}
	onHead := says("a", on...)
	onHead.OnHead, onHead.Needs = true, []facts.Section{facts.SectionHost}
	notTried := says("a", on...)
	notTried.Needs = []facts.Section{facts.SectionThroughput}
	waived := Policy{Today: "2026-11-22", Waivers: []Waiver{{Check: "a", Until: "2026-12-31"}}}
	for name, c := range map[string]struct {
		a                 Check
		policy            Policy
		failing, reported bool
	}{
		"as it is":           {says("a", on...), Policy{}, true, true},
		"switched off":       {says("a", on...), Policy{Skip: []string{"a"}}, false, false},
		"weighed as warning": {says("a", on...), Policy{Severities: map[string]Severity{"a": Warning}}, false, true},
		"of the head":        {onHead, Policy{}, true, true},
		"not tried":          {notTried, Policy{}, false, false},
		"waived":             {says("a", on...), waived, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := healthyFleet(2)
			var failing, reported bool
			b := asks("b", []string{"a"}, func(v View) { failing, reported = v.Failing("a")["w1"], v.Reported("a")["w1"] })
			Evaluate([]Check{b, c.a}, fleet.Fleet, fleet.Launch, c.policy)
			if failing != c.failing || reported != c.reported {
				t.Errorf("failing %t, reported %t; want %t, %t", failing, reported, c.failing, c.reported)
			}
		})
	}
}

// TestWeighedDownCauseExplainsNothing: names that do not resolve are only warned of under this
// policy, so the rendezvous that fails by them says so itself.
func TestWeighedDownCauseExplainsNothing(t *testing.T) {
	fleet := withoutDNS(4)
	policy := DefaultPolicy()
	for severity, want := range map[Severity]Verdict{"": Skip, Warning: Fail} {
		if severity != "" {
			policy.Severities = map[string]Severity{"host-names": severity}
		}
		if got := alone(rendezvous, fleet, policy).Checks[0]; got.Verdict != want {
			t.Errorf("host-names weighing %q: rendezvous is %s (%s), want %s", severity, got.Verdict, got.Reason, want)
		}
	}
}

// withoutDNS is a fleet in which every other node resolves no name, and so does not get to the
// rendezvous, which all look for by the name of node 0.
func withoutDNS(size int) launchable {
	fleet := healthyFleet(size)
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

func TestExpectationKeepsTheNodes(t *testing.T) {
	fleet := healthyFleet(3)
	fleet.Nodes[0].Python = nil
	view := View{All: fleet.Nodes, Launch: fleet.Launch, Memory: Memory{}}
	view.Nodes = view.Everywhere()
	before := slices.Clone(view.Nodes)
	expectation.Run(view)
	if fmt.Sprint(view.Nodes) != fmt.Sprint(before) {
		t.Error("the nodes it was handed are not the same afterwards")
	}
}
