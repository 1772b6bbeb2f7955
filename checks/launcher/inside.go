// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var RunsInside = checks.Check{
	ID:       "runs-inside",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionHost, facts.SectionPython},
	Run:      judgeRunsInside,
}

func judgeRunsInside(view checks.View) (findings []checks.Finding) {
	entered := 0
	for _, node := range view.Nodes {
		if node.SSH != nil && node.SSH.Inside != nil || node.Host.Container != "" {
			entered++
			continue
		}
		for _, c := range node.Host.Containers {
			has, lacks := heldBy(c, node)
			if has == nil && (lacks == nil || !c.Unseen) {
				continue
			}
			summary := fmt.Sprintf("the machine itself was looked at, and %s is only in a container of %s that runs there", strings.Join(has, ", "), c.Engine)
			if has == nil {
				summary = fmt.Sprintf("the machine itself was looked at, and %s may be in a container of %s that runs there: this account may not look into it", strings.Join(lacks, ", "), c.Engine)
			}
			// Their containers have names of their own, and it is one thing all the same.
			if at := slices.IndexFunc(findings, func(f checks.Finding) bool { return f.Summary == summary }); at >= 0 {
				findings[at].Nodes = append(findings[at].Nodes, node.Name)
				break
			}
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: summary,
				Want: "a look inside, where the ranks run in there",
				Remedy: []fix.Command{
					fix.Here("preflight -H {hostfile} --in '%s exec -i %s'   # with whatever else this run has; that is its name or id on {node}", fix.Name(c.Engine), fix.Name(c.Name)),
				},
			})
			break
		}
	}
	if entered == len(view.Nodes) {
		return checks.Skipped("the insides of containers were looked at")
	}
	return findings
}

// heldBy is what of the launch a node lacks itself, and what of that a container on it has.
func heldBy(c facts.RunningContainer, node *facts.Node) (has, lacks []string) {
	for _, part := range []struct {
		name             string
		missing, isThere bool
	}{
		{node.Python.Path, !node.Python.Found, c.Interpreter},
		{"torch", node.Python.Found && node.Python.Torch == nil, c.Torch},
		{"the directory of the launch", node.Files != nil && !node.Files.WorkDir.Exists, c.WorkDir},
	} {
		if part.missing {
			lacks = append(lacks, part.name)
		}
		if part.missing && part.isThere {
			has = append(has, part.name)
		}
	}
	return has, lacks
}
