// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

var Computes = checks.Check{
	ID:        computesID,
	Severity:  checks.Error,
	Needs:     needs,
	DependsOn: looking(),
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, computesID)
		for _, node := range nodes {
			findings = append(findings, checks.OfNode(node, uncomputed(view, node)...)...)
		}
		return append(findings, slowCompute(view, nodes)...)
	},
}

// uncomputed returns the finding for a node on which a rank fails even without other ranks.
func uncomputed(view checks.View, node *facts.Node) []checks.Finding {
	var failures []facts.SmokeFailure
	for _, rank := range node.Smoke.Ranks {
		if rank.Failure != nil {
			failures = append(failures, *rank.Failure)
		}
	}
	switch {
	case len(node.Smoke.Ranks) == 0:
		return []checks.Finding{checks.UnknownFor(node, "no rank was started on it")}
	case areAbsent(failures):
		return []checks.Finding{wayOut(view, node, failures)}
	case len(failures) > 0:
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  "a rank fails to compute, even without other ranks",
			Got:      allHappened(node, failures),
			Want:     "the right answer from every rank",
			WouldSee: wouldSee(failures, ""),
		}
		return []checks.Finding{put(view, f, node, failures, ofItself(failures))}
	}
	for _, rank := range node.Smoke.Ranks {
		if rank.Rate == 0 {
			return []checks.Finding{timeUp(node, "every rank")}
		}
	}
	return nil
}

func slowCompute(view checks.View, nodes []*facts.Node) (findings []checks.Finding) {
	usual := usualOf(nodes, func(_ *facts.Node, rank facts.SmokeRank) (string, float64) { return rank.Name, rank.Rate })
	for _, node := range nodes {
		f := checks.Finding{
			Verdict: checks.Warn, Nodes: []string{node.Name},
			Summary:  "GPUs compute slowly",
			Remedy:   slowness(view),
			WouldSee: "no message: every step takes as long as the slowest GPU",
		}
		var slow, want []string
		for _, rank := range node.Smoke.Ranks {
			got, wanted := fmt.Sprintf("%s %s", ranked(node, rank.LocalRank), operations(rank.Rate)), ""
			switch most := usual[rank.Name]; {
			case rank.Rate == 0:
				continue
			case rank.Rate < view.Policy.ComputeRate:
				f.Verdict = checks.Fail
				wanted = stated(operations(view.Policy.ComputeRate), "compute_rate")
			case rank.Rate < facts.SlowCompute*most:
				got += ", " + share(rank.Rate, most)
				wanted = fmt.Sprintf("at least %.0f %% of the %s of most GPUs of the model", 100*facts.SlowCompute, operations(most))
			default:
				continue
			}
			slow = append(slow, got)
			if !slices.Contains(want, wanted) {
				want = append(want, wanted)
			}
		}
		if slow != nil {
			f.Got, f.Want = strings.Join(slow, "; "), strings.Join(want, "; ")
			findings = append(findings, f)
		}
	}
	return findings
}

func slowness(view checks.View) []fix.Command {
	if !ranks.UsesNCCL(view) {
		return []fix.Command{fix.On("uptime; cat /sys/fs/cgroup/cpu.max /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor   # other load, a CPU quota, a power-saving governor").As(fix.Look)}
	}
	return []fix.Command{fix.On("nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER   # during the test: what lowers the clocks").As(fix.Look)}
}

func operations(rate float64) string { return humanize.SIWithDigits(rate, 1, "op/s") }

// usualOf returns the median rate of each kind, over all ranks of the kind. of returns the kind of
// a rank, or "" for a rank to leave out. usualOf leaves out kinds that too few nodes have.
func usualOf(nodes []*facts.Node, of func(*facts.Node, facts.SmokeRank) (kind string, rate float64)) map[string]float64 {
	rates, have := map[string][]float64{}, map[string]map[string]bool{}
	for _, node := range nodes {
		for _, rank := range node.Smoke.Ranks {
			kind, rate := of(node, rank)
			if rate == 0 {
				continue
			}
			if have[kind] == nil {
				have[kind] = map[string]bool{}
			}
			rates[kind], have[kind][node.Name] = append(rates[kind], rate), true
		}
	}
	usual := map[string]float64{}
	for kind, all := range rates {
		if len(have[kind]) >= facts.UsualFrom {
			usual[kind] = facts.Usual(all)
		}
	}
	return usual
}
