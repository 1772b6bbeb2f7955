// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// SmokeWords describes the smoke test in one sentence. The sentence says how fast all ranks reduce
// and which node is slowest, or which nodes and pairs failed. It returns "" if no ranks were
// started.
func SmokeWords(nodes []facts.Node) string {
	took := Smoked(nodes)
	if len(took) == 0 {
		return ""
	}
	ranks, well := 0, []SmokeRate{}
	var alone []string
	for _, node := range took {
		ranks += len(node.Smoke.Ranks)
		if rate, passed := lastOf(node); passed {
			well = append(well, SmokeRate{node.Name, rate})
		}
		if slices.ContainsFunc(node.Smoke.Ranks, func(rank facts.SmokeRank) bool { return rank.Failure != nil }) {
			alone = append(alone, node.Name)
		}
	}
	line := fmt.Sprintf("%s, %s", text.Plural(len(took), "node"), text.Plural(ranks, "rank"))
	if len(well) == len(took) {
		slices.SortStableFunc(well, func(a, b SmokeRate) int { return cmp.Compare(a.Rate, b.Rate) })
		usual := well[len(well)/2].Rate
		line += ", all-reduce correct, " + text.BitRate(usual)
		if well[0].Rate < usual {
			line += fmt.Sprintf(", slowest %s at %.0f %%", well[0].Of, 100*well[0].Rate/usual)
		}
		return line
	}
	line += ", all-reduce failed"
	if len(alone) > 0 {
		line += "; failed alone: " + text.Some(alone, 2*slowestNamed)
	}
	passed, failed := SmokePairs(took)
	if pairs := len(passed) + len(failed); pairs > 0 {
		line += fmt.Sprintf("; %d of %s passed", len(passed), text.Plural(pairs, "pair"))
	}
	if len(failed) > 0 {
		line += ", failed: " + text.Some(text.Map(failed, func(pair SmokeRate) string { return pair.Of }), 2*slowestNamed)
	}
	return line
}

// SmokeRate is a rate, in bits per second, of a node ("w1") or a pair ("w1 – w2").
type SmokeRate struct {
	Of   string
	Rate float64
}

// Smoked returns the nodes whose ranks were started for the smoke test.
func Smoked(nodes []facts.Node) []facts.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node facts.Node) bool { return node.Smoke == nil || node.Smoke.Refused != "" })
}

// lastOf returns the result of a node's largest trial: the trial of all ranks, or the trial of the
// node's own ranks if the node took part in no larger trial.
func lastOf(node facts.Node) (rate float64, passed bool) {
	trials := node.Smoke.Trials
	if len(trials) == 0 {
		return 0, false
	}
	most := slices.MaxFunc(trials, func(a, b facts.SmokeTrial) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks))
	})
	return most.Rate, most.Passed
}

// SmokePairs returns the pairs that were tried, each once.
func SmokePairs(nodes []facts.Node) (passed, failed []SmokeRate) {
	met := map[string]bool{}
	for _, node := range nodes {
		for _, trial := range node.Smoke.Trials {
			if trial.Stage != facts.SmokePair || len(trial.With) != 1 || met[trial.With[0]+" – "+node.Name] {
				continue
			}
			pair := SmokeRate{node.Name + " – " + trial.With[0], trial.Rate}
			met[pair.Of] = true
			if trial.Passed {
				passed = append(passed, pair)
			} else {
				failed = append(failed, pair)
			}
		}
	}
	return passed, failed
}

// mostSmoked is the maximum number of nodes that get their own lines, and also the maximum number
// of pairs.
const mostSmoked = 24

// smoke prints the smoke test in one sentence. In verbose mode it adds a line for each node, with
// the rates of its slowest rank, and a line for each pair, both with the slowest first.
func (p *page) smoke(nodes []facts.Node) {
	p.list("smoke", SmokeWords(nodes))
	if !p.style.Verbose {
		return
	}
	took := Smoked(nodes)
	var each, pairs []smokeRow
	for i, node := range took {
		each = append(each, rowOfNode(node))
		for _, trial := range node.Smoke.Trials {
			isToldBefore := func(other facts.Node) bool { return slices.Contains(trial.With, other.Name) }
			if (trial.Stage == facts.SmokePair || trial.Stage == facts.SmokeRail) && len(trial.With) == 1 && !slices.ContainsFunc(took[:i], isToldBefore) {
				pairs = append(pairs, rowOfPair(node.Name, trial))
			}
		}
	}
	p.smokeRows(each)
	p.smokeRows(pairs)
}

// smokeRow is a node or a pair. The rows are sorted by rate, which is 0 if the node or pair failed.
type smokeRow struct {
	rate  float64
	cells []string
}

func rowOfNode(node facts.Node) smokeRow {
	if len(node.Smoke.Ranks) == 0 {
		return smokeRow{0, []string{node.Name, "no rank"}}
	}
	slowest := func(of func(facts.SmokeRank) float64) float64 {
		return slices.Min(text.Map(node.Smoke.Ranks, of))
	}
	row := smokeRow{slowest(func(rank facts.SmokeRank) float64 { return rank.Rate }), []string{node.Name, "not tried"}}
	switch hasFailed := func(rank facts.SmokeRank) bool { return rank.Failure != nil }; {
	case row.rate > 0:
		row.cells[1] = humanize.SIWithDigits(row.rate, 1, "op/s")
	case slices.ContainsFunc(node.Smoke.Ranks, hasFailed):
		row.cells[1] = "failed"
	}
	for _, copied := range []struct {
		where string
		of    func(facts.SmokeRank) float64
	}{
		{"to GPU", func(rank facts.SmokeRank) float64 { return rank.HostToDevice }},
		{"from GPU", func(rank facts.SmokeRank) float64 { return rank.DeviceToHost }},
		{"within", func(rank facts.SmokeRank) float64 { return rank.DeviceToDevice }},
	} {
		if rate := slowest(copied.of); rate > 0 {
			row.cells = append(row.cells, text.BitRate(rate)+" "+copied.where)
		}
	}
	return row
}

func rowOfPair(node string, trial facts.SmokeTrial) smokeRow {
	row := smokeRow{trial.Rate, []string{node + " – " + trial.With[0], "failed", text.Duration(trial.Seconds)}}
	if trial.Passed {
		row.cells[1] = text.BitRate(trial.Rate)
	}
	if trial.Rail != "" {
		row.cells[0] += " over " + trial.Rail
	}
	return row
}

// smokeRows prints rows as an aligned table, the slowest first.
func (p *page) smokeRows(rows []smokeRow) {
	slices.SortStableFunc(rows, func(a, b smokeRow) int { return cmp.Compare(a.rate, b.rate) })
	more := max(len(rows)-mostSmoked, 0)
	rows = rows[:len(rows)-more]
	if len(rows) > 0 {
		table := p.table(nil, nil, text.Map(rows, func(row smokeRow) []string { return text.Map(row.cells, text.Escape) }))
		p.list("", strings.Split(table, "\n")...)
	}
	if more > 0 {
		p.list("", fmt.Sprintf("%d more, all faster, are in the JSON report", more))
	}
}

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
