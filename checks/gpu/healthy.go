// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

var Healthy = checks.Check{
	ID:       "gpu-healthy",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := usedCards(view)
		rules := slices.Concat(memoryRules, eccRules(usual(nodes, cardsOf, eccMode)), correctedFlood, recoveryRules)
		for _, node := range nodes {
			findings = append(findings, unusable(node)...)
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForHealth...)...)
			findings = append(findings, firstOf(node, cardsOf(node), rules, xidRules(node), refusedCalls)...)
		}
		return inMakersWords(view, uncorrectable, findings)
	},
}

const uncorrectable = "RuntimeError: CUDA error: uncorrectable ECC error encountered"

var neededForHealth = []essential{
	{func(card *facts.Card) bool { return card.ECC == nil || card.ECC.Uncorrected == nil }, []string{"nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors", facts.CallRAS}},
	{func(card *facts.Card) bool { return card.Remapped == nil }, []string{"nvmlDeviceGetRemappedRows"}},
	{func(card *facts.Card) bool { return card.Retired == nil }, []string{"nvmlDeviceGetRetiredPages"}},
}

// whyUnusable returns the failure that prevents ranks from using a GPU, or nil for none. A GPU that
// cannot report the size of its memory is unusable, because more than a sensor must be broken. It
// does not count if the call failed because of insufficient rights.
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

// unusable returns the findings for GPUs that ranks cannot use according to the results of driver
// calls.
func unusable(node *facts.Node) []checks.Finding {
	var failed []*facts.Card
	for i := range node.NVML.Cards {
		if card := &node.NVML.Cards[i]; whyUnusable(card) != nil {
			failed = append(failed, card)
		}
	}
	if failed == nil {
		return nil
	}
	rule := func(summary, wouldSee string, repair []fix.Command, kinds ...string) cardRule {
		return cardRule{checks.Finding{
			Summary:  summary,
			Want:     "an answer from every GPU",
			Remedy:   slices.Concat([]fix.Command{xidLog.Remark("shows what the driver reported")}, repair, []fix.Command{withoutNode}),
			WouldSee: wouldSee,
		}, func(_ *facts.Node, card *facts.Card) string {
			failure := whyUnusable(card)
			if kinds == nil || slices.Contains(kinds, failure.Kind) {
				return answerOf(*failure)
			}
			return ""
		}}
	}
	const unknown = "RuntimeError: CUDA error: unknown error"
	findings := firstOf(node, failed, []cardRule{
		rule("a GPU has fallen off the bus", unknown, []fix.Command{rebootNode.Remark("; if the GPU is lost again, switch the machine off and on, then reseat or replace the GPU")}, facts.FailureLost),
		rule("a GPU needs a reset before it works again", busyCUDA, []fix.Command{resetGPU}, facts.FailureReset),
		rule("the driver gives no answer for a GPU", unknown, []fix.Command{fix.On("nvidia-smi -q -i {gpus}").As(fix.Look), rebootNode}),
	})
	for i := range findings {
		for _, card := range failed {
			findings[i].Covers = append(findings[i].Covers, fmt.Sprintf("nvml.cards.%d", card.Index), "nvml.topology")
		}
	}
	return findings
}

// refusedCalls lists the rules for a GPU that answers although some calls fail: for a sensor, a
// counter or the infoROM. These are warnings, because a power sensor sometimes fails on healthy
// GPUs, and a GPU with a damaged infoROM still computes. Calls that need special rights do not
// count.
//
// Source: Azure/azhpc-diagnostics, issue 77.
var refusedCalls = []cardRule{{checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "the driver cannot report some values of a GPU",
	Want:     "an answer to every call",
	Remedy:   []fix.Command{showRefused, xidLog, fix.Note("if it persists, reset the GPU; have the GPU checked if it does not compute")},
	WouldSee: "usually nothing; a value is missing from your monitoring",
}, func(_ *facts.Node, card *facts.Card) string {
	if whyUnusable(card) != nil {
		return ""
	}
	var calls []string
	for _, failure := range card.Refused {
		if failure.Kind != facts.FailureNoPermission {
			calls = append(calls, answerOf(failure))
		}
	}
	return strings.Join(calls, ", ")
}}}

func answerOf(failure facts.NVMLFailure) string {
	return fmt.Sprintf("%s returned %q", cmp.Or(failure.Call, "the driver"), failure.Text)
}

