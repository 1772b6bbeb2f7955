// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/host"
	"preflight/checks/launcher"
	"preflight/checks/ssh"
	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/fleettest"
)

// TestMadeUpLauncher checks that checks read the properties of a launcher and do not compare its
// name.
func TestMadeUpLauncher(t *testing.T) {
	before := launch.Launchers
	t.Cleanup(func() { launch.Launchers = before })
	judge := func(row launch.Launcher, check checks.Check, change func(*fleettest.Fleet)) (checks.Outcome, string) {
		row.Name, row.Programs = "armada", []string{"armadactl", "armada"}
		launch.Launchers = append(slices.Clone(before), row)
		fleet := fleettest.Healthy(3)
		fleet.Launch.Launcher = "armada"
		change(&fleet)
		report := judged(fleet, check)
		return report.Checks[0], fleettest.Line("reason", report.Checks[0].Reason) + fleettest.Spelled(report.Findings)
	}
	noLogin := func(f *fleettest.Fleet) {
		for i := range f.Nodes {
			f.Nodes[i].Logins = &facts.Logins{Error: "no ssh"}
		}
	}
	noWorkDir := func(f *fleettest.Fleet) {
		f.Nodes[1].Files.WorkDir = facts.WorkDir{Path: f.Launch.WorkDir}
	}
	for _, c := range []struct {
		name   string
		row    launch.Launcher
		check  checks.Check
		change func(*fleettest.Fleet)
		want   checks.Verdict
		says   string
	}{
		{"nodes log in to each other", launch.Launcher{SSH: true, Tree: 1}, ssh.BetweenNodes, noLogin, checks.Fail, "cannot log in"},
		{"only the launching machine logs in", launch.Launcher{SSH: true}, ssh.BetweenNodes, noLogin, checks.Pass, "armada does not need that"},
		{"nobody logs in", launch.Launcher{}, ssh.BetweenNodes, noLogin, checks.Skip, ""},
		{"its program is not there", launch.Launcher{}, launcher.Ready, func(*fleettest.Fleet) {}, checks.Fail, "launcher 'armada' not installed"},
		{"where it starts without the directory", launch.Launcher{NoWorkDir: "armada: no {dir}: {error}: off to sea", Elsewhere: "/sea"}, launcher.WorkdirPresent, noWorkDir, checks.Fail, "off to sea, then: can't open file '/sea/train.py'"},
		{"ranks outlive the session", launch.Launcher{}, host.SHMLimits, func(f *fleettest.Fleet) { f.Nodes[0].SHM.RemoveIPC, f.Nodes[0].Host.User = "yes", "me" }, checks.Warn, "because armada may leave"},
		{"ranks end with it", launch.Launcher{InSession: true}, host.SHMLimits, func(f *fleettest.Fleet) { f.Nodes[0].SHM.RemoveIPC, f.Nodes[0].Host.User = "yes", "me" }, checks.Pass, ""},
	} {
		outcome, text := judge(c.row, c.check, c.change)
		if outcome.Verdict != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s, want %s and %q:\n%s", c.name, outcome.Verdict, c.want, c.says, text)
		}
	}
}
