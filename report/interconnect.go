package report

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// mostGroups is how many ways of a fleet to differ are told unless all are
// asked for.
const mostGroups = 4

// alike is the nodes of which one and the same is to be said.
type alike struct {
	text  string
	nodes []string
}

// interconnect says what GPUs there are and by what NCCL will have them talk.
func (p *page) interconnect(r checks.Report) {
	p.each("gpus", p.inventory(r.Nodes))
	var inside, between []alike
	for _, group := range r.Interconnect {
		inside = add(inside, transport(group.Inside), group.Nodes...)
		between = add(between, transport(group.Between), group.Nodes...)
	}
	p.each("inside", inside)
	p.each("between", between)
}

// each writes one line for what is said of all nodes, or one a group of them.
func (p *page) each(label string, groups []alike) {
	groups = slices.DeleteFunc(groups, func(g alike) bool { return g.text == "" })
	for i, group := range groups {
		if i == mostGroups && !p.style.Verbose {
			p.list("", []string{fmt.Sprintf("%d more kinds: -v shows them", len(groups)-i)}, "")
			return
		}
		text := group.text
		if len(group.nodes) < p.fleet {
			text = hostfile.Fold(group.nodes) + ": " + text
		}
		p.list(firstOnly(i, label), []string{text}, "")
	}
}

// add puts nodes to those of which the same is said.
func add(groups []alike, text string, nodes ...string) []alike {
	i := slices.IndexFunc(groups, func(g alike) bool { return g.text == text })
	if i < 0 {
		return append(groups, alike{text, slices.Clone(nodes)})
	}
	groups[i].nodes = append(groups[i].nodes, nodes...)
	return groups
}

// transport is one in words: "InfiniBand: mlx5_0, 400 Gbit/s (why)".
func transport(t launch.Transport) string {
	text := t.Name
	if t.Detail != "" {
		text += ": " + t.Detail
	}
	if t.Why != "" {
		text += " (" + t.Why + ")"
	}
	return text
}

// inventory is the GPUs of the fleet, like machines in one line; nothing where
// no machine has any.
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
			groups = add(groups, "none that a driver tells of", nodes[i].Name)
			continue
		}
		text := models(nvml.Cards)
		if nvml.Driver != "" {
			text += ", driver " + nvml.Driver
		}
		if nvml.CUDA != "" {
			text += " for CUDA " + nvml.CUDA
		}
		if nvml.Source == "nvidia-smi" {
			text += ", by nvidia-smi"
		}
		groups = add(groups, text, nodes[i].Name)
	}
	return groups
}

// models are the GPUs of a node by name: "8 × NVIDIA H100 80GB HBM3".
func models(cards []facts.Card) string {
	var names []string
	count := map[string]int{}
	for _, card := range cards {
		name := card.Name
		if name == "" {
			name = "a GPU without a name"
		}
		if count[name] == 0 {
			names = append(names, name)
		}
		count[name]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d × %s", count[name], name)
	}
	return strings.Join(names, ", ")
}