// recoveryChanged is the Xid with which drivers since 555 report the recovery action of a GPU: "GPU
// recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)". After a reset, the module
// finds a new GPU and logs nothing. Therefore the recovery action that the driver reports now
// outweighs the log.
//
// Source: NVIDIA/open-gpu-kernel-modules 570, gpu.c, gpuPostConstruct.
const recoveryChanged = 154

// recoveryActions maps the recovery actions that a driver may report for a GPU to their
// descriptions.
//
// Source: NVML of the drivers 570 to 615, nvmlDeviceGpuRecoveryAction_t.
var recoveryActions = map[string]string{
	"reset":           "GPU reset required",
	"reboot":          "node reboot required",
	"drain":           "traffic with other GPUs must stop",
	"drain-and-reset": "GPU reset required when its work is done",
	"recover-imex":    "IMEX, which shares memory with other machines, must be recovered",
	"bus-reset":       "PCI bus reset required",
	"system-reboot":   "system reboot required",
	"other":           "an action that preflight does not know",
}

// recoveryRules lists the rules for the recovery action that the driver reports now. If a GPU needs
// a reset only after its work is done, it can still compute, so that is only a warning.
var recoveryRules = []cardRule{
	recovery("", "the driver reports that a GPU needs recovery", busyCUDA, []fix.Command{resetGPU, withoutNode}, "reset", "drain"),
	recovery("", "the driver reports that a GPU needs a reboot of the node", busyCUDA, []fix.Command{rebootNode, withoutNode}, "reboot", "bus-reset", "system-reboot"),
	recovery(checks.Warn, "the driver reports that a GPU needs IMEX to be set up again", "nothing on this machine; NVLink to other machines fails",
		[]fix.Command{fix.On("nvidia-imex-ctl -N").As(fix.Look), fix.On("sudo systemctl restart nvidia-imex   # on all machines of the NVLink domain, when no job runs there")}, "recover-imex"),
	recovery(checks.Warn, "the driver recommends to reset a GPU soon", "usually nothing, until the broken part of the GPU is needed",
		[]fix.Command{fix.On("nvidia-smi -q -i {gpus}   # see GPU Recovery Action").As(fix.Look), resetGPU}, "drain-and-reset", "other"),
}

func recovery(verdict checks.Verdict, summary, wouldSee string, remedy []fix.Command, actions ...string) cardRule {
	return cardRule{checks.Finding{
		Verdict:  verdict,
		Summary:  summary,
		Want:     "no pending recovery action",
		Remedy:   append([]fix.Command{xidLog}, remedy...),
		WouldSee: wouldSee,
	}, func(_ *facts.Node, card *facts.Card) string {
		if slices.Contains(actions, card.Recovery) {
			return recoveryActions[card.Recovery]
		}
		return ""
	}}
}

// retiredLimit is the number of retired pages at or above which NVIDIA accepts a GPU for repair.
// The GPU's list of retired pages has room for 64.
//
// Source: NVIDIA/DCGM 3, dcgm_gpu_hardware_limits.h, DCGM_LIMIT_MAX_RETIRED_PAGES; NVIDIA, Dynamic
// Page Retirement.
const retiredLimit = 60

// remappedLimit is the number of rows remapped because of uncorrectable errors from which DCGM
// warns.
//
// Source: NVIDIA/DCGM of 2026-07, DcgmGPUHardwareLimits.h, DCGM_LIMIT_MAX_ROW_REMAP_UNCORRECTABLE;
// Azure/azurehpc-health-checks fails above it.
const remappedLimit = 512

// floodPerDay is the number of corrected errors from which the check warns. Both the number per day
// and the total number must reach it. Correcting so many errors costs time and often ends in an
// uncorrectable error.
const floodPerDay = 10_000

var (
	showECC     = fix.On("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpus}   # replace the GPU if errors return").As(fix.Look)
	showRefused = fix.On("nvidia-smi -q -i {gpus}   # shows which values are ERR! or Unknown Error").As(fix.Look)
	showFlood   = fix.On("nvidia-smi -q -d ECC -i {gpus}").As(fix.Look)
)

