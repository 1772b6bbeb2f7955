// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

var Links = checks.Check{
	ID:        "gpu-links",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"gpu-fabric"},
	Volatile:  true,
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf, linkedOf := usedCards(view), linkedCards(view)
		up, speed := usual(nodes, linkedOf, activeLinks), usual(nodes, linkedOf, nvLinkSpeed)
		generation := usual(nodes, cardsOf, func(card *facts.Card) int64 { return int64(card.Link.MaxGeneration) })
		nvlink, pcie := nvLinkRules(up, speed), append(pcieRules(generation), replays)
		for _, node := range nodes {
			findings = append(findings, refusedFacts(view, node, linkedOf(node), neededForLinks, neededForWidth)...)
			findings = append(findings, firstOf(node, linkedOf(node), nvlink)...)
			findings = append(findings, firstOf(node, cardsOf(node), pcie)...)
		}
		return inMakersWords(view, slowerWay, findings)
	},
}

const slowerWay = "no message: traffic between GPUs takes a slower path"

var neededForWidth = essential{func(card *facts.Card) bool { return card.Link.Width == 0 }, []string{"nvmlDeviceGetCurrPcieLinkWidth"}}

// linkedCards returns a function that lists the GPUs of the launch whose NVLinks and peers can be
// checked. It leaves out GPUs with MIG, which disables both, and GPUs whose fabric is not set up,
// which gpu-fabric reports.
func linkedCards(view checks.View) func(*facts.Node) []*facts.Card {
	cardsOf, unready := usedCards(view), view.Failing("gpu-fabric")
	return func(node *facts.Node) []*facts.Card {
		return compare.Without(cardsOf(node), func(card *facts.Card) bool { return unready[node.Name] || card.MIG == "enabled" })
	}
}

// Numbers of NVLink errors since the driver was loaded. They exceed the few errors that every link
// has. DCGM watches rates, which a sum does not show. Replays correct CRC errors, so only replays
// and recoveries cost time.
//
// Source: NVIDIA/DCGM 3, dcgm_gpu_hardware_limits.h; the thresholds are ours.
//
// DCGM fails an NVLink of the fifth generation if more than one bit in 10^12 of its packets is
// wrong (NVIDIA/DCGM of 2026-07, DcgmUtilities.cpp, IsEffectiveBerThresholdExceeded).
const (
	manyReplays    = 1000
	manyRecoveries = 10
	manyWrongBits  = 1e-12
)

