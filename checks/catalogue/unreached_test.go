package catalogue

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
	"preflight/facts"
)

// TestUnreachedIsAlwaysSaid: with the ssh check that would say it switched off,
// the first check that could not look names the node and the reason, once.
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
