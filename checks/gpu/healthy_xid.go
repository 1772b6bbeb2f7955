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
