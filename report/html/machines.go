// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
	"preflight/report"
)

const mostMachines = 8

// machine is machines that are drawn alike.
type machine struct {
	Nodes   set
	Models  string
	Inside  string // by what NCCL has the GPUs talk
	Between string // and the nodes
	Drawing drawing
	// Table is the same in words, header first: what joins each GPU with the others
	// and with the adapters. nil where the machine reported none.
	Table [][]string
}

func talking(w report.Words, groups []checks.Interconnect) []machine {
	return report.Map(groups, func(g checks.Interconnect) machine {
		return machine{Nodes: setOf(w, g.Nodes), Inside: text.Escape(report.Transport(g.Inside)), Between: text.Escape(report.Transport(g.Between))}
	})
}

// machines are the kinds of machine with GPUs, the most frequent first; more is
// how many kinds are left out.
func machines(w report.Words, r checks.Report) (kinds []machine, more int) {
	linked := map[string]checks.Interconnect{}
	for _, g := range r.Interconnect {
		for _, node := range g.Nodes {
			linked[node] = g
		}
	}
	var withGPUs []*facts.Node
	for i := range r.Nodes {
		if node := &r.Nodes[i]; node.NVML != nil && len(node.NVML.Cards) > 0 {
			withGPUs = append(withGPUs, node)
		}
	}
	alike := report.GroupBy(withGPUs, func(node *facts.Node) string { return kindKey(node, linked[node.Name]) })
	slices.SortStableFunc(alike, func(a, b report.Group[string, *facts.Node]) int { return cmp.Compare(len(b.All), len(a.All)) })
	for _, kind := range alike[:min(len(alike), mostMachines)] {
		names := report.Map(kind.All, func(node *facts.Node) string { return node.Name })
		node, link := kind.All[0], linked[kind.All[0].Name]
		kinds = append(kinds, machine{
			Nodes: setOf(w, names), Models: text.Escape(report.Models(node.NVML.Cards)),
			Inside: text.Escape(report.Transport(link.Inside)), Between: text.Escape(report.Transport(link.Between)),
			Drawing: draw(node, link.Between), Table: report.Topology(node),
		})
	}
	return kinds, len(alike) - len(kinds)
}

func kindKey(node *facts.Node, link checks.Interconnect) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q %q %q", report.Models(node.NVML.Cards), report.Transport(link.Inside), report.Transport(link.Between), report.Topology(node))
	for i := range node.NVML.Cards {
		fmt.Fprintf(&key, " %d", numaOf(node, i))
	}
	for _, adapter := range report.Adapters(node) {
		fmt.Fprintf(&key, " %q %q", adapter.Name, linkOf(adapter))
	}
	return key.String()
}

// numaOf is the NUMA node of the i-th GPU, -1 where it is unknown.
func numaOf(node *facts.Node, card int) int {
	if node.GPU != nil {
		address := node.NVML.Cards[card].Address
		at := slices.IndexFunc(node.GPU.OnBus, func(g facts.PCIGPU) bool { return g.Address == address })
		if at >= 0 {
			return node.GPU.OnBus[at].NUMANode
		}
	}
	if numa := node.NVML.Cards[card].NUMANode; numa != nil {
		return *numa
	}
	return -1
}

// linkOf says what an adapter's first active port carries: "400 Gbit/s", or its
// state where none is active.
func linkOf(adapter facts.HCA) string {
	for _, port := range adapter.Ports {
		if port.State == "ACTIVE" {
			return text.BitRate(float64(port.Rate))
		}
	}
	if len(adapter.Ports) == 0 {
		return "no port"
	}
	return strings.ToLower(adapter.Ports[0].State)
}

// nearest are the GPUs that are as near to the adapter as any is, and how near;
// none where it is equally far from all or unknown.
func nearest(node *facts.Node, adapter facts.HCA) (cards []int, distance string) {
	steps := []string{"PIX", "PXB", "PHB", "NODE", "SYS"}
	best := len(steps)
	for i := range node.NVML.Cards {
		step := slices.Index(steps, nccl.Distance(node, i, adapter))
		switch {
		case step < 0 || step > best:
			continue
		case step < best:
			best, cards = step, nil
		}
		cards = append(cards, i)
	}
	if best == len(steps) || steps[best] == "SYS" {
		return nil, ""
	}
	return cards, steps[best]
}
