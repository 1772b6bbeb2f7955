package host

import (
	"fmt"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var SHMWritable = checks.Check{
	ID:       "shm-writable",
	Title:    "files can be made in /dev/shm",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Doc: "The probe made a file in /dev/shm, filled it and removed it, as the user who launches. A read-only mount or a mode other than 1777 " +
		"keeps NCCL and DataLoader workers from sharing memory.",
	WouldSee: "Error: failed to create shared memory file /dev/shm/nccl-XXXXXX, error Permission denied (13)",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, node := range v.Nodes {
			switch {
			case !node.SHM.Exists:
				findings = append(findings, checks.UnknownFor(node, noSHM)) // shm-size has said so
			case !node.SHM.Writable:
				findings = append(findings, checks.Finding{
					Nodes:   []string{node.Name},
					Summary: "no file can be made in /dev/shm",
					Got:     fmt.Sprintf("%s (mode %s, %s)", node.SHM.WriteError, node.SHM.Mode, node.SHM.Options),
					Want:    "writable for everybody: mode 1777",
					Remedy:  []fix.Command{fix.On("sudo mount -o remount,rw /dev/shm"), fix.On("sudo chmod 1777 /dev/shm")},
				})
			}
		}
		return findings
	},
}
