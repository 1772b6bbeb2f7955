package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

// essential is a fact of a GPU that a check cannot do without: whether a GPU lacks it,
// and the calls of NVML that would tell it, up to the number of their version.
type essential struct {
	untold func(*facts.Card) bool
	calls  []string
}

// refusedFacts is an unknown of a node whose driver refused to tell essential facts of
// GPUs, as it does to a session without the rights. What a GPU or its driver does not
// have is no refusal, and lacks nothing. Calls that failed for another reason are
// gpu-healthy's finding, unless it is switched off.
func refusedFacts(view View, node *facts.Node, cards []*facts.Card, essentials ...essential) []Finding {
	explained := !view.Policy.SwitchesOff("gpu-healthy")
	var calls []string
	var silent []*facts.Card
	for _, card := range cards {
		if len(card.Refused) == 0 || card.MIG == "enabled" { // whose instances have the facts, and their owners the rights
			continue
		}
		for _, fact := range essentials {
			for _, refusal := range card.Refused {
				if !fact.untold(card) || !slices.Contains(fact.calls, withoutVersion(refusal.Call)) {
					continue
				}
				explained = explained && refusal.Kind != facts.FailureNoPermission
				if text := refusal.Call + ": " + shown(refusal.Text); !slices.Contains(calls, text) {
					calls = append(calls, text)
				}
				if !slices.Contains(silent, card) {
					silent = append(silent, card)
				}
			}
		}
	}
	if silent == nil {
		return nil
	}
	f := unknown(node, fmt.Sprintf("the driver refuses to tell %s of %s", strings.Join(calls, ", "), gpuNames(silent)))
	f.Explained = explained
	return []Finding{f}
}

// withoutVersion is the name of a call without the number of its version.
func withoutVersion(call string) string {
	name, _, _ := strings.Cut(call, "_v")
	return name
}

// Facts that several checks cannot do without.
var (
	memoryTold = essential{func(card *facts.Card) bool { return card.Memory == 0 }, []string{"nvmlDeviceGetMemoryInfo"}}
	linksTold  = essential{func(card *facts.Card) bool { return card.NVLinks == nil }, []string{"nvmlDeviceGetNvLinkState"}}
)
