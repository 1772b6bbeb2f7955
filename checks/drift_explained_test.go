package checks

import (
	"strings"
	"testing"
)

// TestUnlikeCells: of tables that cannot be laid upon each other all is told.
func TestUnlikeCells(t *testing.T) {
	for name, c := range map[string]struct{ before, after, now, then string }{
		"the same both ways":   {`[["X","NV18"],["NV18","X"]]`, `[["X","NV16"],["NV16","X"]]`, "[0][1] NV16", "[0][1] NV18"},
		"one way":              {`[["X","NV18"],["NV18","X"]]`, `[["X","NV18"],["NV16","X"]]`, "[1][0] NV16", "[1][0] NV18"},
		"a row more":           {`[["X"]]`, `[["X"],["X"]]`, `[["X"],["X"]]`, `[["X"]]`},
		"a row that is longer": {`[["X"]]`, `[["X","SYS"]]`, `[["X","SYS"]]`, `[["X"]]`},
		"no table before":      {``, `[["X"]]`, `[["X"]]`, absentWord},
		"rows of other sizes":  {`[[],["A","B"]]`, `[[],["A","C"]]`, "[1][1] C", "[1][1] B"},
	} {
		now, then := inWords(Change{Fact: "nvml.topology", Before: orNull(c.before), After: orNull(c.after)})
		if now != c.now || then != c.then {
			t.Errorf("%s: %q, %q", name, now, then)
		}
	}
}

// TestDriftExplained: what another check of the same run finds on the node is named before
// the command that would write it into the baseline, and nowhere else.
func TestDriftExplained(t *testing.T) {
	for name, c := range map[string]struct {
		fixture string
		only    []string
		want    string // the fix that names the checks, "" for none
	}{
		"a lost GPU":                       {"gpu-lost", []string{gpuHealthy.ID, gpuCount.ID}, "# see gpu-healthy in this report first"},
		"nobody looked at its health":      {"gpu-lost", []string{gpuCount.ID}, ""},
		"a small /dev/shm":                 {"shm-smaller", []string{shmSize.ID}, "# see shm-size in this report first"},
		"something else is wrong with it":  {"shm-smaller", []string{gpuHealthy.ID}, ""},
		"another driver, which works well": {"driver", []string{gpuDriverLoads.ID, gpuHealthy.ID}, ""},
	} {
		fleet, policy := fixtureOf(t, drift.ID, c.fixture).build(t)
		policy.Only = append(c.only, drift.ID)
		named := 0
		for _, f := range Evaluate(Catalogue, fleet.Fleet, fleet.Launch, policy).Findings {
			if f.Check != drift.ID {
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
