package catalogue

import (
	"strings"
	"testing"

	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/gpu"
	"preflight/checks/host"
)

// TestDriftExplained: what another check of the same run finds on the node is named before
// the command that would write it into the baseline, and nowhere else.
func TestDriftExplained(t *testing.T) {
	for name, c := range map[string]struct {
		fixture string
		only    []string
		want    string // the fix that names the checks, "" for none
	}{
		"a lost GPU":                       {"gpu-lost", []string{gpu.Healthy.ID, gpu.Count.ID}, "# see gpu-healthy in this report first"},
		"nobody looked at its health":      {"gpu-lost", []string{gpu.Count.ID}, ""},
		"a small /dev/shm":                 {"shm-smaller", []string{host.SHMSize.ID}, "# see shm-size in this report first"},
		"something else is wrong with it":  {"shm-smaller", []string{gpu.Healthy.ID}, ""},
		"another driver, which works well": {"driver", []string{gpu.DriverLoads.ID, gpu.Healthy.ID}, ""},
	} {
		fleet, policy := fixtureOf(t, agreement.Drift.ID, c.fixture).build(t)
		policy.Only = append(c.only, agreement.Drift.ID)
		named := 0
		for _, f := range engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy).Findings {
			if f.Check != agreement.Drift.ID {
				continue
			}
			text := strings.Join(f.Fix, "\n")
			if strings.Contains(text, "# see ") != (c.want != "") || strings.Contains(text, "preflight checks gpu-healthy") && c.want != "" || !strings.Contains(text, c.want) {
				t.Errorf("%s: the fix is\n%s", name, text)
			}
			if last := f.Fix[len(f.Fix)-1]; !strings.HasPrefix(last, "preflight snapshot ") {
				t.Errorf("%s: the last fix is %s", name, last)
			}
			if other := strings.Contains(text, "in place of what shm-size says"); other != (c.want != "" && c.fixture == "shm-smaller") {
				t.Errorf("%s: the size of shm-size is named: %t\n%s", name, other, text)
			}
			named++
		}
		if named != 1 {
			t.Errorf("%s: %d drifts", name, named)
		}
	}
}
