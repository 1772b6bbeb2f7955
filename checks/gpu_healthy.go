package checks

import (
	"slices"

	"preflight/facts"
)

var gpuHealthy = Check{
	ID:       "gpu-healthy",
	Title:    "no GPU is lost, has memory errors that cannot be corrected, waits for a repair or reported a fault of its own today",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Volatile: true,
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
