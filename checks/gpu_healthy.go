package checks

import (
	"cmp"
	"fmt"
	"slices"

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
		"Where the kernel log is for root only, as on most distributions, Xids are not looked at.",
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := launchCards(view)
		memory := append(memoryRules, eccRules(usual(nodes, cardsOf, eccMode))...)
		for _, node := range nodes {
			findings = append(findings, unanswering(node)...)
			rules := append(slices.Clip(memory), correctedFlood(node))
			findings = append(findings, firstOf(node, cardsOf(node), append(rules, xidRules(node)...))...)
		}
		return findings
	},
}

// unanswering finds GPUs of which a call to the driver failed.
func unanswering(node *facts.Node) []Finding {
	var failed []*facts.Card
	for i := range node.NVML.Cards {
		if card := &node.NVML.Cards[i]; card.Failure != nil {
			failed = append(failed, card)
		}
	}
	const log = "{ssh} 'sudo dmesg -T | grep -i xid'   # what the driver said of it"
	kind := func(words ...string) func(*facts.Card) string {
		return func(card *facts.Card) string {
			if words != nil && !slices.Contains(words, card.Failure.Kind) {
				return ""
			}
			return fmt.Sprintf("%s says %q", cmp.Or(card.Failure.Call, "the driver"), card.Failure.Text)
		}
	}
	return firstOf(node, failed, []cardRule{{Finding{
		Summary:  "a GPU has fallen off the bus",
		Want:     "every GPU answers",
		Fix:      []string{log, "{ssh} sudo reboot   # if it is lost again: power the machine off and on, reseat or replace the GPU"},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind(facts.FailureLost)}, {Finding{
		Summary:  "a GPU works again only after a reset",
		Want:     "every GPU answers",
		Fix:      []string{log, "{ssh} sudo nvidia-smi --gpu-reset -i {gpus}   # once nothing uses it; GPUs behind NVSwitches of the first generations are reset all at once", "{ssh} sudo reboot   # if the reset is refused"},
		WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
	}, kind(facts.FailureReset)}, {Finding{
		Summary:  "the driver gives no answer for a GPU",
		Want:     "every GPU answers",
		Fix:      []string{log, "{ssh} nvidia-smi -q -i {gpus}", "{ssh} sudo reboot"},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind()}})
}
