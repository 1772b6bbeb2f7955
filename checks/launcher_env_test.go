package checks

import (
	"strings"
	"testing"

	"preflight/facts"
)

// The kernel takes less than 128 KiB in one argument, and pdsh gets all exports
// in one.
func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		launcher string
		value    int
		want     Verdict
	}{
		{"pdsh", longestArgument - len("export PYTHONPATH=; ") - 1, Pass},
		{"pdsh", longestArgument - len("export PYTHONPATH=; "), Fail},
		{"openmpi", longestArgument, Pass},
	} {
		fleet := healthyFleet(2)
		fleet.Launch.Launcher = c.launcher
		fleet.Launch.Exports = []facts.Setting{{Name: "PYTHONPATH", Value: strings.Repeat("x", c.value), Source: "environment"}}
		report := fleet.evaluate(launcherEnv)
		if got := report.Checks[0].Verdict; got != c.want {
			t.Errorf("%s, %d bytes: %s, want %s:\n%s", c.launcher, c.value, got, c.want, spelled(report.Findings))
		}
		if c.want == Fail && !strings.Contains(report.Findings[0].Got, "the longest of them PYTHONPATH") {
			t.Errorf("which one is the longest? %q", report.Findings[0].Got)
		}
	}
}
