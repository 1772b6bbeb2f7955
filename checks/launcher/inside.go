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
			summary := fmt.Sprintf("preflight checked the machine, but %s is only in a %s container on it", strings.Join(has, ", "), c.Engine)
			if has == nil {
				summary = fmt.Sprintf("preflight checked the machine, but %s may be in a %s container that it may not enter", strings.Join(lacks, ", "), c.Engine)
			}
			// The names of containers differ between nodes, but the problem is the same.
			if at := slices.IndexFunc(findings, func(f checks.Finding) bool { return f.Summary == summary }); at >= 0 {
				findings[at].Nodes = append(findings[at].Nodes, node.Name)
				break
			}
			findings = append(findings, checks.Finding{
				Nodes: []string{node.Name}, Summary: summary,
				Want: "a check inside the container, if the ranks run there",
				Remedy: []fix.Command{
					fix.Here("preflight -H {hostfile} --in '%s exec -i %s'   # add the options of this run; the last word is the container's name or ID on {node}", fix.Name(c.Engine), fix.Name(c.Name)),
				},
			})
			break
		}
	}
	if entered == len(view.Nodes) {
		return checks.Skipped("preflight checked inside the containers")
	}
	return findings
}

// heldBy returns two lists of parts of the launch. lacks holds the parts that a node lacks. has
// holds the lacking parts that a container on the node has.
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
