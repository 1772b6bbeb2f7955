// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

var Speed = checks.Check{
	ID:        "collective-speed",
	Severity:  checks.Warning,
	Needs:     needs,
	DependsOn: []string{computesID, nodeID, collectiveID},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, "collective-speed")
		compared := map[string]bool{} // nodes that already have a finding
		measured := false
		for _, kind := range ways {
			by := map[group][]float64{}
			for _, node := range nodes {
				if g, rate := fastest(node, kind.stages); rate > 0 {
					by[g] = append(by[g], rate)
					measured = true
				}
			}
			for _, node := range nodes {
				if f, slow := slowWay(view, node, kind, by); slow && !compared[node.Name] {
					compared[node.Name] = true
					findings = append(findings, f)
				}
			}
		}
		if !measured && len(nodes) > 0 && len(findings) == 0 {
			return checks.Skipped("no all-reduce succeeded: see collective")
		}
		return findings
	},
}

// way is a kind of path over which ranks reduce, such as the links within a node.
type way struct {
	stages []facts.SmokeStage // of these stages, the node's fastest trial counts
	among  string
	// link returns the rate that the path can carry, in bit/s, and the name of the path. The rate
	// is 0 if it is unknown.
	link func(view checks.View, node *facts.Node) (rate float64, name string)
	fix  func(view checks.View, node *facts.Node) []fix.Command
}

