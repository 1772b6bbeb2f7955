package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
)

// fewFiles is the kernel's default soft limit. A rank that cannot have even
// that many runs out of files while it connects to its peers.
const fewFiles = 1024

var openFilesLimit = Check{
	ID:       "open-files-limit",
	Title:    "ranks may open as many files and sockets as they need",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionLimits},
	Doc: "NCCL holds sockets to its peers for every channel and raises its own soft limit to the hard one, so the hard limit of the ssh session " +
		"decides (policy open_files; large jobs want more than 32768). python does not raise it: DataLoader workers hand every tensor over as a " +
		"file and live with the soft limit, of which 1024, the kernel's default, is enough for the default of their settings.",
	WouldSee: "OSError: [Errno 24] Too many open files",
	Run: func(v View) []Finding {
		var findings []Finding
		for _, node := range v.Nodes {
			limit := node.Limits.NoFile
			hardLow := limit.Hard >= 0 && limit.Hard < v.Policy.OpenFiles
			softLow := limit.Soft >= 0 && limit.Soft < fewFiles
			if !hardLow && !softLow {
				continue
			}
			finding := Finding{
				Nodes:   []string{node.Name},
				Summary: "the limit on open files is low",
				Got:     fmt.Sprintf("soft %s, hard %s", limitText(limit.Soft), limitText(limit.Hard)),
				Want:    fmt.Sprintf("soft at least %d, hard at least %d", fewFiles, v.Policy.OpenFiles),
				Remedy:  raiseOpenFiles(node),
			}
			if limit.Hard >= 0 && limit.Hard < fewFiles {
				finding.Verdict, finding.Summary = Fail, "the limit on open files is too low to connect to the peers"
			}
			findings = append(findings, finding)
		}
		return findings
	},
}

func raiseOpenFiles(node *facts.Node) []fix.Command {
	if container := containerOf(node); container == "docker" || container == "podman" {
		return []fix.Command{fix.Here("%s run --ulimit nofile=1048576:1048576 …   # start the container of {node} anew with this option", fix.Name(container))}
	}
	return append(raiseLimit("nofile", "1048576", "LimitNOFILE=1048576"), fix.On("ulimit -Sn; ulimit -Hn   # in a new session"))
}

func limitText(limit int64) string {
	if limit < 0 {
		return "unlimited"
	}
	return fmt.Sprint(limit)
}
