package checks

import (
	"maps"
	"slices"

	"preflight/facts"
)

// strayFiles names NCCL configuration files that only a minority of the nodes
// has, where no finding on the settings in them does.
func strayFiles(view View, findings []Finding) []Finding {
	named := map[string]bool{}
	for _, f := range findings {
		for _, node := range f.Nodes {
			named[node] = true
		}
	}
	holders := map[string][]*facts.Node{}
	for _, node := range view.Nodes {
		for _, file := range node.Env.Files {
			if file.Count > 0 || file.Error != "" {
				holders[file.Path] = append(holders[file.Path], node)
			}
		}
	}
	var stray []Finding
	for _, path := range slices.Sorted(maps.Keys(holders)) {
		for _, node := range holders[path] {
			if 2*len(holders[path]) >= len(view.Nodes) || named[node.Name] {
				continue
			}
			stray = append(stray, Finding{
				Verdict:  Warn,
				Nodes:    []string{node.Name},
				Summary:  "NCCL reads a configuration file here that most nodes do not have",
				Got:      path,
				WouldSee: "settings on this node that no env command shows",
				Fix:      []string{"{ssh} cat " + shellWord(path)},
			})
		}
	}
	return stray
}
