// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
)

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
