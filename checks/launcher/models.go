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
			return checks.Skipped("the command names no model or data set of the Hub")
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
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("files: preflight did not look for %s", named.Name)))
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
			Summary: fmt.Sprintf("%s comes from the Hub here, but is a local directory on %s", named.Name, hostfile.Fold(checks.NamesOf(local))),
			Want:    "the directory on every node, or on none",
			Remedy:  []fix.Command{fix.On("ls -ld %s", fix.Path(view.Launch.WorkDir+"/"+named.Name)).As(fix.Look)},
		})
		return findings
	}
	offlineBy := func(n *facts.Node) string { return launch.HubOffline(ranks.Env(view, n), named) }
	isOffline := func(n *facts.Node) bool { return offlineBy(n) != "" }
	for _, node := range lacking {
		by := offlineBy(node)
		if by == "" && has == nil {
			continue // no node has the model, so all nodes download it at the start
		}
		f := checks.Finding{
			Nodes: []string{node.Name}, Summary: fmt.Sprintf("%s is not in the cache, and %s forbids the download", named.Name, by),
			Got: "nothing for revision " + named.Revision, Want: "the same revision on every node", Remedy: []fix.Command{download(view, named)},
		}
		if by == "" {
			f.Verdict = checks.Warn
			f.Summary = fmt.Sprintf("%s is not in the cache, so the other nodes wait for the download", named.Name)
			f.WouldSee = "429 Client Error: Too Many Requests, or the watchdog's timeout of the first collective"
		}
		findings = append(findings, f)
	}
	return append(findings, unlikeModels(view, named, has, slices.ContainsFunc(has, isOffline))...)
}

// unlikeModels returns findings for nodes whose caches differ. Ranks that may connect to the Hub
// use the version that is current there.
func unlikeModels(view checks.View, named facts.ModelNamed, has []*facts.Node, isOffline bool) []checks.Finding {
	differences := compare.Differences(
		compare.Among(has, named.Revision, func(n *facts.Node) string { return short(launch.CachedModel(n, named).Commit) }),
		compare.Among(has, "files", func(n *facts.Node) string { return launch.CachedModel(n, named).Files }),
	)
	common := checks.Finding{WouldSee: "wrong results without an error, or a rank that does not find a file", Remedy: []fix.Command{download(view, named)}}
	if !isOffline {
		common.Verdict, common.WouldSee = checks.Warn, "nothing if every node reaches the Hub; otherwise wrong results without an error"
	}
	return compare.Findings("the cached copies of "+named.Name, differences, common)
}

// download returns the command that downloads a model or data set into the cache of {nodes}. The
// command needs access to the Hub.
func download(view checks.View, named facts.ModelNamed) fix.Command {
	first, last := fix.Code(""), fix.Code("")
	if named.CacheDir != "" {
		first, last = fix.Code("env HF_DATASETS_CACHE=%s ", fix.Path(named.CacheDir)), fix.Code(" --cache-dir %s", fix.Path(named.CacheDir))
	}
	if named.DataSet {
		return fix.On("%s%s -c 'import sys, datasets; datasets.load_dataset(sys.argv[1])' %s", first, fix.Path(cmp.Or(view.Launch.Interpreter, "python3")), fix.Operand(named.Name)).
			Remark("add its configuration if it has several; needs access to the Hub")
	}
	return fix.On("hf download %s --revision %s%s", fix.Operand(named.Name), fix.Operand(named.Revision), last).
		Remark("needs access to the Hub; before release 0.34: huggingface-cli download")
}
