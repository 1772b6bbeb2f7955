// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

var ModelCached = checks.Check{
	ID:       "model-cached",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionFiles, facts.SectionEnv},
	Volatile: true,
	Run: func(view checks.View) (findings []checks.Finding) {
		if len(view.Launch.Models) == 0 {
			return checks.Skipped("the command names nothing of the Hub")
		}
		for _, named := range view.Launch.Models {
			findings = append(findings, judgeModel(view, named)...)
		}
		return findings
	},
}

func judgeModel(view checks.View, named facts.ModelNamed) (findings []checks.Finding) {
	var has, lacking, local []*facts.Node
	for _, node := range view.Nodes {
		switch model := launch.CachedModel(node, named); {
		case model == nil:
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("files: %s was not looked for", named.Name)))
		case model.Problem != "":
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("files: %s in %s: %s", named.Name, model.Cache, model.Problem)))
		case model.Local:
			local = append(local, node)
		case model.Commit == "":
			lacking = append(lacking, node)
		default:
			has = append(has, node)
		}
	}
	if others := slices.Concat(has, lacking); local != nil && others != nil {
		findings = append(findings, checks.Finding{
			Nodes:   checks.NamesOf(others),
			Summary: fmt.Sprintf("%s is the Hub's here, and a directory of the launch's on %s", named.Name, hostfile.Fold(checks.NamesOf(local))),
			Want:    "the directory on every node, or on none",
			Remedy:  []fix.Command{fix.On("ls -ld %s", fix.Path(view.Launch.WorkDir+"/"+named.Name))},
		})
		return findings
	}
	offlineBy := func(n *facts.Node) string { return launch.HubOffline(ranks.Env(view, n), named) }
	isOffline := func(n *facts.Node) bool { return offlineBy(n) != "" }
	for _, node := range lacking {
		by := offlineBy(node)
		if by == "" && has == nil {
			continue // all fetch it as the launch begins
		}
		f := checks.Finding{
			Nodes: []string{node.Name}, Summary: fmt.Sprintf("there is no %s in the cache, and %s keeps ranks from fetching it", named.Name, by),
			Got: "nothing for " + named.Revision, Want: "one revision on every node", Remedy: []fix.Command{download(view, named)},
		}
		if by == "" {
			f.Verdict = checks.Warn
			f.Summary = fmt.Sprintf("there is no %s in the cache, as there is on other nodes, which wait while ranks fetch it", named.Name)
			f.WouldSee = "429 Client Error: Too Many Requests, or the watchdog's timeout of the first collective"
		}
		findings = append(findings, f)
	}
	return append(findings, unlikeModels(view, named, has, slices.ContainsFunc(has, isOffline))...)
}

// unlikeModels is of nodes whose caches differ. Ranks that may ask the Hub take what it has now.
func unlikeModels(view checks.View, named facts.ModelNamed, has []*facts.Node, isOffline bool) []checks.Finding {
	differences := compare.Differences(
		compare.Among(has, named.Revision, func(n *facts.Node) string { return short(launch.CachedModel(n, named).Commit) }),
		compare.Among(has, "files", func(n *facts.Node) string { return launch.CachedModel(n, named).Files }),
	)
	common := checks.Finding{WouldSee: "wrong results without a word, or a rank that finds a file missing", Remedy: []fix.Command{download(view, named)}}
	if !isOffline {
		common.Verdict, common.WouldSee = checks.Warn, "nothing where every node gets to the Hub; else wrong results without a word"
	}
	return compare.Findings("the caches' copies of "+named.Name, differences, common)
}

// download brings what is named into the cache of {nodes}, where the Hub can be asked.
func download(view checks.View, named facts.ModelNamed) fix.Command {
	first, last := fix.Code(""), fix.Code("")
	if named.CacheDir != "" {
		first, last = fix.Code("env HF_DATASETS_CACHE=%s ", fix.Path(named.CacheDir)), fix.Code(" --cache-dir %s", fix.Path(named.CacheDir))
	}
	if named.DataSet {
		return fix.On("%s%s -c 'import sys, datasets; datasets.load_dataset(sys.argv[1])' %s", first, fix.Path(cmp.Or(view.Launch.Interpreter, "python3")), fix.Operand(named.Name)).
			Remark("with its configuration, where it has several, and where the Hub can be asked")
	}
	return fix.On("hf download %s --revision %s%s", fix.Operand(named.Name), fix.Operand(named.Revision), last).
		Remark("where the Hub can be asked; huggingface-cli download in releases before 0.34")
}
