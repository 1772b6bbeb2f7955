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
	"preflight/launch"
)

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
