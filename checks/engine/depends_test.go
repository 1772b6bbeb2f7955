// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func asks(id string, dependsOn []string, ask func(checks.View)) checks.Check {
	return checks.Check{ID: id, Severity: checks.Error, DependsOn: dependsOn, Run: func(v checks.View) []checks.Finding {
		ask(v)
		return nil
	}}
}

func TestUndeclaredDependencyPanics(t *testing.T) {
	for name, ask := range map[string]func(checks.View){
		"Found":    func(v checks.View) { v.Failing("a") },
		"Reported": func(v checks.View) { v.Reported("a", "w1") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			fleet := fleettest.Healthy(1)
			Evaluate([]checks.Check{fleettest.Says("a"), asks("b", nil, ask)}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		})
	}
}

// TestFoundIsWhatTheReportWeighs checks that a check sees the findings of another check with the
// verdicts that the policy of this run gives them.
func TestFoundIsWhatTheReportWeighs(t *testing.T) {
	on := []checks.Finding{{Nodes: []string{"w1"}}}
	onHead := fleettest.Says("a", on...)
	onHead.OnHead, onHead.Needs = true, []facts.Section{facts.SectionHost}
	notTried := fleettest.Says("a", on...)
	notTried.Needs = []facts.Section{facts.SectionThroughput} // the fleet has this section although the check is not tried
	waived := checks.Policy{Today: "2026-11-22", Waivers: []checks.Waiver{{Check: "a", Until: "2026-12-31"}}}
	for name, c := range map[string]struct {
		a                 checks.Check
		policy            checks.Policy
		failing, reported bool
	}{
		"as it is":           {fleettest.Says("a", on...), checks.Policy{}, true, true},
		"switched off":       {fleettest.Says("a", on...), checks.Policy{Skip: []string{"a"}}, false, false},
		"weighed as warning": {fleettest.Says("a", on...), checks.Policy{Severities: map[string]checks.Severity{"a": checks.Warning}}, false, true},
		"of the head":        {onHead, checks.Policy{}, true, true},
		"not tried":          {notTried, checks.Policy{}, false, false},
		"waived":             {fleettest.Says("a", on...), waived, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := fleettest.Healthy(2)
			for i := range fleet.Nodes {
				fleet.Nodes[i].Throughput = &facts.Throughput{}
			}
			fleet.NotTried = map[facts.Section]string{facts.SectionThroughput: "nobody asked for it"}
			var failing, reported bool
			b := asks("b", []string{"a"}, func(v checks.View) {
				failing = v.Failing("a")["w1"]
				_, reported = v.Reported("a", "w1")
			})
			Evaluate([]checks.Check{b, c.a}, fleet.Fleet, fleet.Launch, c.policy)
			if failing != c.failing || reported != c.reported {
				t.Errorf("failing %t, reported %t; want %t, %t", failing, reported, c.failing, c.reported)
			}
		})
	}
}
