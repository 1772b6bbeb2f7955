// SPDX-License-Identifier: Apache-2.0

package network

import (
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
)

var EnvSane = checks.Check{
	ID:       "env-sane",
	Severity: checks.Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionEnv},
	Run:      judgeEnv,
}

// envOfRanks is the environment of the ranks of one node.
type envOfRanks struct {
	view  checks.View
	node  *facts.Node
	vars  launch.Env
	set   []facts.Setting   // the variables in vars that are set
	meant map[string]string // misspelt name → the intended name
}

func (r envOfRanks) value(name string) string { return r.vars.Get(name).Value }

// finding returns a warning about a setting, with the commands that remove the setting.
func (r envOfRanks) finding(name, summary string) checks.Finding {
	return checks.Finding{
		Nodes:   []string{r.node.Name},
		Summary: summary,
		Got:     ranks.Origin(r.view, r.vars.Get(name)),
		Remedy:  ranks.TakeOut(r.view, r.vars.Get(name)),
	}
}

func judgeEnv(view checks.View) []checks.Finding {
	meant := map[string]string{}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		r := envOfRanks{view, node, ranks.Env(view, node), ranks.Settings(view, node), meant}
		r.findMisspelt()
		findings = append(findings, r.judge()...)
	}
	return findings
}

// judge applies every rule to the environment of a single node.
func (r envOfRanks) judge() []checks.Finding {
	var findings []checks.Finding
	for _, rule := range []func(envOfRanks) []checks.Finding{
		wrongNames, wrongNumbers, malformed, leftRank, ncclInterfaces, exactInterfaces, harmfulSwitches, confFile,
	} {
		findings = append(findings, rule(r)...)
	}
	return findings
}

// rareFiles warns about NCCL configuration files that only a minority of the nodes has. It leaves
// out files for which env-same or env-sane already reports a setting.
func rareFiles(view checks.View, findings []checks.Finding) []checks.Finding {
	holders := map[string][]*facts.Node{}
	for _, node := range view.Nodes {
		for _, file := range node.Env.Files {
			if file.Count > 0 || file.Error != "" {
				holders[file.Path] = append(holders[file.Path], node)
			}
		}
	}
	var found []checks.Finding
	for _, path := range slices.Sorted(maps.Keys(holders)) {
		if 2*len(holders[path]) >= len(view.Nodes) {
			continue
		}
		for _, node := range holders[path] {
			one := envOfRanks{view: view, node: node, vars: ranks.Env(view, node), set: ranks.Settings(view, node)}
			if named(path, node, append(one.judge(), findings...)) {
				continue
			}
			f := checks.Finding{
				Verdict:  checks.Warn,
				Nodes:    []string{node.Name},
				Summary:  "NCCL reads a configuration file that most nodes do not have",
				Got:      path,
				WouldSee: "settings on this node that no env command shows",
				Remedy:   []fix.Command{fix.On("cat %s", fix.Path(path)).As(fix.Look)},
			}
			if at := slices.IndexFunc(node.Env.Files, func(c facts.ConfFile) bool { return c.Path == path && c.Error != "" }); at >= 0 {
				f.Summary, f.Got = "NCCL cannot open its configuration file", path+": "+node.Env.Files[at].Error
				f.WouldSee = "nothing: NCCL goes on without the settings of the file"
				f.Remedy = []fix.Command{fix.On("namei -l %s", fix.Path(path)).As(fix.Look)}
			}
			found = append(found, f)
		}
	}
	return found
}

// named reports whether a finding for the node already names the file at path.
func named(path string, node *facts.Node, findings []checks.Finding) bool {
	return slices.ContainsFunc(findings, func(f checks.Finding) bool {
		return slices.Contains(f.Nodes, node.Name) && strings.Contains(f.Got, path)
	})
}
