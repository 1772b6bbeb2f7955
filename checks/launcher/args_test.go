package launcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
	"preflight/hostfile"
)

// noted finds the traps that the packages write notes of.
var noted = regexp.MustCompile(`(?:ID: |\b(?:note|trap|add)\()"([a-z0-9-]+)",|return "([a-z0-9]+(?:-[a-z0-9]+)+)",`)

// TestEveryTrapIsJudged holds the table to the packages that set the traps.
func TestEveryTrapIsJudged(t *testing.T) {
	set := map[string]bool{}
	root := ".."
	for _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil; _, err = os.Stat(filepath.Join(root, "go.mod")) {
		root = filepath.Join(root, "..")
	}
	for _, folder := range []string{"hostfile", "launch", "launch/args"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range noted.FindAllSubmatch(text, -1) {
				if !strings.HasSuffix(file, "_test.go") {
					set[string(match[1])+string(match[2])] = true
				}
			}
		}
	}
	for name := range set {
		if _, judged := traps[name]; !judged {
			t.Errorf("nobody says how the trap %q is judged", name)
		}
	}
	for name := range traps {
		if !set[name] {
			t.Errorf("no package sets the trap %q", name)
		}
	}
}

// TestTrapsAreWellSpoken has every trap sprung, on a fleet that has what it takes
// to judge it.
func TestTrapsAreWellSpoken(t *testing.T) {
	for name, trap := range traps {
		fleet := fleettest.Healthy(3)
		fleet.Launch.Script = "a b.py"
		fleet.Launch.Rendezvous = ""
		fleet.Launch.Arguments = []string{"$X"}
		fleet.Launch.Notes = []hostfile.Note{{ID: name, Line: 2, Message: "NCCL_DEBUG=$X is not what it seems"}}
		if trap.torchrun {
			fleet.Launch.Rendezvous, fleet.Launch.MinNodes, fleet.Launch.MaxNodes, fleet.Launch.PerNode = "static", 3, 3, "8"
		}
		report := engine.Evaluate([]checks.Check{Args, Env}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		for _, f := range report.Findings {
			if counts := f.Verdict == checks.Fail || f.Verdict == checks.Warn; f.Summary == "" || counts && (len(f.Fix) == 0 || f.WouldSee == "") {
				t.Errorf("%s: nothing to be done about %+v", name, f)
			}
			if strings.Contains(name, "-") && strings.Contains(strings.Join(append([]string{f.Summary, f.Got, f.WouldSee}, f.Fix...), " "), name) {
				t.Errorf("%s: a finding names the trap: %+v", name, f)
			}
			if trap.look == nil && (f.Verdict == checks.Fail) != trap.fatal || (f.Check == "launcher-env") != trap.exported {
				t.Errorf("%s: %s by %s", name, f.Verdict, f.Check)
			}
		}
		quiet := name == "launcher-args-fanout" || name == "openmpi-eth0" // it is said elsewhere; every node has one
		if len(report.Findings) != 1 && !quiet {
			t.Errorf("%s: %d findings:\n%s", name, len(report.Findings), fleettest.Spelled(report.Findings))
		}
	}
}
