package checks

import (
	"slices"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/launch"
)

// TestMadeUpLauncher: checks ask the launcher's row, and know none by its name.
func TestMadeUpLauncher(t *testing.T) {
	before := launch.Launchers
	t.Cleanup(func() { launch.Launchers = before })
	judge := func(row launch.Launcher, check Check, change func(*launchable)) (Outcome, string) {
		row.Name, row.Programs = "armada", []string{"armadactl", "armada"}
		launch.Launchers = append(slices.Clone(before), row)
		fleet := healthyFleet(3)
		fleet.Launch.Launcher = "armada"
		change(&fleet)
		report := evaluate(fleet, check)
		return report.Checks[0], spelled(report.Findings)
	}
	noLogin := func(f *launchable) {
		for i := range f.Nodes {
			f.Nodes[i].Logins = &facts.Logins{Error: "no ssh"}
		}
	}
	noWorkDir := func(f *launchable) {
		f.Nodes[1].Files.WorkDir = facts.WorkDir{Path: f.Launch.WorkDir}
	}
	for _, c := range []struct {
		name   string
		row    launch.Launcher
		check  Check
		change func(*launchable)
		want   Verdict
		says   string
	}{
		{"nodes log in to each other", launch.Launcher{SSH: true, NodesLogIn: true}, sshBetweenNodes, noLogin, Fail, "cannot log in"},
		{"only the launching machine logs in", launch.Launcher{SSH: true}, sshBetweenNodes, noLogin, Warn, "nothing under armada"},
		{"nobody logs in", launch.Launcher{}, sshBetweenNodes, noLogin, Skip, ""},
		{"its program is not there", launch.Launcher{}, launcherReady, func(*launchable) {}, Fail, "launcher 'armada' not installed"},
		{"where it starts without the directory", launch.Launcher{NoWorkDir: "armada: no {dir}: {error}: off to sea", Elsewhere: "/sea"}, workdirPresent, noWorkDir, Fail, "off to sea, then: can't open file '/sea/train.py'"},
		{"ranks outlive the session", launch.Launcher{}, shmLimits, func(f *launchable) { f.Nodes[0].SHM.RemoveIPC, f.Nodes[0].Host.User = "yes", "me" }, Warn, "because armada may leave"},
		{"ranks end with it", launch.Launcher{InSession: true}, shmLimits, func(f *launchable) { f.Nodes[0].SHM.RemoveIPC, f.Nodes[0].Host.User = "yes", "me" }, Pass, ""},
	} {
		outcome, text := judge(c.row, c.check, c.change)
		if outcome.Verdict != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s, want %s and %q:\n%s", c.name, outcome.Verdict, c.want, c.says, text)
		}
	}
}
