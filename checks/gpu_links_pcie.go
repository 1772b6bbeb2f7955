package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
)

// What is more than the few replays that every PCIe link has: so many a minute, and
// so many at least.
//
// Source: NVIDIA/DCGM 3, dcgm_gpu_hardware_limits.h,
// DCGM_LIMIT_MAX_PCIREPLAY_RATE.
const (
	replaysPerMinute = 8
	leastReplays     = 1000
)

var showPCIe = fix.On("nvidia-smi -q -d PCIE -i {gpus}")

// pcieRules are by the generation that most GPUs of each model have.
func pcieRules(generation map[string]int64) []cardRule {
	return []cardRule{{Finding{
		Verdict: Warn,
		Summary: "GPUs have fewer PCIe lanes than they could have",
		Want:    "all lanes: reseat the GPU, look at riser and slot, and for a BIOS that splits the slot",
		Remedy:  []fix.Command{showPCIe},
	}, func(card *facts.Card) string {
		if card.Link.Width == 0 || card.Link.Width >= card.Link.MaxWidth {
			return ""
		}
		return fmt.Sprintf("x%d of x%d", card.Link.Width, card.Link.MaxWidth)
	}}, {Finding{
		Verdict: Warn,
		Summary: "the PCIe links of GPUs are of a lower generation than on most GPUs of the model",
		Want:    "one generation everywhere: look at slot, riser and the BIOS's limit",
		Remedy:  []fix.Command{showPCIe},
	}, func(card *facts.Card) string {
		if card.Link.MaxGeneration == 0 || int64(card.Link.MaxGeneration) >= generation[card.Name] {
			return ""
		}
		return fmt.Sprintf("generation %d of %d", card.Link.MaxGeneration, generation[card.Name])
	}}}
}

// replayRule is by how many seconds a counter may have run.
func replayRule(seconds float64) cardRule {
	return cardRule{Finding{
		Verdict: Warn,
		Summary: "PCIe links of GPUs send packets again all the time",
		Want:    fmt.Sprintf("fewer than %d replays a minute: reseat the GPU, look at riser and slot", replaysPerMinute),
		Remedy:  []fix.Command{showPCIe, fix.On("sudo dmesg -T | grep -i aer")},
	}, func(card *facts.Card) string {
		if replays := orZero(card.Link.Replays); replays >= leastReplays && float64(replays) >= replaysPerMinute*seconds/60 {
			return fmt.Sprintf("%d replays", replays)
		}
		return ""
	}}
}
