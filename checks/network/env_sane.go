// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
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
		wrongNames, wrongNumbers, malformed, leftRank, standalone, ncclInterfaces, exactInterfaces, harmfulSwitches, confFile, servicePort,
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

var EnvSame = checks.Check{
	ID:       "env-same",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionEnv},
	Run:      judgeSameEnv,
}

// runID is the variable that names torchrun's run if the command has no --rdzv_id.
const runID = "PET_RDZV_ID"

var compared = []string{"NCCL", "TORCH", "GLOO", "TP", "UCX", "FI", "CUDA"}

func judgeSameEnv(view checks.View) []checks.Finding {
	names := map[string]bool{}
	meetByID := view.Launch.Rendezvous == launch.RendezvousC10d && view.Launch.RdzvID == ""
	for _, node := range view.Nodes {
		for _, s := range ranks.Settings(view, node) {
			names[s.Name] = names[s.Name] || slices.Contains(compared, prefixOf(s.Name)) || s.Name == runID && meetByID
		}
	}
	type consequence struct {
		wouldSee string // "" stands for the check's own text, which is NCCL's
		verdict  checks.Verdict
	}
	settings := map[consequence][]compare.Comparison{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] || tables().MayDiffer[name] || endsRanks(view, name) {
			continue // env-sane reports a value that ends the ranks
		}
		difference := consequence{verdict: checks.Fail}
		switch why := ranks.Unread(view, name); {
		case why != "":
			difference = consequence{"nothing: " + why, checks.Warn}
		case !tables().MustAgree[name]:
			difference = consequence{"nothing for certain: the ranks have different settings", checks.Warn}
		case name == runID:
			difference.wouldSee = "RendezvousTimeoutError: launchers with different run IDs wait for each other"
		case prefixOf(name) != "NCCL":
			difference.wouldSee = "a hang, or a rank that dies, when the ranks connect"
		}
		value := compare.Among(view.Nodes, name, func(n *facts.Node) string { return ranks.Env(view, n).Get(name).Value })
		settings[difference] = append(settings[difference], value)
	}
	var findings []checks.Finding
	byText := func(a, b consequence) int { return cmp.Compare(a.wouldSee, b.wouldSee) }
	for _, difference := range slices.SortedFunc(maps.Keys(settings), byText) {
		for _, f := range settingFindings(view, settings[difference]) {
			f.WouldSee = difference.wouldSee
			if difference.verdict == checks.Warn { // a policy may have another severity for failures
				f.Verdict = checks.Warn
			}
			findings = append(findings, f)
		}
	}
	return append(findings, rareFiles(view, findings)...)
}

func settingFindings(view checks.View, all []compare.Comparison) []checks.Finding {
	var findings []checks.Finding
	for i, c := range all {
		all[i].Among = compare.AsStated(view, compare.AsStated(view, c.Among, "env.vars."+c.Name+".value"), "env.nccl."+c.Name+".value")
	}
	byName := map[string]*facts.Node{}
	for _, node := range view.Nodes {
		byName[node.Name] = node
	}
	for _, d := range compare.Differences(all...) {
		var commands []fix.Command
		for i, dev := range d.Deviations {
			files := map[string][]string{}
			for _, node := range d.Nodes {
				setting := ranks.Env(view, byName[node]).Get(dev.Name)
				if strings.HasPrefix(setting.Source, "/") {
					files[setting.Source] = append(files[setting.Source], node)
				}
				commands = append(commands, settingFix(view, setting, dev)...)
			}
			for _, file := range slices.Sorted(maps.Keys(files)) {
				d.Deviations[i].Got += " (from " + file + " on " + hostfile.Fold(files[file]) + ")"
			}
		}
		f := d.Finding("settings")
		slices.SortFunc(commands, fix.Compare)
		f.Remedy = slices.CompactFunc(commands, fix.Command.Is)
		either := remedy.EitherWay(d, func(d compare.Difference) (commands []fix.Command) {
			for _, dev := range d.Deviations {
				commands = append(commands, settingFix(view, ranks.Env(view, byName[d.Nodes[0]]).Get(dev.Name), dev)...)
			}
			return commands
		})
		if either != nil {
			f.Remedy = either
		}
		findings = append(findings, f)
	}
	return findings
}

// settingFix returns the commands that give every rank the same value of a setting. They set the
// value of most nodes for every rank, because .deepspeed_env overrides a node's own environment, or
// they remove the setting where it is set.
func settingFix(view checks.View, setting facts.Setting, dev compare.Deviation) []fix.Command {
	switch {
	case dev.Want != "":
		return []fix.Command{ranks.ExportLine(view.Launch, dev.Name, dev.Want)}
	case setting.Name == "":
		return nil // there is no majority, and the setting is not set on this node
	}
	return ranks.TakeOut(view, setting)
}