// memoryRules lists the rules for GPU memory, the gravest fault first. A row that waits to be
// remapped is only a warning, because the driver does not use the row's page until the reset.
//
// Source: NVIDIA, GPU Memory Error Management, r550; NVML 12, nvmlDeviceGetRemappedRows.
var memoryRules = []cardRule{{checks.Finding{
	Summary:  "a GPU has no spare memory rows left to replace broken ones",
	Want:     "no failed row remap",
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -d ROW_REMAPPER,ECC -i {gpus}").As(fix.Look), fix.Note("have the GPU replaced: NVIDIA accepts a failed remap as a reason"), withoutNode},
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
}, func(_ *facts.Node, card *facts.Card) string {
	rows := valueOf(card.Remapped)
	return when(rows.Failed, "row remapping failed, after %s", counted{int64(rows.Corrected + rows.Uncorrected), "remapped row"})
}}, {checks.Finding{
	Summary: "a GPU had uncorrectable memory errors and was not reset since",
	Want:    "no uncorrectable error since the driver was loaded",
	Remedy:  []fix.Command{resetGPU, showECC, withoutNode},
}, func(_ *facts.Node, card *facts.Card) string {
	errors := valueOf(valueOf(card.ECC).Uncorrected)
	return when(errors > 0, "%s%s", counted{errors, "uncorrectable error"}, when(valueOf(card.Remapped).Pending, ", a row waits to be remapped"))
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "a GPU needs a reset to repair its memory",
	Want:     "no pending repair",
	Remedy:   []fix.Command{resetGPU},
	WouldSee: "nothing until that memory is used again, then uncorrectable ECC error encountered",
}, func(_ *facts.Node, card *facts.Card) string {
	return cmp.Or(when(valueOf(card.Remapped).Pending, "a row waits to be remapped"), when(valueOf(card.Retired).Pending, "a page waits to be retired"))
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "a GPU had so many memory errors that NVIDIA recommends a diagnosis",
	Want:     fmt.Sprintf("fewer than %d rows remapped for uncorrectable errors, and SRAM errors below the threshold", remappedLimit),
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -d ROW_REMAPPER,ECC -i {gpus}").As(fix.Look), fix.Note("have the GPU replaced if NVIDIA's field diagnostic recommends it")},
	WouldSee: "at the next uncorrectable memory error: RuntimeError: CUDA error: uncorrectable ECC error encountered",
}, func(_ *facts.Node, card *facts.Card) string {
	rows := valueOf(card.Remapped).Uncorrected
	return cmp.Or(when(rows >= remappedLimit, "%d rows remapped for uncorrectable errors", rows), when(valueOf(valueOf(card.ECC).SRAMExceeded), "SRAM errors exceed the threshold"))
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "a GPU has retired nearly all memory pages that it can retire",
	Want:     fmt.Sprintf("fewer than %d retired pages (a GPU can retire at most 64)", retiredLimit),
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -d PAGE_RETIREMENT -i {gpus}").As(fix.Look), fix.Note("have the GPU replaced")},
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered, at the next bad page",
}, func(_ *facts.Node, card *facts.Card) string {
	pages := valueOf(card.Retired)
	total := pages.SingleBit + pages.DoubleBit
	return when(total >= retiredLimit, "%d retired pages, %d of them for double-bit errors", total, pages.DoubleBit)
}}}

// correctedFlood lists the rules for many corrected errors per day. The number of errors is divided
// by the machine's uptime. The counters run since the driver was loaded, which cannot be longer ago
// than the boot.
var correctedFlood = []cardRule{{checks.Finding{
	Verdict:  checks.Warn,
	Summary:  fmt.Sprintf("a GPU corrects more than %d memory errors a day", floodPerDay),
	Want:     fmt.Sprintf("fewer than %d corrected errors a day", floodPerDay),
	Remedy:   []fix.Command{showFlood, resetGPU},
	WouldSee: "no message: the GPU is slower than the others; often uncorrectable errors later",
}, func(node *facts.Node, card *facts.Card) string {
	errors := valueOf(valueOf(card.ECC).Corrected)
	return when(float64(errors) >= floodPerDay*max(uptime(node)/86400, 1), "%s since the driver was loaded", counted{errors, "corrected error"})
}}}

// eccMode returns 2 if ECC is on, 1 if ECC is off, and 0 if the GPU has no ECC.
func eccMode(card *facts.Card) int64 {
	switch {
	case card.ECC == nil:
		return 0
	case card.ECC.Enabled:
		return 2
	}
	return 1
}

