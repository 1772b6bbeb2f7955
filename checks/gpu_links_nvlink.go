package checks

import (
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// Errors of an NVLink since the driver was loaded that are more than the few every
// link has: DCGM watches their rates, of which a sum tells nothing. CRC errors are
// corrected by replays, so that only replays and recoveries cost time.
//
// Source: NVIDIA/DCGM 3, dcgm_gpu_hardware_limits.h; the thresholds are ours.
const (
	manyReplays    = 1000
	manyRecoveries = 10
)

var showLinks = fix.On("nvidia-smi nvlink -s -i {gpus}")

// nvLinkRules are by what most GPUs of each model have, links that are up and
// their speed in bit/s, and by whether the machine shows NVSwitches.
func nvLinkRules(switched bool, up, speed map[string]int64) []cardRule {
	return []cardRule{{Finding{
		Summary:  "NVLinks to the NVSwitches are down",
		Want:     "every link active: reset the GPUs, else reseat or replace the GPU or its board",
		Remedy:   []fix.Command{showLinks, fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`), resetGPU, fix.On("sudo systemctl restart nvidia-fabricmanager   # after it")},
		WouldSee: "P2P is disabled between NVLINK connected GPUs, or CUDA failure in NVLS setup",
	}, func(card *facts.Card) string {
		if card.NVLinks == nil || !switched && card.NVLinks.RemoteKind != "switch" {
			return ""
		}
		return downLinks(card, int64(card.NVLinks.Count))
	}}, {Finding{
		Verdict: Warn,
		Summary: "NVLinks are down that other GPUs of the model have up",
		Want:    "as many links as on most GPUs of the model: look at bridges, boards and cables",
		Remedy:  []fix.Command{showLinks, fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`)},
	}, func(card *facts.Card) string { return downLinks(card, up[card.Name]) }}, {Finding{
		Verdict: Warn,
		Summary: "NVLinks are slower than they could be",
		Want:    "full speed on every link",
		Remedy:  []fix.Command{showLinks, resetGPU},
	}, func(card *facts.Card) string {
		links := card.NVLinks
		switch {
		case links == nil:
			return ""
		case len(links.Slow) > 0:
			return fmt.Sprintf("%s slower than %s", linkNames(links.Slow), gigabits(links.Speed))
		case links.Speed > 0 && links.Speed < speed[card.Name]:
			return fmt.Sprintf("%s of %s on most GPUs of the model", gigabits(links.Speed), gigabits(speed[card.Name]))
		}
		return ""
	}}, {Finding{
		Verdict:  Warn,
		Summary:  "NVLinks have many errors",
		Want:     fmt.Sprintf("fewer than %d replays and %d recoveries of a link since the driver was loaded", manyReplays, manyRecoveries),
		Remedy:   []fix.Command{fix.On("nvidia-smi nvlink -e -i {gpus}"), fix.On("dcgmi diag -r 3   # loads the links; hours later the counters tell")},
		WouldSee: "no message: traffic between GPUs stalls now and then",
	}, linkErrors}}
}

// downLinks are the links that keep a GPU below so many active ones.
func downLinks(card *facts.Card, want int64) string {
	if card.NVLinks == nil || len(card.NVLinks.Down) == 0 || activeLinks(card) >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d active, down: %s", activeLinks(card), want, linkNames(card.NVLinks.Down))
}

func linkErrors(card *facts.Card) string {
	if card.NVLinks == nil {
		return ""
	}
	var words []string
	for _, link := range card.NVLinks.Errors {
		if link.Replays >= manyReplays || link.Recoveries >= manyRecoveries {
			words = append(words, fmt.Sprintf("link %d %d replays, %d recoveries", link.Link, link.Replays, link.Recoveries))
		}
	}
	return strings.Join(words, ", ")
}

func activeLinks(card *facts.Card) int64 { return int64(card.NVLinks.Count - len(card.NVLinks.Down)) }

// linksUp is the number of active links of a GPU, 0 where none is told or wired.
func linksUp(card *facts.Card) int64 {
	if card.NVLinks == nil {
		return 0
	}
	return activeLinks(card)
}

func nvLinkSpeed(card *facts.Card) int64 {
	if card.NVLinks == nil {
		return 0
	}
	return card.NVLinks.Speed
}

func linkNames(links []int) string {
	if len(links) == 1 {
		return fmt.Sprintf("link %d", links[0])
	}
	return "links " + indices(links)
}
