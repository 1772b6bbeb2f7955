package checks

import (
	"strings"
	"testing"

	"preflight/facts"
)

// TestUnreachedIsAlwaysSaid: with the ssh check that would say it switched off,
// the first check that could not look names the node and the reason, once.
func TestUnreachedIsAlwaysSaid(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*Policy)
		check  string
	}{
		"skipped":      {func(p *Policy) { p.Skip = []string{"ssh-reach"} }, "ssh-host-key"},
		"not the only": {func(p *Policy) { p.Only = []string{"shm-size", "python-same"} }, "python-same"},
	} {
		fleet, policy := healthyFleet(3), DefaultPolicy()
		c.policy(&policy)
		fleet.Nodes[1].Reached = false
		fleet.Nodes[1].Facts = facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused", Port: 22, User: "train"}}
		report := Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy)
		if len(report.Findings) != 1 {
			t.Errorf("%s: %d findings, want 1:\n%s", name, len(report.Findings), spelled(report.Findings))
			continue
		}
		f := report.Findings[0]
		if f.Check != c.check || f.Verdict != Unknown || f.Nodes[0] != "w2" || !strings.HasPrefix(f.Summary, "not reached: refuses connections on port 22") {
			t.Errorf("%s:\n%s", name, spelled(report.Findings))
		}
		if report.ExitCode != 2 {
			t.Errorf("%s: exit code %d, want 2", name, report.ExitCode)
		}
	}
}
