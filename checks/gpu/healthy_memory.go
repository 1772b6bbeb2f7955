package gpu

import (
	"fmt"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// retiredLimit is of how many retired pages NVIDIA wants to see the GPU; 64 is all
// that its list holds.
//
// Source: NVIDIA/DCGM 3, dcgm_gpu_hardware_limits.h,
// DCGM_LIMIT_MAX_RETIRED_PAGES; NVIDIA, Dynamic Page Retirement.
const retiredLimit = 60

// A flood of corrected errors costs time, and often ends in one that cannot be
// corrected: so many a day, and so many at least.
const floodPerDay = 10_000

// memoryRules are in the order of their gravity. A row that waits to be remapped is
// a warning only: until the reset the driver keeps its page from being used.
//
// Source: NVIDIA, GPU Memory Error Management, r550; NVML 12,
// nvmlDeviceGetRemappedRows.
var memoryRules = []cardRule{{checks.Finding{
	Summary:  "a GPU has no spare rows left for its broken memory",
	Want:     "no failed row remap",
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -d ROW_REMAPPER,ECC -i {gpus}"), fix.Note("have the GPU replaced: NVIDIA takes a failed remap as reason enough"), withoutNode},
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
}, func(card *facts.Card) string {
	if card.Remapped == nil || !card.Remapped.Failed {
		return ""
	}
	return fmt.Sprintf("row remapping failed, after %s", counted(int64(card.Remapped.Corrected+card.Remapped.Uncorrected), "remapped row"))
}}, {checks.Finding{
	Summary: "a GPU had memory errors that could not be corrected, and was not reset since",
	Want:    "no uncorrectable error since the driver was loaded",
	Remedy:  []fix.Command{resetGPU, fix.On("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpus}   # if they come again: have the GPU replaced"), withoutNode},
}, func(card *facts.Card) string {
	if card.ECC == nil || orZero(card.ECC.Uncorrected) == 0 {
		return ""
	}
	text := counted(*card.ECC.Uncorrected, "uncorrectable error")
	if card.Remapped != nil && card.Remapped.Pending {
		text += ", a row waits to be remapped"
	}
	return text
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "memory of a GPU waits for a reset to be repaired",
	Want:     "nothing pending",
	Remedy:   []fix.Command{resetGPU},
	WouldSee: "nothing as long as that memory is not used again, then uncorrectable ECC error encountered",
}, func(card *facts.Card) string {
	switch {
	case card.Remapped != nil && card.Remapped.Pending:
		return "a row waits to be remapped"
	case card.Retired != nil && card.Retired.Pending:
		return "a page waits to be retired"
	}
	return ""
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "a GPU has retired nearly all the memory pages that it can",
	Want:     fmt.Sprintf("fewer than %d retired pages; there is room for 64", retiredLimit),
	Remedy:   []fix.Command{fix.On("nvidia-smi -q -d PAGE_RETIREMENT -i {gpus}"), fix.Note("have the GPU replaced")},
	WouldSee: "RuntimeError: CUDA error: uncorrectable ECC error encountered, at the next bad page",
}, func(card *facts.Card) string {
	if card.Retired == nil || card.Retired.SingleBit+card.Retired.DoubleBit < retiredLimit {
		return ""
	}
	return fmt.Sprintf("%d retired pages, %d of them for double-bit errors", card.Retired.SingleBit+card.Retired.DoubleBit, card.Retired.DoubleBit)
}}}

// correctedFlood is of a node, as the counters run since the driver was loaded: not
// longer than the machine.
func correctedFlood(node *facts.Node) cardRule {
	days := max(uptime(node)/86400, 1)
	return cardRule{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "a GPU corrects memory errors all the time",
		Want:     fmt.Sprintf("fewer than %d a day", floodPerDay),
		Remedy:   []fix.Command{fix.On("nvidia-smi -q -d ECC -i {gpus}"), resetGPU},
		WouldSee: "no message: the GPU is slower than the others; often uncorrectable errors later",
	}, func(card *facts.Card) string {
		if card.ECC == nil || float64(orZero(card.ECC.Corrected)) < floodPerDay*days {
			return ""
		}
		return counted(*card.ECC.Corrected, "corrected error") + " since the driver was loaded"
	}}
}

// eccMode is 2 with error correction, 1 without, 0 where the GPU knows none.
func eccMode(card *facts.Card) int64 {
	switch {
	case card.ECC == nil:
		return 0
	case card.ECC.Enabled:
		return 2
	}
	return 1
}

// eccRules are of error correction itself: off on some GPUs of a model, or about
// to change. Off on all of them is a choice.
func eccRules(common map[string]int64) []cardRule {
	return []cardRule{{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "error correction is off, where other GPUs of the model have it on",
		Want:     "on everywhere: what is computed wrong here is averaged into every GPU's weights",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -e 1 -i {gpus}"), resetGPU},
		WouldSee: "no message: a flipped bit is a loss that jumps, or NaN",
	}, func(card *facts.Card) string {
		if eccMode(card) != 1 || common[card.Name] != 2 {
			return ""
		}
		return "off"
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "error correction changes at the next reset, and with it the size of memory",
		Want:     "nothing pending",
		Remedy:   []fix.Command{resetGPU},
		WouldSee: "nothing now; after a reboot in the middle of the training another size of GPU memory",
	}, func(card *facts.Card) string {
		if card.ECC == nil || card.ECC.Pending == nil || *card.ECC.Pending == card.ECC.Enabled {
			return ""
		}
		return fmt.Sprintf("%s now, %s after the next reset", onOff(card.ECC.Enabled), onOff(*card.ECC.Pending))
	}}}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// orZero is a number, 0 where it is not told.
func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
