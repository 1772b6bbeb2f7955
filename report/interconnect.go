// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// alike is a text and the nodes, or ranks of nodes, to which it applies.
type alike struct {
	text  string
	nodes []string
}

// interconnect prints the GPUs of the nodes and how NCCL will connect them.
func (p *page) interconnect(r checks.Report) {
	p.each("gpus", p.inventory(r.Nodes))
	var inside, between []alike
	for _, group := range r.Interconnect {
		inside = add(inside, Transport(group.Inside), group.Nodes...)
		between = add(between, Transport(group.Between), group.Nodes...)
	}
	p.each("inside", inside)
	p.each("between", between)
}

// each writes one line if a text applies to all nodes, and otherwise one line for each group.
func (p *page) each(label string, groups []alike) {
	groups = slices.DeleteFunc(groups, func(g alike) bool { return g.text == "" })
	var texts []string
	for _, group := range groups {
		text := group.text
		if len(group.nodes) < p.fleet {
			text = hostfile.Fold(group.nodes) + ": " + text
		}
		texts = append(texts, text)
	}
	p.list(label, texts...)
}

// add adds nodes to the group with the same text, or adds a new group.
func add(groups []alike, text string, nodes ...string) []alike {
	i := slices.IndexFunc(groups, func(g alike) bool { return g.text == text })
	if i < 0 {
		return append(groups, alike{text, slices.Clone(nodes)})
	}
	groups[i].nodes = append(groups[i].nodes, nodes...)
	return groups
}

// Transport returns a transport in words: "InfiniBand: mlx5_0, 400 Gbit/s (why)".
func Transport(t nccl.Transport) string {
	text := t.Name
	if t.Detail != "" {
		text += ": " + t.Detail
	}
	if t.Why != "" {
		text += " (" + t.Why + ")"
	}
	return text
}

// inventory returns the GPUs of the fleet, with one entry for machines with the same GPUs. It
// returns nil if no machine has a GPU.
func (p *page) inventory(nodes []facts.Node) (groups []alike) {
	if !slices.ContainsFunc(nodes, func(n facts.Node) bool { return n.NVML != nil && len(n.NVML.Cards) > 0 }) {
		return nil
	}
	for i := range nodes {
		nvml := nodes[i].NVML
		switch {
		case nvml == nil:
			continue
		case len(nvml.Cards) == 0:
			groups = add(groups, "none reported by a driver", nodes[i].Name)
			continue
		}
		text := Models(nvml.Cards)
		if nvml.Driver != "" {
			text += ", driver " + nvml.Driver
		}
		if nvml.CUDA != "" {
			text += " for CUDA " + nvml.CUDA
		}
		groups = add(groups, text, nodes[i].Name)
	}
	return groups
}

// Models returns the GPUs of a node by name: "8 × NVIDIA H100 80GB HBM3".
func Models(cards []facts.Card) string {
	models := text.GroupBy(cards, func(card facts.Card) string { return cmp.Or(card.Name, "a GPU without a name") })
	return strings.Join(text.Map(models, func(m text.Group[string, facts.Card]) string { return fmt.Sprintf("%d × %s", len(m.All), m.Key) }), ", ")
}

// topologies draws, for each kind of machine, how its GPUs and network adapters are connected, as
// nvidia-smi topo -m does.
func (p *page) topologies(nodes []facts.Node) {
	var kinds []alike
	for i := range nodes {
		rows := Topology(&nodes[i])
		if rows == nil {
			continue
		}
		kinds = add(kinds, p.table(rows[0], nil, rows[1:]), nodes[i].Name)
	}
	for _, kind := range kinds {
		p.line("\ntopology of %s", p.Nodes(kind.nodes))
		for line := range strings.Lines(kind.text) {
			p.out.WriteString("  " + line)
		}
		p.out.WriteString("\n")
	}
	if len(kinds) > 0 {
		p.line("  %s", p.faint("NV#: number of NVLink links, PIX: one PCIe switch, PXB: several PCIe switches, PHB: the CPU's host bridge, NODE: one NUMA node, SYS: another NUMA node"))
	}
}

// Topology returns the header and the rows of a machine's topology, nil if the machine reported
// none.
func Topology(node *facts.Node) [][]string {
	if node.NVML == nil || len(node.NVML.Topology) < 2 {
		return nil
	}
	adapters := Adapters(node)
	header := []string{""}
	for i := range node.NVML.Topology {
		header = append(header, fmt.Sprintf("GPU%d", i))
	}
	for _, adapter := range adapters {
		header = append(header, text.Escape(adapter.Name))
	}
	rows := [][]string{header}
	for i, paths := range node.NVML.Topology {
		row := []string{header[i+1]}
		for _, path := range paths {
			row = append(row, text.Escape(path))
		}
		for _, adapter := range adapters {
			row = append(row, nccl.Distance(node, i, adapter))
		}
		if len(row) == len(header) {
			rows = append(rows, row)
		}
	}
	return slices.Clip(rows)
}

// Adapters returns the RDMA adapters of a machine.
func Adapters(node *facts.Node) []facts.HCA {
	if node.IB == nil {
		return nil
	}
	return node.IB.Devices
}
