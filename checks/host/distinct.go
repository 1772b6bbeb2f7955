package host

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

var Distinct = checks.Check{
	ID:       "host-distinct",
	Title:    "no two entries of the hostfile are one machine",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost},
	Volatile: true,
	Doc: "Compares boot id, machine id and network namespace. DeepSpeed knows a duplicate only by its spelling: a name, its long form and its " +
		"address are three nodes to it, and their ranks then meet on the same GPUs and ports. Containers with networks of their own on one " +
		"machine share the boot id and are told apart by the namespace.",
	WouldSee: "Duplicate GPU detected : rank 8 and rank 0 both on CUDA device 19000",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		var known []*facts.Node
		machine := func(n *facts.Node) string { id, _ := launch.Machine(n); return id }
		for _, node := range v.Nodes {
			if _, known := launch.Machine(node); !known {
				findings = append(findings, checks.UnknownFor(node, "the machine does not tell its boot id or network namespace"))
				continue
			}
			known = append(known, node)
		}
		for _, g := range compare.GroupBy(known, machine) {
			if len(g.Nodes) < 2 {
				continue
			}
			findings = append(findings, checks.Finding{
				Nodes:   g.Nodes,
				Summary: fmt.Sprintf("%d entries of the hostfile are one machine", len(g.Nodes)),
				Got:     "boot id, machine id and network namespace of " + hostfile.Fold(g.Nodes) + " are the same",
				Want:    "a machine of its own for every entry",
				Remedy:  duplicateLines(g.Nodes, v),
			})
		}
		return findings
	},
}

// duplicateLines takes out of the hostfile all entries but the first: in one
// command, for lines move up when others go. Who came by -w has no line.
func duplicateLines(names []string, v checks.View) []fix.Command {
	line := map[string]int{}
	for _, host := range v.Launch.Hosts {
		line[host.Name] = host.Line
	}
	var deletions []fix.Arg
	var deleted, excluded []string
	for _, name := range names[1:] {
		if line[name] == 0 {
			excluded = append(excluded, name)
			continue
		}
		deletions, deleted = append(deletions, fix.Code("%sd", fix.Number(line[name]))), append(deleted, name)
	}
	var commands []fix.Command
	if deleted != nil {
		commands = append(commands, fix.Here("sed -i '%s' {hostfile}   # leaves out %s: the same as %s", fix.Join(";", deletions...), fix.Text(hostfile.Fold(deleted)), fix.Text(names[0])))
	}
	if excluded != nil {
		commands = append(commands, fix.Here("deepspeed --exclude %s …   # the same as %s", fix.Word(strings.Join(excluded, "@")), fix.Text(names[0])))
	}
	return commands
}