// ways lists the paths within a node first, because a path that is slow there is slow everywhere.
var ways = []way{
	{[]facts.SmokeStage{facts.SmokeNode}, "among the ranks of the node", nvLinks, func(view checks.View, _ *facts.Node) []fix.Command {
		if !ranks.UsesNCCL(view) {
			return slowness(view)
		}
		return []fix.Command{fix.On("nvidia-smi topo -m; nvidia-smi nvlink -s").As(fix.Look), fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`).As(fix.Look)}
	}},
	{[]facts.SmokeStage{facts.SmokePair}, "with another node", network, seeNetwork},
	{[]facts.SmokeStage{facts.SmokeOne}, "with one rank of each node", network, seeNetwork},
	{[]facts.SmokeStage{facts.SmokeAll}, "with all ranks", network, seeNetwork},
}

// leastStated returns the policy's minimum rate for a stage, and the name of the setting. The rate
// is 0 if the policy has none. If each node has a single rank, "one rank per node" and "all ranks"
// are the same stage.
func leastStated(policy checks.Policy, node *facts.Node, stage facts.SmokeStage) (rate float64, setting string) {
	switch {
	case stage == facts.SmokeNode:
		return policy.NodeReduceRate, "node_reduce_rate"
	case stage == facts.SmokeAll, stage == facts.SmokeOne && len(node.Smoke.Ranks) == 1 && passed(node, facts.SmokeAll) == 0:
		return policy.ReduceRate, "reduce_rate"
	}
	return 0, ""
}

// group identifies rates that can be compared with each other.
type group struct {
	stage facts.SmokeStage
	ranks int
	model string
}

// fastest returns the group and the rate of a node's fastest passed trial of these stages. The rate
// is 0 if no trial passed.
func fastest(node *facts.Node, stages []facts.SmokeStage) (of group, rate float64) {
	for _, trial := range node.Smoke.Trials {
		if slices.Contains(stages, trial.Stage) && trial.Passed && trial.Rate > rate {
			of, rate = group{trial.Stage, trial.Ranks, modelOf(node)}, trial.Rate
		}
	}
	return of, rate
}

// passed returns the number of a node's trials of a stage that passed.
func passed(node *facts.Node, stage facts.SmokeStage) (n int) {
	for _, trial := range node.Smoke.Trials {
		if trial.Stage == stage && trial.Passed {
			n++
		}
	}
	return n
}

func modelOf(node *facts.Node) string {
	if len(node.Smoke.Ranks) == 0 {
		return ""
	}
	return node.Smoke.Ranks[0].Name
}

func slowWay(view checks.View, node *facts.Node, kind way, rates map[group][]float64) (f checks.Finding, slow bool) {
	g, rate := fastest(node, kind.stages)
	link, name := kind.link(view, node)
	f = checks.Finding{
		Nodes: []string{node.Name}, Summary: "all-reduce is slow " + kind.among,
		Got: text.BitRate(rate), Remedy: kind.fix(view, node),
	}
	least, setting := leastStated(view.Policy, node, g.stage)
	switch {
	case rate == 0:
	case rate < least:
		f.Want = stated(text.BitRate(least), setting)
		return f, true
	case rate < leastOfLink*link:
		f.Want = fmt.Sprintf("at least half of the %s of %s", text.BitRate(link), name)
		return f, true
	case g.stage == facts.SmokePair && passed(node, g.stage) < 2: // the partner may be the slow node
	case len(rates[g]) >= facts.UsualFrom && rate < facts.SlowTraffic*facts.Usual(rates[g]):
		f.Got += ", " + share(rate, facts.Usual(rates[g]))
		if rails := slowRails(node); rails != "" && g.stage == facts.SmokePair {
			f.Got += "; " + rails
		}
		f.Want = fmt.Sprintf("at least %.0f %% of the %s of most nodes", 100*facts.SlowTraffic, text.BitRate(facts.Usual(rates[g])))
		return f, true
	}
	return f, false
}

// nvLinks returns the combined rate of the active NVLinks of one GPU of the node: the GPU with the
// fewest active NVLinks. A ring uses all NVLinks of a GPU.
func nvLinks(_ checks.View, node *facts.Node) (least float64, name string) {
	if node.NVML == nil {
		return 0, ""
	}
	for _, rank := range node.Smoke.Ranks {
		i := slices.IndexFunc(node.NVML.Cards, func(card facts.Card) bool { return rank.Address != "" && card.Address == rank.Address })
		if i < 0 || node.NVML.Cards[i].NVLinks == nil {
			return 0, ""
		}
		links := node.NVML.Cards[i].NVLinks
		if rate := float64(links.Speed) * float64(links.Count-len(links.Down)); least == 0 || rate < least {
			least, name = rate, fmt.Sprintf("%d NVLinks", links.Count-len(links.Down))
		}
	}
	return least, name
}

// filledByTCP is the rate in bit/s of the fastest interface that one TCP connection can fill.
const filledByTCP = 25e9

// network returns the slowest port or interface that a node's ranks use to reach other nodes, with
// its rate.
func network(view checks.View, node *facts.Node) (least float64, name string) {
	for _, port := range rails(view, node) {
		if rate := float64(port.Rate); least == 0 || rate < least {
			least, name = rate, fmt.Sprintf("%s:%d", port.Adapter.Name, port.Port)
		}
	}
	if least > 0 || node.Net == nil {
		return least, name
	}
	used := names.InterfaceOf(node.Net, interfaceOf(node))
	if used.Speed == nil || used.Kind != "physical" || *used.Speed > filledByTCP {
		return 0, ""
	}
	return float64(*used.Speed), used.Name
}

func seeNetwork(view checks.View, node *facts.Node) []fix.Command {
	if len(rails(view, node)) > 0 {
		return []fix.Command{fix.On("ibstat; perfquery -x   # rate, width and errors of the ports").As(fix.Look)}
	}
	name := interfaceOf(node)
	return []fix.Command{
		fix.On("ethtool %s | grep -iE 'speed|duplex|link'", fix.Name(name)).As(fix.Look),
		fix.On("ip -s -s link show dev %s   # errors and drops", fix.Name(name)).As(fix.Look),
	}
}

// rails returns the InfiniBand or RoCE ports that a node's ranks use, or nil if the ranks use TCP.
func rails(view checks.View, node *facts.Node) []nccl.HCAPort {
	if !ranks.UsesNCCL(view) || node.IB == nil {
		return nil
	}
	return ranks.NCCLNetwork(view, node).Ports
}

// interfaceOf returns the interface that a node used in the mesh test, or the interface that leads
// to its peers if there was no mesh test.
func interfaceOf(node *facts.Node) string {
	if node.Mesh != nil && node.Mesh.Interface != "" {
		return node.Mesh.Interface
	}
	return names.PeerInterface(node)
}

// byRail describes which rails failed when a node and a partner were tested over one rail at a
// time. It also returns the commands that check these rails. words is "" if the rails were not
// tested.
func byRail(view checks.View, node *facts.Node, with []string) (words string, way []fix.Command) {
	var fail, pass []string
	for _, trial := range node.Smoke.Trials {
		switch {
		case trial.Stage != facts.SmokeRail || !slices.ContainsFunc(trial.With, func(name string) bool { return slices.Contains(with, name) }):
		case trial.Passed:
			pass = append(pass, trial.Rail)
		default:
			fail = append(fail, trial.Rail)
		}
	}
	switch {
	case len(fail)+len(pass) == 0:
		return "", nil
	case len(fail) == 0:
		words = fmt.Sprintf("each rail works alone (%s)", strings.Join(pass, ", "))
	case len(pass) == 0:
		words = fmt.Sprintf("each rail also fails alone (%s)", strings.Join(fail, ", "))
	default:
		words = fmt.Sprintf("%s also fails alone, but %s works", strings.Join(fail, ", "), others(pass))
		way = seeRails(view, node, fail)
	}
	if slices.Contains(node.Smoke.Untried, facts.SmokeRail) {
		words += "; not all rails were tested"
	}
	return words, way
}

// others returns the words that describe the rails that work.
func others(rails []string) string {
	if len(rails) == 1 {
		return rails[0]
	}
	return fmt.Sprintf("each of the other %d", len(rails))
}

// seeRails returns the commands that check the failing rails. If the launch does not choose ports
// itself, the commands also make it avoid these rails until they are repaired.
func seeRails(view checks.View, node *facts.Node, rails []string) (way []fix.Command) {
	for _, rail := range rails {
		if adapter, _, isPort := strings.Cut(rail, ":"); isPort {
			way = append(way, fix.On("ibstat %s; show_gids %s   # check its port, cable and switch", fix.Name(adapter), fix.Name(adapter)).As(fix.Look))
		} else {
			way = append(way, fix.On("ip -s -s link show dev %s; ethtool %s   # check its port, cable and switch", fix.Name(rail), fix.Name(rail)).As(fix.Look))
		}
	}
	if _, chosen := launch.RankEnv(node.Env, view.Launch.Exports).Lookup("NCCL_IB_HCA"); !chosen && strings.Contains(rails[0], ":") {
		way = append(way, ranks.ExportLine(view.Launch, "NCCL_IB_HCA", "^="+strings.Join(rails, ",")).Remark("until that is repaired: NCCL then avoids these ports").As(fix.Or))
	}
	return way
}

// slowRails describes the rails of a node that, tested alone, are much slower than its other rails.
// It returns "" if there are none.
func slowRails(node *facts.Node) string {
	var rates []float64
	for _, trial := range node.Smoke.Trials {
		if trial.Stage == facts.SmokeRail && trial.Passed {
			rates = append(rates, trial.Rate)
		}
	}
	var slow []string
	for _, trial := range node.Smoke.Trials {
		if trial.Stage == facts.SmokeRail && trial.Passed && trial.Rate < facts.SlowTraffic*facts.Usual(rates) {
			slow = append(slow, fmt.Sprintf("%s over %s alone", text.BitRate(trial.Rate), trial.Rail))
		}
	}
	if slow == nil {
		return ""
	}
	return fmt.Sprintf("%s; %s over most rails", strings.Join(slow, ", "), text.BitRate(facts.Usual(rates)))
}
