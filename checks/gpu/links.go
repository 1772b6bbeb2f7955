package gpu

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch/nccl"
)

var Links = checks.Check{
	ID:        "gpu-links",
	Title:     "the NVLinks and PCIe links of the GPUs are up, as wide and as fast as others of the model, and without floods of errors",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"gpu-fabric"},
	Volatile:  true,
	Doc: "NVLinks are compared with those of most GPUs of the model in the fleet, as what is down everywhere is not wired; behind NVSwitches every link must be up. A link down there is a failure, " +
		"as NCCL takes the GPUs of a machine for alike; between GPUs it is a warning, and so are slow links, many errors, a PCIe link of fewer lanes than GPU and slot could have or of a lower " +
		"generation than on most GPUs of the model, and many PCIe replays. What an idle GPU's PCIe link runs at now says nothing. Where the fabric manager is in trouble (gpu-fabric) and on GPUs " +
		"with MIG, NVLinks are not looked at.",
	WouldSee: "no message: traffic between GPUs takes a slower way",
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf, linkedOf := usedCards(view), linkedCards(view)
		up, speed := usual(nodes, linkedOf, linksUp), usual(nodes, linkedOf, nvLinkSpeed)
		generation := usual(nodes, cardsOf, func(card *facts.Card) int64 { return int64(card.Link.MaxGeneration) })
		direct, switched, pcie := nvLinkRules(false, up, speed), nvLinkRules(true, up, speed), pcieRules(generation)
		for _, node := range nodes {
			nvlink := direct
			if node.GPU != nil && node.GPU.NVSwitches > 0 {
				nvlink = switched
			}
			findings = append(findings, refusedFacts(view, node, linkedOf(node), neededForLinks, neededForWidth)...)
			findings = append(findings, firstOf(node, linkedOf(node), nvlink)...)
			findings = append(findings, firstOf(node, cardsOf(node), append(pcie, replayRule(uptime(node))))...)
		}
		return findings
	},
}

// neededForWidth is what a PCIe link is judged by.
var neededForWidth = essential{func(card *facts.Card) bool { return card.Link.Width == 0 }, []string{"nvmlDeviceGetCurrPcieLinkWidth"}}

// linkedCards are the GPUs of the launch whose NVLinks and peers can be judged:
// MIG takes both away, and so does a fabric that is not set up, of which gpu-fabric
// speaks.
func linkedCards(view checks.View) func(*facts.Node) []*facts.Card {
	cardsOf, sleeping := usedCards(view), view.Failing("gpu-fabric")
	return onceANode(func(node *facts.Node) (linked []*facts.Card) {
		if sleeping[node.Name] {
			return nil
		}
		for _, card := range cardsOf(node) {
			if card.MIG != "enabled" {
				linked = append(linked, card)
			}
		}
		return linked
	})
}

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
	return []cardRule{{checks.Finding{
		Summary:  "NVLinks to the NVSwitches are down",
		Want:     "every link active: reset the GPUs, else reseat or replace the GPU or its board",
		Remedy:   []fix.Command{showLinks, fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`), resetGPU, fix.On("sudo systemctl restart nvidia-fabricmanager   # after it")},
		WouldSee: "P2P is disabled between NVLINK connected GPUs, or CUDA failure in NVLS setup",
	}, func(card *facts.Card) string {
		if card.NVLinks == nil || !switched && card.NVLinks.RemoteKind != "switch" {
			return ""
		}
		return downLinks(card, int64(card.NVLinks.Count))
	}}, {checks.Finding{
		Verdict: checks.Warn,
		Summary: "NVLinks are down that other GPUs of the model have up",
		Want:    "as many links as on most GPUs of the model: look at bridges, boards and cables",
		Remedy:  []fix.Command{showLinks, fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`)},
	}, func(card *facts.Card) string { return downLinks(card, up[card.Name]) }}, {checks.Finding{
		Verdict: checks.Warn,
		Summary: "NVLinks are slower than they could be",
		Want:    "full speed on every link",
		Remedy:  []fix.Command{showLinks, resetGPU},
	}, func(card *facts.Card) string {
		links := card.NVLinks
		switch {
		case links == nil:
			return ""
		case len(links.Slow) > 0:
			return fmt.Sprintf("%s slower than %s", linkNames(links.Slow), nccl.Gigabits(links.Speed))
		case links.Speed > 0 && links.Speed < speed[card.Name]:
			return fmt.Sprintf("%s of %s on most GPUs of the model", nccl.Gigabits(links.Speed), nccl.Gigabits(speed[card.Name]))
		}
		return ""
	}}, {checks.Finding{
		Verdict:  checks.Warn,
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
	return []cardRule{{checks.Finding{
		Verdict: checks.Warn,
		Summary: "GPUs have fewer PCIe lanes than they could have",
		Want:    "all lanes: reseat the GPU, look at riser and slot, and for a BIOS that splits the slot",
		Remedy:  []fix.Command{showPCIe},
	}, func(card *facts.Card) string {
		if card.Link.Width == 0 || card.Link.Width >= card.Link.MaxWidth {
			return ""
		}
		return fmt.Sprintf("x%d of x%d", card.Link.Width, card.Link.MaxWidth)
	}}, {checks.Finding{
		Verdict: checks.Warn,
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
	return cardRule{checks.Finding{
		Verdict: checks.Warn,
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
