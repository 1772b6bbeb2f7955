package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var Healthy = checks.Check{
	ID:       "gpu-healthy",
	Title:    "no GPU is lost, has memory errors that cannot be corrected, waits for a repair or reported a fault of its own today",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Volatile: true,
	Doc: "A GPU that the driver lost counts whether or not a rank is to use it, as CUDA looks at all of them first. Of the others those are looked at that ranks will use: " +
		"uncorrectable errors since the driver was loaded, rows that could not be remapped, rows or pages that wait for a reset, pages retired up to the limit, " +
		"floods of corrected errors, error correction that is off where other GPUs of the model have it on, and the driver's Xid messages of the last 24 hours that mean " +
		"the hardware or its firmware, not an application. Errors of an earlier day that were repaired (aggregate counters, remapped rows) are nobody's trouble. " +
		"Where the driver tells no recovery action, the log is asked for one, and where the log is for root only, as on most distributions, Xids are not looked at. " +
		"What the driver refuses to tell of a GPU that answers otherwise is warned of: the GPU may well compute.",
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := usedCards(view)
		memory := append(memoryRules, eccRules(usual(nodes, cardsOf, eccMode))...)
		for _, node := range nodes {
			findings = append(findings, unanswering(node)...)
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForHealth...)...)
			rules := append(slices.Clip(memory), correctedFlood(node))
			findings = append(findings, firstOf(node, cardsOf(node), slices.Concat(rules, recoveryRules, xidRules(node), []cardRule{refusedCalls}))...)
		}
		return findings
	},
}

// neededForHealth is what the memory of a GPU is judged by.
var neededForHealth = []essential{
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
		if neededForMemory.missing(card) && slices.Contains(neededForMemory.calls, withoutVersion(refusal.Call)) && refusal.Kind != facts.FailureNoPermission {
			return &card.Refused[i]
		}
	}
	return nil
}

// unanswering finds GPUs that ranks cannot use, by what calls to the driver said.
func unanswering(node *facts.Node) []checks.Finding {
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
	return firstOf(node, failed, []cardRule{{checks.Finding{
		Summary:  "a GPU has fallen off the bus",
		Want:     "every GPU answers",
		Remedy:   []fix.Command{log, rebootNode.Remark("; if it is lost again: power off and on, reseat or replace the GPU"), withoutNode},
		WouldSee: "RuntimeError: CUDA error: unknown error",
	}, kind(facts.FailureLost)}, {checks.Finding{
		Summary:  "a GPU works again only after a reset",
		Want:     "every GPU answers",
		Remedy:   []fix.Command{log, resetGPU, withoutNode},
		WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
	}, kind(facts.FailureReset)}, {checks.Finding{
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
var refusedCalls = cardRule{checks.Finding{
	Verdict:  checks.Warn,
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

// recoveryChanged is the Xid by which drivers since 555 say what a GPU needs now:
// "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)". A GPU
// that the module finds anew begins without a word: of a reset that cured it the
// log says nothing, and what the driver tells when it is asked goes before.
//
// Source: NVIDIA/open-gpu-kernel-modules 570, gpu.c, gpuPostConstruct.
const recoveryChanged = 154

// recoveryWords are what the driver may want done about a GPU.
//
// Source: NVML 12.8, nvmlDeviceGpuRecoveryAction_t.
var recoveryWords = map[string]string{
	"reset":           "GPU reset required",
	"reboot":          "node reboot required",
	"drain":           "traffic with other GPUs is to be stopped",
	"drain-and-reset": "GPU reset required once its work is done",
	"other":           "an action that this preflight does not know",
}

// recoveryRules judge GPUs by what the driver says when it is asked. One that is to
// be reset once its work is done computes until then.
var recoveryRules = []cardRule{{checks.Finding{
	Summary:  "the driver says that a GPU needs recovery",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), resetGPU, withoutNode},
	WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
}, recoveryOf("reset", "drain")}, {checks.Finding{
	Summary:  "the driver says that a GPU needs its machine rebooted",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), rebootNode, withoutNode},
	WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
}, recoveryOf("reboot")}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "the driver wants a GPU reset before long",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), fix.On("nvidia-smi -q -i {gpus}   # GPU Recovery Action"), resetGPU},
	WouldSee: "nothing as a rule, until what is broken in it is needed",
}, recoveryOf("drain-and-reset", "other")}}

func recoveryOf(actions ...string) func(*facts.Card) string {
	return func(card *facts.Card) string {
		if !slices.Contains(actions, card.Recovery) {
			return ""
		}
		return recoveryWords[card.Recovery]
	}
}
