// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

var Mode = checks.Check{
	ID:       "gpu-mode",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		cardsOf, slotsOf := usedCards(view), view.Launch.SlotsUsed()
		common := usual(nodes, cardsOf, func(card *facts.Card) int64 { return int64(card.Clock.AppSM) })
		rules := append(slices.Clip(modeRules), appClocks(common))
		for _, node := range nodes {
			mig := migForSeveral
			if len(slotsOf(node)) < 2 {
				mig = migForOne
			}
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForModes...)...)
			findings = append(findings, eachOf(node, cardsOf(node), prohibited, mig, rules)...)
		}
		return findings
	},
}

var neededForModes = []essential{
	{func(card *facts.Card) bool { return card.ComputeMode == "" }, []string{"nvmlDeviceGetComputeMode"}},
	{func(card *facts.Card) bool { return card.MIG == "" }, []string{"nvmlDeviceGetMigMode"}},
}

var prohibited = []cardRule{{checks.Finding{
	Summary: "the compute mode of GPUs forbids all use",
	Want:    "compute mode default",
	Remedy:  []fix.Command{fix.On("sudo nvidia-smi -c 0 -i {gpus}")},
}, func(_ *facts.Node, card *facts.Card) string {
	return when(card.ComputeMode == "prohibited", "compute mode prohibited")
}}}

// The rules for MIG depend on the number of ranks on the node: a single rank finds one instance,
// but several ranks do not find several. An unknown number counts as one.
//
// Source: NVIDIA, Multi-Instance GPU User Guide, r550, CUDA device enumeration and application
// considerations.
var migForSeveral, migForOne = migEnabled(false), migEnabled(true)

func migEnabled(forOne bool) []cardRule {
	rule := cardRule{checks.Finding{
		Summary:  "MIG is enabled: a process sees only one instance of one GPU",
		Want:     "MIG disabled on nodes with several ranks",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -mig 0 -i {gpus}   # when no process uses it; an A100 needs a reset after it")},
		WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	}, func(_ *facts.Node, card *facts.Card) string {
		instances := "without any instance"
		if n := len(card.MIGDevices); n > 0 {
			instances = counted{int64(n), "instance"}.String()
		}
		return when(card.MIG == "enabled", "MIG enabled, %s", instances)
	}}
	if forOne {
		rule.Verdict, rule.Summary = checks.Warn, "MIG is enabled: the rank gets only a part of a GPU"
		rule.Want, rule.WouldSee = "MIG disabled, unless the launch is meant to use a part of a GPU", "torch.OutOfMemoryError: CUDA out of memory, or no CUDA-capable device is detected"
	}
	return []cardRule{rule}
}

var modeRules = []cardRule{{checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "the MIG mode of GPUs changes at the next reset",
	Want:     "no pending change",
	Remedy:   []fix.Command{resetGPU},
	WouldSee: "nothing now; after a reboot during training, other GPUs than before",
}, func(_ *facts.Node, card *facts.Card) string {
	changes := slices.Contains([]string{"enabled", "disabled"}, card.MIGPending) && card.MIGPending != card.MIG
	return when(changes, "MIG %s now, %s after the next reset", card.MIG, card.MIGPending)
}}, {checks.Finding{
	Verdict:  checks.Warn,
	Summary:  "persistence mode is off: the driver sets up the GPU again for every program",
	Want:     "persistence mode on",
	Remedy:   []fix.Command{fix.On("sudo nvidia-smi -pm 1   # until the next boot"), persistAtBoot.As(fix.Then)},
	WouldSee: "no message: CUDA starts seconds later, and settings such as power limits are lost",
}, func(_ *facts.Node, card *facts.Card) string {
	isAwake := valueOf(card.Persistence) || len(card.Processes) > 0 // a process that uses the GPU keeps it awake
	return when(card.Persistence != nil && !isAwake, "persistence mode off")
}}}

