package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

var gpuHealthy = Check{
	ID:       "gpu-healthy",
	Title:    "no GPU is lost, has memory errors that cannot be corrected, waits for a repair or reported a fault of its own today",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Doc: "A GPU that the driver lost counts whether or not a rank is to use it, as CUDA looks at all of them first. Of the others those are looked at that ranks will use: " +
		"uncorrectable errors since the driver was loaded, rows that could not be remapped, rows or pages that wait for a reset, pages retired up to the limit, " +
		"floods of corrected errors, error correction that is off where other GPUs of the model have it on, and the driver's Xid messages of the last 24 hours that mean " +
		"the hardware or its firmware, not an application. Errors of an earlier day that were repaired (aggregate counters, remapped rows) are nobody's trouble. " +
		"Where the driver tells no recovery action, the log is asked for one, and where the log is for root only, as on most distributions, Xids are not looked at. " +
		"What the driver refuses to tell of a GPU that answers otherwise is warned of: the GPU may well compute.",
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := launchCards(view)
		memory := append(memoryRules, eccRules(usual(nodes, cardsOf, eccMode))...)
		for _, node := range nodes {
			findings = append(findings, unanswering(node)...)
			findings = append(findings, refusedFacts(view, node, cardsOf(node), healthTold...)...)
			rules := append(slices.Clip(memory), correctedFlood(node))
			findings = append(findings, firstOf(node, cardsOf(node), slices.Concat(rules, recoveryRules, xidRules(node), []cardRule{refusedCalls}))...)
		}
		return findings
	},
}

// healthTold is what the memory of a GPU is judged by.
var healthTold = []essential{
	{func(card *facts.Card) bool { return card.ECC == nil || card.ECC.Uncorrected == nil }, []string{"nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors"}},
	{func(card *facts.Card) bool { return card.Remapped == nil }, []string{"nvmlDeviceGetRemappedRows"}},
	{func(card *facts.Card) bool { return card.Retired == nil }, []string{"nvmlDeviceGetRetiredPages"}},
}

// whyUnusable is the failure that keeps ranks off a GPU, nil for none. One that cannot
// even tell the size of its memory is no healthy one with a sick sensor, unless it is
// our rights that lack.
func whyUnusable(card *facts.Card) *facts.NVMLFailure {
	if card.Failure != nil {
		return card.Failure
	}
	for i, refusal := range card.Refused {
		if memoryTold.untold(card) && slices.Contains(memoryTold.calls, withoutVersion(refusal.Call)) && refusal.Kind != facts.FailureNoPermission {
			return &card.Refused[i]
		}
	}
	return nil
}

// unanswering finds GPUs that ranks cannot use, by what calls to the driver said.
func unanswering(node *facts.Node) []Finding {
	var failed []*facts.Card
	for i := range node.NVML.Cards {
		if card := &node.NVML.Cards[i]; whyUnusable(card) != nil {
			failed = append(failed, card)
		}
	}
	const log = "{ssh} 'sudo dmesg -T | grep -i xid'   # what the driver said of it"
	kind := func(words ...string) func(*facts.Card) string {
		return func(card *facts.Card) string {
			failure := whyUnusable(card)
			if words != nil && !slices.Contains(words, failure.Kind) {
				return ""
			}
			return fmt.Sprintf("%s says %q", cmp.Or(failure.Call, "the driver"), failure.Text)
		}
	}
	return firstOf(node, failed, []cardRule{{Finding{
		Summary:  "a GPU has fallen off the bus",
		Want:     "every GPU answers",
		Fix:      []string{log, rebootNode + "; if it is lost again: power off and on, reseat or replace the GPU", withoutNode},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind(facts.FailureLost)}, {Finding{
		Summary:  "a GPU works again only after a reset",
		Want:     "every GPU answers",
		Fix:      []string{log, resetGPU, withoutNode},
		WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
	}, kind(facts.FailureReset)}, {Finding{
		Summary:  "the driver gives no answer for a GPU",
		Want:     "every GPU answers",
		Fix:      []string{log, "{ssh} nvidia-smi -q -i {gpus}", rebootNode, withoutNode},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind()}})
}

// refusedCalls is of a GPU that answers, and of which some call fails all the same: a
// sensor, a counter, the record of its making. A power sensor does so now and then on
// healthy GPUs, and a damaged infoROM keeps nobody from computing. What takes
// rights of its own is nobody's trouble.
//
// Source: Azure/azhpc-diagnostics, issue 77.
var refusedCalls = cardRule{Finding{
	Verdict:  Warn,
	Summary:  "the driver answers for a GPU, and cannot tell all of it",
	Want:     "every call answered; if it stays so: reset the GPU, and have it looked at if it does not compute",
	Fix:      []string{"{ssh} nvidia-smi -q -i {gpus}   # which values are ERR! or Unknown Error, and do they stay so?", "{ssh} 'sudo dmesg -T | grep -i xid'"},
	WouldSee: "nothing as a rule: a value that is missing in monitoring",
}, func(card *facts.Card) string {
	if whyUnusable(card) != nil {
		return ""
	}
	var calls []string
	for _, failure := range card.Refused {
		if failure.Kind != facts.FailureNoPermission {
			calls = append(calls, fmt.Sprintf("%s says %q", cmp.Or(failure.Call, "the driver"), failure.Text))
		}
	}
	return strings.Join(calls, ", ")
}}
