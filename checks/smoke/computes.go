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
	"preflight/internal/text"
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

var Node = checks.Check{
	ID:        nodeID,
	Severity:  checks.Error,
	Needs:     needs,
	DependsOn: append(looking(), computesID),
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, nodeID)
		several := false
		for _, node := range nodes {
			if len(node.Smoke.Ranks) < 2 {
				continue
			}
			several = true
			findings = append(findings, checks.OfNode(node, unreduced(view, node)...)...)
		}
		if !several && len(nodes) == len(view.Nodes) && len(nodes) > 0 {
			return checks.Skipped("each node has one rank: see collective")
		}
		return findings
	},
}

func unreduced(view checks.View, node *facts.Node) []checks.Finding {
	i := slices.IndexFunc(node.Smoke.Trials, func(trial facts.SmokeTrial) bool { return trial.Stage == facts.SmokeNode })
	switch {
	case i < 0 && isAlone(view, node):
		return []checks.Finding{leftTo(node, computesID)}
	case i < 0:
		return []checks.Finding{timeUp(node, "all ranks of the node together")}
	case node.Smoke.Trials[i].Passed:
		return nil
	}
	trial := node.Smoke.Trials[i]
	if areAbsent(trial.Failures) {
		return []checks.Finding{wayOut(view, node, trial.Failures)}
	}
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  "all-reduce among the ranks of the node fails",
		Got:      fmt.Sprintf("%d ranks over %s: %s", trial.Ranks, node.Smoke.Backend, allHappened(node, trial.Failures)),
		Want:     "the right sum on every rank",
		WouldSee: wouldSee(trial.Failures, ""),
	}
	return []checks.Finding{put(view, f, node, trial.Failures, ofItself(trial.Failures))}
}

// isAlone reports whether a finding of gpu-computes prevents all other tests on a node.
func isAlone(view checks.View, node *facts.Node) bool {
	return view.Found(computesID, checks.Fail, checks.Unknown)[node.Name]
}

var Copies = checks.Check{
	ID:       "gpu-copies",
	Severity: checks.Warning,
	Needs:    needs,
	Run: func(view checks.View) []checks.Finding {
		if !ranks.UsesNCCL(view) {
			return checks.Skipped("accelerator cpu: no copies to a GPU")
		}
		nodes, findings := took(view, "gpu-copies")
		for _, node := range nodes {
			copied := func(rank facts.SmokeRank) bool { return rank.HostToDevice > 0 }
			if !slices.ContainsFunc(node.Smoke.Ranks, copied) {
				findings = append(findings, leftTo(node, computesID))
			}
		}
		usual := make([]map[string]float64, len(copyKinds))
		for i, kind := range copyKinds {
			usual[i] = usualOf(nodes, func(node *facts.Node, rank facts.SmokeRank) (string, float64) {
				return rank.Name + " " + linkOf(node, rank).String(), kind.rate(rank)
			})
		}
		for _, node := range nodes {
			findings = append(findings, slowCopies(node, usual, view.Policy.CopyRate)...)
		}
		return findings
	},
}

// copyKinds lists the directions of copies, and whether each crosses the PCIe link.
var copyKinds = []struct {
	what    string
	rate    func(facts.SmokeRank) float64
	crosses bool
}{
	{"host to GPU", func(rank facts.SmokeRank) float64 { return rank.HostToDevice }, true},
	{"GPU to host", func(rank facts.SmokeRank) float64 { return rank.DeviceToHost }, true},
	{"within the GPU", func(rank facts.SmokeRank) float64 { return rank.DeviceToDevice }, false},
}

// leastOfLink is the share of a link's rate below which copies and traffic count as slow.
const leastOfLink = 0.5

func slowCopies(node *facts.Node, usual []map[string]float64, least float64) (findings []checks.Finding) {
	var slow, want []string
	for _, rank := range node.Smoke.Ranks {
		link := linkOf(node, rank)
		for i, kind := range copyKinds {
			rate, most := kind.rate(rank), usual[i][rank.Name+" "+link.String()]
			wanted := ""
			switch {
			case rate == 0:
				continue
			case kind.crosses && rate < least:
				wanted = kind.what + ": " + stated(text.BitRate(least), "copy_rate")
			case kind.crosses && rate < leastOfLink*link.rate():
				wanted = fmt.Sprintf("%s: at least half of the %s of %s", kind.what, text.BitRate(link.rate()), link)
			case rate < facts.SlowTraffic*most:
				wanted = fmt.Sprintf("%s: at least %.0f %% of the %s of most GPUs of the model", kind.what, 100*facts.SlowTraffic, text.BitRate(most))
			default:
				continue
			}
			slow = append(slow, fmt.Sprintf("%s %s: %s", ranked(node, rank.LocalRank), kind.what, text.BitRate(rate)))
			if !slices.Contains(want, wanted) {
				want = append(want, wanted)
			}
		}
	}
	if slow == nil {
		return nil
	}
	return []checks.Finding{{
		Nodes:   []string{node.Name},
		Summary: "copies to, from or within a GPU are slow",
		Got:     strings.Join(slow, "; "),
		Want:    strings.Join(want, "; "),
		Remedy: []fix.Command{
			fix.On("nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current --format=csv   # during the test").As(fix.Look),
			fix.On("nvidia-smi topo -m   # bind each rank to the CPUs near its GPU").As(fix.Look),
		},
	}}
}

// pcie is the PCIe link of a GPU. It is the zero value if the link is unknown.
type pcie struct{ generation, width int }

func linkOf(node *facts.Node, rank facts.SmokeRank) pcie {
	if node.NVML == nil || rank.Address == "" {
		return pcie{}
	}
	i := slices.IndexFunc(node.NVML.Cards, func(card facts.Card) bool { return card.Address == rank.Address })
	if i < 0 {
		return pcie{}
	}
	link := node.NVML.Cards[i].Link
	return pcie{link.MaxGeneration, link.Width}
}

func (p pcie) String() string {
	return fmt.Sprintf("PCIe %d.0 x%d", p.generation, p.width)
}

// laneRates lists the rates of a lane in one direction, in bit/s, by generation. They exclude the
// line code: 8b/10b for generations one and two, 128b/130b for three to five, and 236 of every 256
// bytes for six.
//
// Source: the PCI Express base specifications, 1.0 to 6.0.
var laneRates = []float64{1: 2e9, 2: 4e9, 3: 7.877e9, 4: 15.754e9, 5: 31.508e9, 6: 59e9}

// rate returns the rate of the link in one direction in bit/s, or 0 if it is unknown.
func (p pcie) rate() float64 {
	if p.generation < 0 || p.generation >= len(laneRates) {
		return 0
	}
	return laneRates[p.generation] * float64(p.width)
}