// persistAtBoot is the command that sets persistence mode whenever NVIDIA's daemon starts, whatever
// the daemon's unit says. Ubuntu's unit starts the daemon with --no-persistence-mode, from a udev
// rule.
var persistAtBoot = fix.On(`sudo mkdir -p /etc/systemd/system/nvidia-persistenced.service.d; printf '[Service]\nExecStartPost=+/usr/bin/nvidia-smi -pm 1\n' | sudo tee /etc/systemd/system/nvidia-persistenced.service.d/mode.conf; sudo systemctl daemon-reload; sudo systemctl enable nvidia-persistenced; sudo systemctl restart nvidia-persistenced   # also at every boot`)

// appClocks returns the rule for application clocks. It compares a GPU only with other GPUs of the
// same model. On many models the default clock is below the maximum, and the GPU still boosts
// beyond the default.
func appClocks(common map[string]int64) cardRule {
	return cardRule{checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "application clocks are lower than on other GPUs of the model",
		Want:     "the same setting everywhere",
		Remedy:   []fix.Command{fix.On("sudo nvidia-smi -rac -i {gpus}")},
		WouldSee: "no message: every collective waits for the slowest GPU",
	}, func(_ *facts.Node, card *facts.Card) string {
		most := common[card.Name]
		return when(card.Clock.AppSM > 0 && int64(card.Clock.AppSM) < most, "%d MHz, on most GPUs of the model %d MHz", card.Clock.AppSM, most)
	}}
}

// nearSlowdown is the smallest acceptable distance, in °C, between the temperature of an idle GPU
// and its slowdown temperature.
const nearSlowdown = 5

var Throttle = checks.Check{
	ID:       "gpu-throttle",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		cardsOf := usedCards(view)
		limits := usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Power.Limit) })
		clock := maxClock(usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Clock.MaxSM) }))
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForBrakes...)...)
			findings = append(findings, firstOf(node, cardsOf(node), brakes)...)
			findings = append(findings, eachOf(node, cardsOf(node), powerLimit(limits, cardsOf(node)), clock)...)
		}
		return findings
	},
}

// boardOf returns a name for boards with equal clocks and power, normally the GPU model. Many
// makers build GeForce and TITAN boards, each with its own VBIOS, so for those models the name
// includes the VBIOS.
func boardOf(card *facts.Card) string {
	if isConsumer(card) {
		return card.Name + " " + card.VBIOS
	}
	return card.Name
}