// eccRules returns the rules for ECC itself: ECC is off on only some GPUs of a model, or it will
// change at the next reset. ECC that is off on all GPUs of a model is a choice.
func eccRules(common map[string]int64) []cardRule {
	return []cardRule{{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "ECC is off, but on for other GPUs of the model",
		Want:     "ECC on everywhere: a wrong result of one GPU is averaged into all weights",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -e 1 -i {gpus}"), resetGPU.As(fix.Then)},
		WouldSee: "no message: a flipped bit makes the loss jump, or become NaN",
	}, func(_ *facts.Node, card *facts.Card) string {
		return when(eccMode(card) == 1 && common[card.Name] == 2, "ECC off")
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the ECC mode and the memory size of a GPU change at the next reset",
		Want:     "no pending change",
		Remedy:   []fix.Command{resetGPU},
		WouldSee: "nothing now; after a reboot during training, the GPU has a different memory size",
	}, func(_ *facts.Node, card *facts.Card) string {
		onOff := map[bool]string{true: "on", false: "off"}
		now := valueOf(card.ECC)
		return when(now.Pending != nil && *now.Pending != now.Enabled, "ECC %s now, %s after the next reset", onOff[now.Enabled], onOff[!now.Enabled])
	}}}
}

// xidWindow is the greatest age, in seconds, at which an Xid still counts.
const xidWindow = 86400

// hardwareXids maps the numbers of driver messages that mean a fault of the GPU, its links or its
// firmware to descriptions. The table leaves out Xids of applications (13, 31, 43, 45 …) and Xids
// that NVIDIA says to ignore (92, 137 …). It also leaves out Xids whose fault a counter shows while
// the fault lasts (63, 94).
//
// Source: NVIDIA, Analyzing Xid Errors with the Xid Catalog, 2025, immediate action RESET_GPU,
// RESTART_BM, CHECK_MECHANICALS or a workflow of hardware.
var hardwareXids = map[int]string{
	46:  "the GPU stopped processing",
	48:  "a double-bit memory error",
	54:  "auxiliary power is not connected",
	62:  "the GPU's micro-controller halted",
	64:  "a row could not be remapped",
	74:  "an NVLink error",
	79:  "the GPU fell off the bus",
	95:  "an uncontained memory error",
	109: "a context switch timed out",
	110: "a security fault",
	119: "the GPU's firmware (GSP) did not answer",
	120: "the GPU's firmware (GSP) failed",
	136: "an NVLink could not be trained",
	140: "a memory error without recovery",
	143: "the GPU could not be initialised",
	144: "an NVLink error (SAW)",
	145: "an NVLink error (RLW)",
	146: "an NVLink error (TLW)",
	147: "an NVLink error (TREX)",
	148: "an NVLink error (NVLPW_CTRL)",
	149: "an NVLink error (NETIR)",
	150: "an NVLink error (MSE)",
	155: "a software-defined NVLink error",
	156: "a part of the GPU was retired",
	158: "a fatal timeout of the GPU",
	167: "a fatal timeout of PCIe",
	168: "less memory, because of errors in the firmware's region",
	169: "the GPU's security processor halted",
	171: "an uncorrectable DRAM error",
	172: "an uncorrectable SRAM error",
}

// gradedXids lists the Xids of NVLink 5 whose text contains Fatal or Nonfatal. A link that is
// coming up may report Nonfatal.
//
// Source: as above, NVLink 5 Xids 144 to 150, severity.
var gradedXids = []int{144, 145, 146, 147, 148, 149, 150}

func meansHardware(xid facts.Xid) bool {
	return hardwareXids[xid.Code] != "" && (!slices.Contains(gradedXids, xid.Code) || slices.Contains(strings.Fields(xid.Text), "Fatal"))
}

// resetXids lists the Xids after which a GPU does not work until the GPU is reset or its machine is
// restarted.
//
// Source: as above, immediate action RESET_GPU and RESTART_BM, and workflow 48; in NVIDIA/DCGM of
// 2026-07, DcgmHealthWatch.cpp, BuildXidMappings, 48, 79, 95, 119, 120 and 140 always fail a GPU.
var resetXids = []int{46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158}

// memoryXids lists the Xids for which the GPU also has a counter. If the driver reports the
// counter, memoryRules check the counter instead of the Xid, because a counter of 0 means that the
// GPU was reset.
var memoryXids = []int{48, 95, 140}

// unreset returns the Xids of a GPU that only a reset clears, if preflight cannot know whether the
// GPU was reset. The log does not report resets, and drivers before 555 report no recovery action.
func unreset(card *facts.Card, xids []facts.Xid) []facts.Xid {
	if card.Recovery != "" {
		return nil
	}
	counted := valueOf(card.ECC).Uncorrected != nil
	linkDown := len(valueOf(card.NVLinks).Down) > 0
	return compare.Without(xids, func(xid facts.Xid) bool {
		return !slices.Contains(resetXids, xid.Code) && !(xid.Code == nvLinkError && linkDown) || counted && slices.Contains(memoryXids, xid.Code)
	})
}

