package gpu

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var Mode = checks.Check{
	ID:       "gpu-mode",
	Title:    "the GPUs are in a mode that lets ranks use them whole, at once and at full clocks",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Doc: "Compute mode prohibited keeps every process off a GPU. With MIG enabled a process sees one instance of one GPU, whatever CUDA_VISIBLE_DEVICES counts, and instances have neither NVLink nor " +
		"peer access: a node with several ranks fails, a node with one rank works on a part of a GPU. A mode that changes at the next reset is warned of, and so are application clocks that are " +
		"lower than on most GPUs of the model. Without persistence mode the driver forgets the GPU whenever nobody uses it, and every start takes seconds longer. " +
		"Exclusive-process mode is fine: a rank is one process on its GPU.",
	WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf, slotsOf := usedCards(view), view.Launch.SlotsUsed()
		common := usual(nodes, cardsOf, func(card *facts.Card) int64 { return int64(card.Clock.AppSM) })
		for _, node := range nodes {
			rules := append([]cardRule{prohibited, migEnabled(len(slotsOf(node)))}, modeRules...)
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForModes...)...)
			findings = append(findings, eachOf(node, cardsOf(node), append(rules, appClocks(common)))...)
		}
		return findings
	},
}

// neededForModes are the modes that keep ranks off a GPU.
var neededForModes = []essential{
	{func(card *facts.Card) bool { return card.ComputeMode == "" }, []string{"nvmlDeviceGetComputeMode"}},
	{func(card *facts.Card) bool { return card.MIG == "" }, []string{"nvmlDeviceGetMigMode"}},
}

var prohibited = cardRule{checks.Finding{
	Summary: "the compute mode of GPUs forbids to use them",
	Want:    "compute mode default",
	Remedy:  []fix.Command{fix.On("sudo nvidia-smi -c 0 -i {gpus}")},
}, func(card *facts.Card) string {
	if card.ComputeMode != "prohibited" {
		return ""
	}
	return "compute mode prohibited"
}}

// migEnabled is by the number of ranks on the node, 0 where nothing says: one rank
// finds one instance.
//
// Source: NVIDIA, Multi-Instance GPU User Guide, r550, CUDA device enumeration and
// application considerations.
func migEnabled(ranks int) cardRule {
	rule := cardRule{Finding: checks.Finding{
		Summary:  "MIG is enabled, and a process sees one instance of one GPU only",
		Want:     "MIG disabled where several ranks run on a node",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -mig 0 -i {gpus}   # once nothing uses it; A100 needs a reset after it")},
		WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	}}
	rule.wrong = func(card *facts.Card) string {
		switch {
		case card.MIG != "enabled":
			return ""
		case len(card.MIGDevices) == 0:
			return "MIG enabled, without any instance"
		}
		return "MIG enabled, " + counted(int64(len(card.MIGDevices)), "instance")
	}
	if ranks < 2 {
		rule.Verdict, rule.Summary = checks.Warn, "MIG is enabled, and a rank gets a part of a GPU"
		rule.Want, rule.WouldSee = "MIG disabled, unless that part is what is wanted", "torch.OutOfMemoryError: CUDA out of memory, or no CUDA-capable device is detected"
	}
	return rule
}

var modeRules = []cardRule{{checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "the MIG mode of GPUs changes at their next reset",
	Want:     "no change pending",
	Remedy:   []fix.Command{resetGPU},
	WouldSee: "nothing now; after a reboot in the middle of the training other GPUs than before",
}, func(card *facts.Card) string {
	if !slices.Contains([]string{"enabled", "disabled"}, card.MIGPending) || card.MIGPending == card.MIG {
		return ""
	}
	return fmt.Sprintf("MIG %s now, %s after the next reset", card.MIG, card.MIGPending)
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "persistence mode is off, so the driver sets the GPU up anew for whoever comes next",
	Want:     "persistence mode on",
	Remedy:   []fix.Command{fix.On("sudo nvidia-smi -pm 1   # until the next boot"), persistAtBoot},
	WouldSee: "no message: CUDA starts seconds later, and settings such as power limits are forgotten",
}, func(card *facts.Card) string {
	if card.Persistence == nil || *card.Persistence || len(card.Processes) > 0 { // who uses it keeps it awake
		return ""
	}
	return "persistence mode off"
}}}

// persistAtBoot sets persistence mode whenever NVIDIA's daemon starts, whatever its unit
// says: that of Ubuntu starts it with --no-persistence-mode, and by a rule of udev.
var persistAtBoot = fix.On(`sudo mkdir -p /etc/systemd/system/nvidia-persistenced.service.d; printf '[Service]\nExecStartPost=+/usr/bin/nvidia-smi -pm 1\n' | sudo tee /etc/systemd/system/nvidia-persistenced.service.d/mode.conf; sudo systemctl daemon-reload; sudo systemctl enable nvidia-persistenced; sudo systemctl restart nvidia-persistenced   # and at every boot`)

// appClocks are judged by the other GPUs of the model only: on many models the
// default is below the maximum, and the GPU boosts beyond it all the same.
func appClocks(common map[string]int64) cardRule {
	return cardRule{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "application clocks are set lower than on other GPUs of the model",
		Want:     "one setting everywhere",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -rac -i {gpus}")},
		WouldSee: "no message: every collective waits for the slowest GPU",
	}, func(card *facts.Card) string {
		if card.Clock.AppSM == 0 || int64(card.Clock.AppSM) >= common[card.Name] {
			return ""
		}
		return fmt.Sprintf("%d MHz of %d", card.Clock.AppSM, common[card.Name])
	}}
}