// neededForBrakes lists the facts that show throttling. Temperature and power draw are not among
// them, because they come from sensors, which sometimes fail. The driver's reasons for throttling
// do not fail in that way.
var neededForBrakes = []essential{
	{func(card *facts.Card) bool { return card.Throttle == nil }, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	{func(card *facts.Card) bool { return card.Power.Limit == 0 }, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	{func(card *facts.Card) bool { return card.Clock.MaxSM == 0 }, []string{"nvmlDeviceGetMaxClockInfo"}},
}

var showBrakes = fix.On("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {gpus}").As(fix.Look)

var checkCooling = fix.Note("check fans, air flow, cold plates and the room temperature")

var brakes = []cardRule{{checks.Finding{
	Summary: "heat throttles GPUs",
	Want:    "full clocks",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type Fan").As(fix.Look), checkCooling},
}, func(_ *facts.Node, card *facts.Card) string {
	return hot(card, "throttled by heat", "hw-thermal", "sw-thermal")
}}, {checks.Finding{
	Summary: "the power supply throttles GPUs",
	Want:    "full clocks",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type 'Power Supply'").As(fix.Look), fix.Note("check for a failed or overloaded power supply, lost redundancy, or a loose power cable of the GPU")},
}, func(_ *facts.Node, card *facts.Card) string {
	return when(throttled(card, "hw-power-brake"), "power brake asserted")
}}, {checks.Finding{
	Summary: "the hardware throttles GPUs",
	Want:    "full clocks",
	Remedy:  []fix.Command{showBrakes, fix.Note("the cause is heat or power; the driver does not report which")},
}, func(_ *facts.Node, card *facts.Card) string {
	return hot(card, "hardware slowdown", "hw-slowdown")
}}, {checks.Finding{
	Summary: "GPUs are close to the temperature at which they throttle",
	Want:    "a cool GPU before the launch",
	Remedy:  []fix.Command{showBrakes, checkCooling},
}, func(_ *facts.Node, card *facts.Card) string {
	now, brakesAt := valueOf(card.Temperature), valueOf(card.SlowdownAt)
	return when(card.Temperature != nil && brakesAt > nearSlowdown && now >= brakesAt-nearSlowdown, "%d °C, throttles at %d °C", now, brakesAt)
}}}

func throttled(card *facts.Card, reasons ...string) bool {
	return slices.ContainsFunc(reasons, func(reason string) bool { return slices.Contains(card.Throttle, reason) })
}

// hot returns the text what with the temperature if a GPU is throttled for one of the reasons,
// otherwise "".
func hot(card *facts.Card, what string, reasons ...string) string {
	if throttled(card, reasons...) && card.Temperature != nil {
		return fmt.Sprintf("%s at %d °C", what, *card.Temperature)
	}
	if throttled(card, reasons...) {
		return what
	}
	return ""
}

// powerLimit returns a rule for GPUs of a node whose power limit is below the default, or below the
// limit of most GPUs of the model. Limits in watts may be fractions.
func powerLimit(common map[string]int64, cards []*facts.Card) []cardRule {
	isLowered := func(card *facts.Card) bool {
		watts, _ := rightLimit(card, common)
		return watts > 0
	}
	if !slices.ContainsFunc(cards, isLowered) {
		return nil
	}
	rule := cardRule{checks.Finding{
		Summary: "the power limit of GPUs is lower than on others or by default",
		Want:    "the default power limit, identical on all GPUs of a model",
		Remedy:  []fix.Command{fix.On("nvidia-smi -q -d POWER -i {gpus}").As(fix.Look)},
	}, func(_ *facts.Node, card *facts.Card) string {
		watts, source := rightLimit(card, common)
		return when(watts > 0, "%.0f W, %s %.0f W", card.Power.Limit, source, watts)
	}}
	var wanted []float64
	on := map[float64][]string{}
	for _, card := range cards {
		if watts, _ := rightLimit(card, common); watts > 0 {
			if on[watts] == nil {
				wanted = append(wanted, watts)
			}
			on[watts] = append(on[watts], strconv.Itoa(card.Index))
		}
	}
	for _, watts := range wanted {
		rule.Remedy = append(rule.Remedy, fix.On("sudo nvidia-smi -pl %s -i %s", fix.Number(math.RoundToEven(watts)), fix.Name(strings.Join(on[watts], ","))))
	}
	rule.Remedy = fix.Steps(rule.Remedy...)
	return []cardRule{rule}
}

// rightLimit returns the power limit in watts that a GPU should have, and the source of this limit.
// It returns 0 if the GPU's own limit is not lower.
func rightLimit(card *facts.Card, common map[string]int64) (watts float64, source string) {
	limit, most := card.Power.Limit, float64(common[boardOf(card)])
	switch {
	case limit == 0:
		return 0, ""
	case limit < card.Power.Default-1:
		return card.Power.Default, "by default"
	case limit < most-1:
		return most, "on most GPUs of the model"
	}
	return 0, ""
}

func maxClock(common map[string]int64) []cardRule {
	return []cardRule{{checks.Finding{
		Summary: "the maximum clock of GPUs is lower than on other GPUs of the model",
		Want:    "the same maximum everywhere",
		Remedy:  []fix.Command{fix.On("sudo nvidia-smi -rgc -i {gpus}   # unlocks the clocks"), fix.On("nvidia-smi -q -d CLOCK -i {gpus}").As(fix.Look)},
	}, func(_ *facts.Node, card *facts.Card) string {
		most := common[boardOf(card)]
		return when(card.Clock.MaxSM > 0 && int64(card.Clock.MaxSM) < most, "%d MHz, on most GPUs of the model %d MHz", card.Clock.MaxSM, most)
	}}}
}