// nvLinkError is the Xid of an NVLink error. The link may be up again.
const nvLinkError = 74

// xidRules returns the rules that check a node's GPUs with the kernel log of the node. A fault that
// may need no reset, or that a reset may have cleared, is only a warning.
func xidRules(node *facts.Node) []cardRule {
	if len(node.GPU.Xids) == 0 {
		return nil
	}
	needs, recent := xidsByGPU(node)
	return []cardRule{{checks.Finding{
		Summary:  "a GPU had a fault that needs a reset, and this driver does not report resets",
		Want:     "no such Xid since the module was loaded; if the GPU was reset since, waive this finding until tomorrow",
		Remedy:   []fix.Command{xidLog, resetGPU, withoutNode},
		WouldSee: busyCUDA,
	}, func(_ *facts.Node, card *facts.Card) string {
		return recentXids(unreset(card, recent[slotOf(card.Address)]))
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "a GPU needed recovery, and the driver does not report whether it still does",
		Want:     "no pending recovery action; a reset of the GPU or a reload of the driver since then settles this",
		Remedy:   []fix.Command{xidLog, resetGPU, rebootNode.Remark(", if the log says Node Reboot Required")},
		WouldSee: busyCUDA,
	}, func(_ *facts.Node, card *facts.Card) string { return needs[slotOf(card.Address)] }}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the driver reported a fault of a GPU in the last 24 hours",
		Want:     "no Xid that means a hardware fault; a reset of the GPU since then settles this",
		Remedy:   []fix.Command{xidLog, resetGPU, fix.On("dcgmi diag -r 2   # shows whether the fault returns under load").As(fix.Look)},
		WouldSee: "NVRM: Xid in the kernel log, and a collective that hangs",
	}, func(_ *facts.Node, card *facts.Card) string { return recentXids(recent[slotOf(card.Address)]) }}}
}

// xidsByGPU returns two maps by PCI slot. needs holds the recovery action that the log leaves
// pending. recent holds the recent Xids that mean a hardware fault. recoveryRules check the
// recovery action that the driver itself reports.
//
// A completed recovery clears everything that the log has before it. Either the log shows the
// recovery, or the driver reports that no action is pending now.
func xidsByGPU(node *facts.Node) (needs map[string]string, recent map[string][]facts.Xid) {
	needs, recent = map[string]string{}, map[string][]facts.Xid{}
	reported := map[string]string{}
	for i := range node.NVML.Cards {
		reported[slotOf(node.NVML.Cards[i].Address)] = node.NVML.Cards[i].Recovery
	}
	oldestFirst := slices.SortedStableFunc(slices.Values(node.GPU.Xids), func(a, b facts.Xid) int { return cmp.Compare(b.Age, a.Age) })
	for _, xid := range oldestFirst {
		slot := slotOf(xid.Address)
		if xid.Code == recoveryChanged {
			_, action, _ := strings.Cut(xid.Text, " to ")
			needs[slot] = strings.TrimSpace(action)
			if strings.Contains(action, "(None)") || reported[slot] == "none" {
				delete(needs, slot)
				delete(recent, slot)
			}
		}
		if meansHardware(xid) && xid.Age <= xidWindow {
			recent[slot] = append(recent[slot], xid)
		}
	}
	return needs, recent
}

func recentXids(xids []facts.Xid) string {
	var codes []int
	times, last := map[int]int64{}, map[int]float64{}
	for _, xid := range xids {
		if times[xid.Code] == 0 {
			codes = append(codes, xid.Code)
		}
		times[xid.Code]++
		last[xid.Code] = xid.Age
	}
	var words []string
	for _, code := range codes {
		often := when(times[code] > 1, "%d times, last ", times[code])
		words = append(words, fmt.Sprintf("Xid %d, %s, %s%s", code, hardwareXids[code], often, text.Duration(last[code])+" ago"))
	}
	return strings.Join(words, "; ")
}

// slotOf returns a PCI address without its function number, because the kernel log omits that
// number.
func slotOf(address string) string {
	slot, _, _ := strings.Cut(strings.ToLower(address), ".")
	return slot
}
