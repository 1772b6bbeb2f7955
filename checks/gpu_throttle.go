package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// nearSlowdown is how close to its brake a GPU that nobody uses must not be, in °C.
const nearSlowdown = 5

var gpuThrottle = Check{
	ID:       "gpu-throttle",
	Title:    "no GPU is braked by heat, by its power supply or by a lowered limit",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Doc: "A collective is as fast as its slowest GPU. Looked at are the reasons the driver gives for low clocks now (heat and power, not that the GPU idles or that a busy one meets its power limit), " +
		"a temperature near the point where the GPU brakes, a power limit below the factory's or below that of most GPUs of the model, and a lower maximum clock than theirs; GeForce and TITAN, which many build, are compared within one VBIOS. " +
		"Clocks and PCIe speed of an idle GPU are low, and say nothing.",
	WouldSee: "no message: every collective waits for the slowest GPU",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := launchCards(view)
		limits := usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Power.Limit) })
		clock := maxClock(usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Clock.MaxSM) }))
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), brakesTold...)...)
			findings = append(findings, firstOf(node, cardsOf(node), brakes)...)
			findings = append(findings, eachOf(node, cardsOf(node), []cardRule{powerLimit(limits, cardsOf(node)), clock})...)
		}
		return findings
	},
}

// boardOf is a model as its maker clocks and feeds it: GeForce and TITAN are built by
// many, who have a VBIOS each.
func boardOf(card *facts.Card) string {
	if isConsumer(card) {
		return card.Name + " " + card.VBIOS
	}
	return card.Name
}

// brakesTold is what shows a brake. Temperature and power draw come by sensors, which
// fail now and then, and the driver's reasons do not.
var brakesTold = []essential{
	{func(card *facts.Card) bool { return card.Throttle == nil }, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	{func(card *facts.Card) bool { return card.Power.Limit == 0 }, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	{func(card *facts.Card) bool { return card.Clock.MaxSM == 0 }, []string{"nvmlDeviceGetMaxClockInfo"}},
}

var showBrakes = fix.On("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {gpus}")

var brakes = []cardRule{{Finding{
	Summary: "heat brakes GPUs",
	Want:    "full clocks: look at fans, air flow, cold plates and the room",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type Fan")},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-thermal", "sw-thermal") {
		return ""
	}
	return "braked by heat" + degrees(card)
}}, {Finding{
	Summary: "the power supply brakes GPUs",
	Want:    "full clocks: a power supply failed, lost its redundancy or is overloaded, or the GPU's power cable is loose",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type 'Power Supply'")},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-power-brake") {
		return ""
	}
	return "power brake asserted"
}}, {Finding{
	Summary: "the hardware brakes GPUs",
	Want:    "full clocks: heat or power; the driver does not say which",
	Remedy:  []fix.Command{showBrakes},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-slowdown") {
		return ""
	}
	return "hardware slowdown" + degrees(card)
}}, {Finding{
	Summary: "GPUs are close to the temperature where they brake",
	Want:    "an idle GPU is cool: look at fans, air flow, cold plates and the room",
	Remedy:  []fix.Command{showBrakes},
}, func(card *facts.Card) string {
	if card.Temperature == nil || card.SlowdownAt == nil || *card.SlowdownAt <= nearSlowdown || *card.Temperature < *card.SlowdownAt-nearSlowdown {
		return ""
	}
	return fmt.Sprintf("%d °C, brakes at %d °C", *card.Temperature, *card.SlowdownAt)
}}}

func throttled(card *facts.Card, reasons ...string) bool {
	return slices.ContainsFunc(reasons, func(reason string) bool { return slices.Contains(card.Throttle, reason) })
}

func degrees(card *facts.Card) string {
	if card.Temperature == nil {
		return ""
	}
	return fmt.Sprintf(" at %d °C", *card.Temperature)
}
