// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// IDs of the checks that other checks of this package refer to.
const (
	computesID   = "gpu-computes"
	nodeID       = "collective-node"
	collectiveID = "collective"
)

// needs lists the sections that every check of this package needs.
var needs = []facts.Section{facts.SectionSmoke}

// took returns the nodes whose ranks were started, and an unknown for each other node. gpu-computes
// reports these unknowns unless gpu-computes is switched off.
func took(view checks.View, check string) (nodes []*facts.Node, found []checks.Finding) {
	for _, node := range view.Nodes {
		if node.Smoke.Refused == "" {
			nodes = append(nodes, node)
			continue
		}
		f := checks.UnknownFor(node, "the smoke test did not run: "+node.Smoke.Refused)
		f.Explained = check != computesID && !view.Policy.SwitchesOff(computesID)
		found = append(found, f)
	}
	return nodes, found
}

// leftTo returns an unknown for a node whose failure another check reports.
func leftTo(node *facts.Node, check string) checks.Finding {
	f := checks.UnknownFor(node, "the test did not get that far: see "+check)
	f.Explained = true
	return f
}

// timeUp returns an unknown for a node on which no time was left for a test.
func timeUp(node *facts.Node, what string) checks.Finding {
	f := checks.UnknownFor(node, "no time was left to test "+what)
	f.Remedy = []fix.Command{fix.Note("give the smoke test more time, for example --smoke-time=120s")}
	return f
}

// ranked names a rank by its device, or by its number if the rank has no device.
func ranked(node *facts.Node, local int) string {
	i := slices.IndexFunc(node.Smoke.Ranks, func(rank facts.SmokeRank) bool { return rank.LocalRank == local })
	if i < 0 || node.Smoke.Ranks[i].Device < 0 {
		return fmt.Sprintf("local rank %d", local)
	}
	rank := node.Smoke.Ranks[i]
	return fmt.Sprintf("GPU %d (%s)", rank.Device, cmp.Or(rank.Address, "address unknown"))
}

// happened describes the failure of a rank. The text includes the most informative line of the
// library's log.
func happened(failure facts.SmokeFailure) string {
	text := failure.Call
	switch failure.Kind {
	case facts.SmokeHang:
		text = "hangs in " + text
	case facts.SmokeStuck:
		text = "is stuck in " + text + " and ignores signals"
	case facts.SmokeCrash:
		text = "ended in " + text
	case facts.SmokeWrong:
		text += " gave a wrong answer"
	}
	if failure.Element != nil {
		text += fmt.Sprintf(": element %d is %s", *failure.Element, number(failure.Got))
		if failure.Want != nil {
			text += " and should be " + number(failure.Want)
		}
	}
	if failure.Message != "" {
		text += ": " + failure.Message
	}
	if line := telling(failure); line != "" && !strings.Contains(text, line) {
		text += "; " + line
	}
	return text
}

// number formats a value. nil stands for NaN, which JSON cannot express.
func number(value *float64) string {
	if value == nil {
		return "NaN"
	}
	return strconv.FormatFloat(*value, 'g', -1, 64)
}

// allHappened describes the failures of a node. It describes equal failures only once.
func allHappened(node *facts.Node, failures []facts.SmokeFailure) string {
	var texts []string
	met := map[string][]string{}
	for _, failure := range failures {
		text := happened(failure)
		if met[text] == nil {
			texts = append(texts, text)
		}
		if rank := ranked(node, failure.LocalRank); !slices.Contains(met[text], rank) {
			met[text] = append(met[text], rank)
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(met[text], ", ") + ": " + text
	}
	return strings.Join(texts, "; ")
}

// areAbsent reports whether all failures mean that the library for the test is missing. Such
// failures say nothing about the node.
func areAbsent(failures []facts.SmokeFailure) bool {
	return len(failures) > 0 && !slices.ContainsFunc(failures, func(f facts.SmokeFailure) bool { return f.Kind != facts.SmokeAbsent })
}

// wayOut returns an unknown whose remedy says how to run the test with another engine.
func wayOut(view checks.View, node *facts.Node, failures []facts.SmokeFailure) checks.Finding {
	f := checks.UnknownFor(node, "cannot run the test: "+failures[0].Call+": "+failures[0].Message)
	switch {
	case node.Smoke.Engine == "direct":
		f.Remedy = []fix.Command{fix.Note("use the other engine with --smoke=torch, and name the interpreter of the launch with --python")}
	case view.Launch.Accelerator == "cpu": // the other engine supports only GPUs
		f.Remedy = []fix.Command{fix.Note("name the interpreter of the launch with --python")}
	default:
		f.Remedy = []fix.Command{fix.Note("use the other engine with --smoke=direct, or name the interpreter of the launch with --python")}
	}
	return f
}

// share returns the rate as a percentage of another rate.
func share(rate, of float64) string { return fmt.Sprintf("%.0f %%", 100*rate/of) }

// stated returns the text of Want for a minimum rate that the policy sets.
func stated(least, setting string) string {
	return fmt.Sprintf("at least %s (policy %s)", least, setting)
}
