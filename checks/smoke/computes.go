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
	Title:     "every rank starts on its GPU, computes what is right, and as fast as others of the model",
	Severity:  checks.Error,
	Needs:     needs,
	DependsOn: looking(),
	Doc: "With --smoke a process is started for each rank, in the environment that the launch gives it: it loads the libraries, opens its GPU and computes, first sums of integers, which are exact, " +
		"then under load what is known beforehand to the bit. An error, a hang, a crash or one wrong element is a failure; from four nodes on, a GPU that computes less than 90 % of the median of its model " +
		"is warned of. Less than the policy's compute_rate fails on any number of them. With accelerator cpu the same holds for the processors. No torch and no library to try it with is unknown. What another check explains is left to it.",
	WouldSee: "no message: a loss that is NaN or does not fall, or a step that takes as long as the slowest GPU",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, computesID)
		for _, node := range nodes {
			findings = append(findings, checks.OfNode(node, uncomputed(view, node)...)...)
		}
		return append(findings, slowCompute(view, nodes)...)
	},
}

// uncomputed is a finding of a node some of whose ranks did not come through by themselves.
func uncomputed(view checks.View, node *facts.Node) []checks.Finding {
	var failures []facts.SmokeFailure
	for _, rank := range node.Smoke.Ranks {
		if rank.Failure != nil {
			failures = append(failures, *rank.Failure)
		}
	}
	switch {
	case len(node.Smoke.Ranks) == 0:
		return []checks.Finding{checks.UnknownFor(node, "no rank was started here")}
	case areAbsent(failures):
		return []checks.Finding{wayOut(view, node, failures)}
	case len(failures) > 0:
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  "not every rank comes through by itself",
			Got:      allHappened(node, failures),
			Want:     "the right answer from every rank",
			WouldSee: wouldSee(failures, ""),
		}
		return []checks.Finding{put(view, f, node, failures, ofItself(failures))}
	}
	for _, rank := range node.Smoke.Ranks {
		if rank.Rate == 0 {
			return []checks.Finding{timeUp(node, "whether every rank computes")}
		}
	}
	return nil
}

func slowCompute(view checks.View, nodes []*facts.Node) (findings []checks.Finding) {
	usual := usualOf(nodes, func(_ *facts.Node, rank facts.SmokeRank) (string, float64) { return rank.Name, rank.Rate })
	for _, node := range nodes {
		f := checks.Finding{
			Verdict: checks.Warn, Nodes: []string{node.Name},
			Summary:  "computes slowly",
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
				wanted = fmt.Sprintf("at least %.0f %% of the %s of most of the model", 100*facts.SlowCompute, operations(most))
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
		return []fix.Command{fix.On("uptime; cat /sys/fs/cgroup/cpu.max /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor   # who else computes, a quota, a governor that saves power")}
	}
	return []fix.Command{fix.On("nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER   # while it computes: what holds the clocks down")}
}

func operations(rate float64) string { return humanize.SIWithDigits(rate, 1, "op/s") }

// usualOf is the median of a kind of rate over all ranks, by what is to be alike, "" for
// those that are left out. There is none where too few nodes have any.
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
