package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

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
	log := fix.On("sudo dmesg -T | grep -i xid   # what the driver said of it")
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
		Remedy:   []fix.Command{log, rebootNode.Remark("; if it is lost again: power off and on, reseat or replace the GPU"), withoutNode},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind(facts.FailureLost)}, {Finding{
		Summary:  "a GPU works again only after a reset",
		Want:     "every GPU answers",
		Remedy:   []fix.Command{log, resetGPU, withoutNode},
		WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
	}, kind(facts.FailureReset)}, {Finding{
		Summary:  "the driver gives no answer for a GPU",
		Want:     "every GPU answers",
		Remedy:   []fix.Command{log, fix.On("nvidia-smi -q -i {gpus}"), rebootNode, withoutNode},
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
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -i {gpus}   # which values are ERR! or Unknown Error, and do they stay so?"), fix.On("sudo dmesg -T | grep -i xid")},
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