var (
	showLinks  = fix.On("nvidia-smi nvlink -s -i {gpus}").As(fix.Look)
	showFaults = fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`).As(fix.Look)
)

// nvLinkRules returns the rules for NVLinks. up and speed (in bit/s) hold the values of most GPUs,
// by model. With NVSwitches, every link must be up.
func nvLinkRules(up, speed map[string]int64) []cardRule {
	return []cardRule{{checks.Finding{
		Summary:  "NVLinks to the NVSwitches are down",
		Want:     "every link active",
		Remedy:   []fix.Command{showLinks, showFaults, resetGPU, fix.On("sudo systemctl restart nvidia-fabricmanager").As(fix.Then), fix.Note("if links stay down, reseat or replace the GPU or its board")},
		WouldSee: "P2P is disabled between NVLINK connected GPUs, or CUDA failure in NVLS setup",
	}, func(node *facts.Node, card *facts.Card) string {
		switched := node.GPU != nil && node.GPU.NVSwitches > 0
		if card.NVLinks == nil || !switched && card.NVLinks.RemoteKind != "switch" {
			return ""
		}
		return downLinks(card, int64(card.NVLinks.Count))
	}}, {checks.Finding{
		Verdict: checks.Warn,
		Summary: "some NVLinks are down, but up on other GPUs of the same model",
		Want:    "as many active links as on most GPUs of the model",
		Remedy:  []fix.Command{showLinks, showFaults, fix.Note("check bridges, boards and cables")},
	}, func(_ *facts.Node, card *facts.Card) string { return downLinks(card, up[card.Name]) }}, {checks.Finding{
		Verdict: checks.Warn,
		Summary: "NVLinks run below full speed",
		Want:    "full speed on every link",
		Remedy:  []fix.Command{showLinks, resetGPU},
	}, func(_ *facts.Node, card *facts.Card) string {
		links := card.NVLinks
		switch {
		case links == nil:
			return ""
		case len(links.Slow) > 0:
			return fmt.Sprintf("%s slower than %s", linkNames(links.Slow), text.BitRate(float64(links.Speed)))
		case links.Speed > 0 && links.Speed < speed[card.Name]:
			return fmt.Sprintf("%s, on most GPUs of the model %s", text.BitRate(float64(links.Speed)), text.BitRate(float64(speed[card.Name])))
		}
		return ""
	}}, {checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "NVLinks have many errors",
		Want:     fmt.Sprintf("fewer than %d replays and %d recoveries of a link since the driver was loaded, and at most one wrong bit in 10^12", manyReplays, manyRecoveries),
		Remedy:   []fix.Command{fix.On("nvidia-smi nvlink -e -i {gpus}").As(fix.Look), fix.On("dcgmi diag -r 3   # loads the links; read the counters again hours later").As(fix.Look)},
		WouldSee: "no message: traffic between GPUs stalls from time to time",
	}, func(_ *facts.Node, card *facts.Card) string { return linkErrors(card) }}}
}

// downLinks describes the links of a GPU that are down, or returns "" if the GPU has at least as
// many active links as wanted.
func downLinks(card *facts.Card, want int64) string {
	down := valueOf(card.NVLinks).Down
	if len(down) == 0 || activeLinks(card) >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d active, down: %s", activeLinks(card), want, linkNames(down))
}

func linkErrors(card *facts.Card) string {
	var words []string
	for _, link := range valueOf(card.NVLinks).Errors {
		switch {
		case link.EffectiveBER > manyWrongBits, link.FailedRecoveries > 0:
			words = append(words, fmt.Sprintf("link %d: %d recoveries, %d of them failed, bit error rate %.0e", link.Link, link.Recoveries, link.FailedRecoveries, link.EffectiveBER))
		case link.Replays >= manyReplays, link.Recoveries >= manyRecoveries:
			words = append(words, fmt.Sprintf("link %d: %d replays, %d recoveries", link.Link, link.Replays, link.Recoveries))
		}
	}
	return strings.Join(words, ", ")
}

// activeLinks returns the number of NVLinks of a GPU that are up. It returns 0 if no NVLink is
// known or wired.
func activeLinks(card *facts.Card) int64 {
	links := valueOf(card.NVLinks)
	return int64(links.Count - len(links.Down))
}

func nvLinkSpeed(card *facts.Card) int64 { return valueOf(card.NVLinks).Speed }

func linkNames(links []int) string {
	return english.PluralWord(len(links), "link", "") + " " + indices(links)
}

// leastReplays is a number of replays greater than the few that every PCIe link has, whatever its
// uptime.
const leastReplays = 1000

// replaysPerMinute returns the number of replays per minute that a PCIe link may have. It
// corresponds to one wrong bit in 10^12 at full speed.
//
// Source: NVIDIA/DCGM of 2026-07, DcgmHealthWatch.cpp, GetExpectedPcieReplayRate; PCI Express Base
// Specification, the bit error rate of a lane.
func replaysPerMinute(link facts.PCILink) float64 {
	gigatransfers := []float64{2.5, 2.5, 5, 8, 16, 32, 64} // by generation of PCIe; index 0 stands for an unknown generation
	lane := gigatransfers[min(max(0, link.MaxGeneration), len(gigatransfers)-1)]
	return math.Ceil(lane * 1e9 * 60 * 1e-12 * float64(max(1, link.Width)))
}

var showPCIe = fix.On("nvidia-smi -q -d PCIE -i {gpus}").As(fix.Look)

func pcieRules(generation map[string]int64) []cardRule {
	return []cardRule{{checks.Finding{
		Verdict: checks.Warn,
		Summary: "GPUs use fewer PCIe lanes than GPU and slot support",
		Want:    "all lanes in use",
		Remedy:  []fix.Command{showPCIe, fix.Note("reseat the GPU, check riser and slot, and check whether the BIOS splits the slot")},
	}, func(_ *facts.Node, card *facts.Card) string {
		return when(card.Link.Width > 0 && card.Link.Width < card.Link.MaxWidth, "x%d of x%d", card.Link.Width, card.Link.MaxWidth)
	}}, {checks.Finding{
		Verdict: checks.Warn,
		Summary: "PCIe links of GPUs have a lower generation than on most GPUs of the model",
		Want:    "the same PCIe generation everywhere",
		Remedy:  []fix.Command{showPCIe, fix.Note("check slot, riser and the limit in the BIOS")},
	}, func(_ *facts.Node, card *facts.Card) string {
		most := generation[card.Name]
		return when(card.Link.MaxGeneration > 0 && int64(card.Link.MaxGeneration) < most, "generation %d, on most GPUs %d", card.Link.MaxGeneration, most)
	}}}
}

// replays is the rule that compares the counter of replays with the time during which the counter
// may have run.
var replays = cardRule{checks.Finding{
	Verdict: checks.Warn,
	Summary: "PCIe links of GPUs resend too many packets",
	Want:    "at most one wrong bit in 10^12",
	Remedy:  []fix.Command{showPCIe, fix.On("sudo dmesg -T | grep -i aer").As(fix.Look), fix.Note("reseat the GPU, and check riser and slot")},
}, func(node *facts.Node, card *facts.Card) string {
	replays := valueOf(card.Link.Replays)
	if allowed := replaysPerMinute(card.Link); float64(replays) >= max(leastReplays, allowed*uptime(node)/60) {
		return fmt.Sprintf("%d replays; such a link may have %.0f a minute", replays, allowed)
	}
	return ""
}}
