package checks

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// powerLimit is of a node's GPUs whose limit is below what the factory or most GPUs of
// the model have. Watts are told with fractions.
func powerLimit(common map[string]int64, cards []*facts.Card) cardRule {
	rule := cardRule{Finding{
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
	return cardRule{Finding{
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
