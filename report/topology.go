package report

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// topologies draws for each kind of machine what joins its GPUs and its network
// adapters, as nvidia-smi topo -m does.
func (p *page) topologies(nodes []facts.Node) {
	var kinds []alike
	for i := range nodes {
		rows := matrix(&nodes[i])
		if rows == nil {
			continue
		}
		kinds = add(kinds, p.table(rows[0], nil, rows[1:]), nodes[i].Name)
	}
	for _, kind := range kinds {
		p.line("\ntopology of %s", p.nodes(kind.nodes))
		for line := range strings.Lines(kind.text) {
			p.out.WriteString("  " + line)
		}
		p.out.WriteString("\n")
	}
	if len(kinds) > 0 {
		p.line("  %s", p.faint("NV# links of NVLink, PIX one PCIe switch, PXB several, PHB the processor's own bridge, NODE one NUMA node, SYS another"))
	}
}

// matrix is header and rows of one machine's topology, nil where it told none.
func matrix(node *facts.Node) [][]string {
	if node.NVML == nil || len(node.NVML.Topology) < 2 {
		return nil
	}
	adapters := adaptersOf(node)
	header := []string{""}
	for i := range node.NVML.Topology {
		header = append(header, fmt.Sprintf("GPU%d", i))
	}
	for _, adapter := range adapters {
		header = append(header, Escape(adapter.Name))
	}
	rows := [][]string{header}
	for i, paths := range node.NVML.Topology {
		row := []string{header[i+1]}
		for _, path := range paths {
			row = append(row, Escape(path))
		}
		for _, adapter := range adapters {
			row = append(row, launch.Distance(node, i, adapter))
		}
		if len(row) == len(header) {
			rows = append(rows, row)
		}
	}
	return slices.Clip(rows)
}

// adaptersOf are a machine's RDMA adapters.
func adaptersOf(node *facts.Node) []facts.HCA {
	if node.IB == nil {
		return nil
	}
	return node.IB.Devices
}
