package checks

import (
	"maps"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// strayFiles names NCCL configuration files that only a minority of the nodes
// has, where no finding on the settings in them does, here or in env-sane.
func strayFiles(view View, findings []Finding) []Finding {
	holders := map[string][]*facts.Node{}
	for _, node := range view.Nodes {
		for _, file := range node.Env.Files {
			if file.Count > 0 || file.Error != "" {
				holders[file.Path] = append(holders[file.Path], node)
			}
		}
	}
	var stray []Finding
	fleet := newEnvFleet(view)
	for _, path := range slices.Sorted(maps.Keys(holders)) {
		if 2*len(holders[path]) >= len(view.Nodes) {
			continue
		}
		for _, node := range holders[path] {
			one := ranks{node, rankEnv(view, node), fleet}
			if named(path, node, append(one.judge(), findings...)) {
				continue
			}
			stray = append(stray, Finding{
				Verdict:  Warn,
				Nodes:    []string{node.Name},
				Summary:  "NCCL reads a configuration file here that most nodes do not have",
				Got:      path,
				WouldSee: "settings on this node that no env command shows",
				Remedy:   []fix.Command{fix.On("cat %s", fix.Path(path))},
			})
		}
	}
	return stray
}

// named reports whether a finding on the node already speaks of the file.
func named(path string, node *facts.Node, findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool {
		return slices.Contains(f.Nodes, node.Name) && strings.Contains(f.Got, path)
	})
}
