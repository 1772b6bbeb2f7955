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
	differing := map[int]bool{} // the findings whose containers have another name on some node
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
			enter := fix.Here("preflight -H {hostfile} --in '%s exec -i %s'   # add the options of this run", fix.Name(c.Engine), fix.Name(c.Name))
			// The names of containers may differ between nodes, but the problem is the same.
			at := slices.IndexFunc(findings, func(f checks.Finding) bool { return f.Summary == summary })
			if at < 0 {
				at = len(findings)
				findings = append(findings, checks.Finding{Summary: summary, Want: "a check inside the container, if the ranks run there", Remedy: []fix.Command{enter}})
			}
			f := &findings[at]
			f.Nodes = append(f.Nodes, node.Name)
			if len(f.Nodes) > 1 && !f.Remedy[0].Is(enter) {
				differing[at] = true
			}
			break
		}
	}
	for at := range differing {
		findings[at].Remedy[0] = findings[at].Remedy[0].Remark("the last word is the container's name or ID on {node}")
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
