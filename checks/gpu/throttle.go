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

// nearSlowdown is how close to its brake a GPU that nobody uses must not be, in °C.
const nearSlowdown = 5

var Throttle = checks.Check{
	ID:       "gpu-throttle",
	Title:    "no GPU is braked by heat, by its power supply or by a lowered limit",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNVML},
	Volatile: true,
	Doc: "A collective is as fast as its slowest GPU. Looked at are the reasons the driver gives for low clocks now (heat and power, not that the GPU idles or that a busy one meets its power limit), " +
		"a temperature near the point where the GPU brakes, a power limit below the factory's or below that of most GPUs of the model, and a lower maximum clock than theirs; GeForce and TITAN, which many build, are compared within one VBIOS. " +
		"Clocks and PCIe speed of an idle GPU are low, and say nothing.",
	WouldSee: "no message: every collective waits for the slowest GPU",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf := usedCards(view)
		limits := usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Power.Limit) })
		clock := maxClock(usualOf(nodes, cardsOf, boardOf, func(card *facts.Card) int64 { return int64(card.Clock.MaxSM) }))
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, cardsOf(node), neededForBrakes...)...)
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

// neededForBrakes is what shows a brake. Temperature and power draw come by sensors, which
// fail now and then, and the driver's reasons do not.
var neededForBrakes = []essential{
	{func(card *facts.Card) bool { return card.Throttle == nil }, []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
	{func(card *facts.Card) bool { return card.Power.Limit == 0 }, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	{func(card *facts.Card) bool { return card.Clock.MaxSM == 0 }, []string{"nvmlDeviceGetMaxClockInfo"}},
}

var showBrakes = fix.On("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {gpus}")

var brakes = []cardRule{{checks.Finding{
	Summary: "heat brakes GPUs",
	Want:    "full clocks: look at fans, air flow, cold plates and the room",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type Fan")},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-thermal", "sw-thermal") {
		return ""
	}
	return "braked by heat" + degrees(card)
}}, {checks.Finding{
	Summary: "the power supply brakes GPUs",
	Want:    "full clocks: a power supply failed, lost its redundancy or is overloaded, or the GPU's power cable is loose",
	Remedy:  []fix.Command{showBrakes, fix.On("sudo ipmitool sdr type 'Power Supply'")},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-power-brake") {
		return ""
	}
	return "power brake asserted"
}}, {checks.Finding{
	Summary: "the hardware brakes GPUs",
	Want:    "full clocks: heat or power; the driver does not say which",
	Remedy:  []fix.Command{showBrakes},
}, func(card *facts.Card) string {
	if !throttled(card, "hw-slowdown") {
		return ""
	}
	return "hardware slowdown" + degrees(card)
}}, {checks.Finding{
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

// powerLimit is of a node's GPUs whose limit is below what the factory or most GPUs of
// the model have. Watts are told with fractions.
func powerLimit(common map[string]int64, cards []*facts.Card) cardRule {
	rule := cardRule{checks.Finding{
		Summary: "the power limit of GPUs is lowered",
		Want:    "the factory's limit, and the same on all GPUs of a model",
		Remedy:  []fix.Command{fix.On("nvidia-smi -q -d POWER -i {gpus}")},
	}, func(card *facts.Card) string {
		watts, whose := rightLimit(card, common)
		if watts == 0 {
			return ""
		}
		return fmt.Sprintf("%.0f W, %.0f W %s", card.Power.Limit, watts, whose)
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
	return rule
}

// rightLimit is what the limit of a GPU is lowered from, in watts, and whose limit that
// is; 0 where it is not lowered.
func rightLimit(card *facts.Card, common map[string]int64) (watts float64, whose string) {
	limit, most := card.Power.Limit, float64(common[boardOf(card)])
	switch {
	case limit == 0:
		return 0, ""
	case limit < card.Power.Default-1:
		return card.Power.Default, "by the factory"
	case limit < most-1:
		return most, "on most GPUs of the model"
	}
	return 0, ""
}

func maxClock(common map[string]int64) cardRule {
	return cardRule{checks.Finding{
		Summary: "the highest clock of GPUs is lower than that of others of the model",
		Want:    "one maximum everywhere",
		Remedy:  []fix.Command{fix.On("sudo nvidia-smi -rgc -i {gpus}   # takes a lock off the clocks"), fix.On("nvidia-smi -q -d CLOCK -i {gpus}")},
	}, func(card *facts.Card) string {
		if card.Clock.MaxSM == 0 || int64(card.Clock.MaxSM) >= common[boardOf(card)] {
			return ""
		}
		return fmt.Sprintf("%d MHz of %d", card.Clock.MaxSM, common[boardOf(card)])
	}}
}
