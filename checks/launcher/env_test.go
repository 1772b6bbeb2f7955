// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// TestTooLong checks exports that are too long. The kernel limits one argument to less than 128
// KiB, and pdsh gets all exports in one argument.
func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		launcher string
		value    int
		want     checks.Verdict
	}{
		{"pdsh", longestArgument - len("export PYTHONPATH=; ") - 1, checks.Pass},
		{"pdsh", longestArgument - len("export PYTHONPATH=; "), checks.Fail},
		{"openmpi", longestArgument, checks.Pass},
	} {
		fleet := fleettest.Healthy(2)
		fleet.Launch.Launcher = c.launcher
		fleet.Launch.Exports = []facts.Setting{{Name: "PYTHONPATH", Value: strings.Repeat("x", c.value), Source: "environment"}}
		report := engine.Evaluate([]checks.Check{Env}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		if got := report.Checks[0].Verdict; got != c.want {
			t.Errorf("%s, %d bytes: %s, want %s:\n%s", c.launcher, c.value, got, c.want, fleettest.Spelled(report.Findings))
		}
		if c.want == checks.Fail && !strings.Contains(report.Findings[0].Got, "the longest is PYTHONPATH") {
			t.Errorf("which one is the longest? %q", report.Findings[0].Got)
		}
	}
}

// TestEnvFilesThatAreRead checks which files DeepSpeed reads. From 0.10.1 to 0.13.0, it reads a
// file in the working directory in place of the file in the home directory. The file in the home
// directory may then contain anything.
func TestEnvFilesThatAreRead(t *testing.T) {
	for release, want := range map[string]checks.Verdict{"0.10.0": checks.Fail, "0.10.1": checks.Pass, "0.13.0": checks.Pass, "0.13.1": checks.Fail} {
		fleet := fleettest.Healthy(2)
		fleet.Launch.DeepSpeed = release
		fleet.Head.Launcher.EnvFiles = []facts.EnvFile{
			{Path: "/root/.deepspeed_env", Lines: []string{"# a comment"}},
			{Path: "/job/.deepspeed_env", Lines: []string{"NCCL_DEBUG=INFO"}},
		}
		report := engine.Evaluate([]checks.Check{Env}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		if got := report.Checks[0].Verdict; got != want {
			t.Errorf("DeepSpeed %s: %s, want %s:\n%s", release, got, want, fleettest.Spelled(report.Findings))
		}
	}
}
