package checks

import (
	"slices"
	"strings"

	"preflight/facts"
)

// fatalTraps are those after which the launch cannot come up as the hostfile
// says: the launcher reaches other hosts than it names, or none.
var fatalTraps = []string{
	"byte-order-mark", "pdsh-operator", "pdsh-range", "pdsh-list", "pdsh-rcmd",
	"launcher-refuses-filter", "launcher-needs-equal-slots",
}

// rankTraps are those that start ranks on devices the hostfile does not give:
// fatal where a rank needs a device of its own.
var rankTraps = []string{"include-unchecked-slots", "num-gpus-beyond-slots"}

var launcherArgs = Check{
	ID:       "launcher-args",
	Title:    "the launcher will read the hostfile and the filters as they are meant",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Doc: "A hostfile can be valid and still start something else: since DeepSpeed 0.15.2 an --include that names a host without slots drops it, " +
		"a single active host runs on the launching machine without ssh, --num_gpus does not ask the hostfile how many slots there are, and pdsh reads " +
		"brackets, commas and colons in names by rules of its own. The hostfile is parsed as DeepSpeed parses it, and what will surprise is said here.",
	WouldSee: "training on other hosts or slots than the hostfile seems to say",
	Run: func(v View) []Finding {
		if v.Launch.Torchrun() {
			return skip("torchrun reads no hostfile")
		}
		var findings []Finding
		for _, note := range v.Launch.Notes {
			if strings.HasPrefix(note.Trap, "export-") {
				continue // what is exported is launcher-env's to judge
			}
			finding := Finding{Verdict: Warn, Nodes: []string{v.Head.Name}, Summary: note.Message, Got: note.Trap, Fix: trapFix(note, v.Launch)}
			if slices.Contains(fatalTraps, note.Trap) || slices.Contains(rankTraps, note.Trap) && v.Launch.Accelerator != "cpu" {
				finding.Verdict = Fail
			}
			findings = append(findings, finding)
		}
		return findings
	},
}
