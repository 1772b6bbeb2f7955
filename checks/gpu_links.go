package checks

import "preflight/facts"

var gpuLinks = Check{
	ID:        "gpu-links",
	Title:     "the NVLinks and PCIe links of the GPUs are up, as wide and as fast as others of the model, and without floods of errors",
	Severity:  Error,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"gpu-fabric"},
	Volatile:  true,
	Doc: "NVLinks are compared with those of most GPUs of the model in the fleet, as what is down everywhere is not wired; behind NVSwitches every link must be up. A link down there is a failure, " +
		"as NCCL takes the GPUs of a machine for alike; between GPUs it is a warning, and so are slow links, many errors, a PCIe link of fewer lanes than GPU and slot could have or of a lower " +
		"generation than on most GPUs of the model, and many PCIe replays. What an idle GPU's PCIe link runs at now says nothing. Where the fabric manager is in trouble (gpu-fabric) and on GPUs " +
		"with MIG, NVLinks are not looked at.",
	WouldSee: "no message: traffic between GPUs takes a slower way",
	Run: func(view View) []Finding {
		nodes, findings := judgedGPUs(view)
		cardsOf, linkedOf := launchCards(view), linkedCards(view)
		up, speed := usual(nodes, linkedOf, linksUp), usual(nodes, linkedOf, nvLinkSpeed)
		generation := usual(nodes, cardsOf, func(card *facts.Card) int64 { return int64(card.Link.MaxGeneration) })
		direct, switched, pcie := nvLinkRules(false, up, speed), nvLinkRules(true, up, speed), pcieRules(generation)
		for _, node := range nodes {
			nvlink := direct
			if node.GPU != nil && node.GPU.NVSwitches > 0 {
				nvlink = switched
			}
			findings = append(findings, refusedFacts(view, node, linkedOf(node), linksTold, widthTold)...)
			findings = append(findings, firstOf(node, linkedOf(node), nvlink)...)
			findings = append(findings, firstOf(node, cardsOf(node), append(pcie, replayRule(uptime(node))))...)
		}
		return findings
	},
}

// widthTold is what a PCIe link is judged by.
var widthTold = essential{func(card *facts.Card) bool { return card.Link.Width == 0 }, []string{"nvmlDeviceGetCurrPcieLinkWidth"}}

// linkedCards are the GPUs of the launch whose NVLinks and peers can be judged:
// MIG takes both away, and so does a fabric that is not set up, of which gpu-fabric
// speaks.
func linkedCards(view View) func(*facts.Node) []*facts.Card {
	cardsOf, sleeping := launchCards(view), view.Failing("gpu-fabric")
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
