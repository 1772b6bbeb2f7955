package fabric

import (
	"fmt"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch/nccl"
)

// narrowSlots warns of adapters whose PCIe link is narrower or slower than it could be
// and, by that, than what their ports carry; and of those whose like on most nodes has
// a faster one. A link that is as fast as adapter and slot can is nobody's fault.
func narrowSlots(networks map[*facts.Node]nccl.Network, nodes []*facts.Node) []checks.Finding {
	common := commonLinks(networks, nodes)
	var findings []checks.Finding
	for _, node := range nodes {
		var got []string
		for _, carried := range carriages(networks[node].Ports) {
			now, most := pcieRate(carried.adapter.PCIe), pcieRate(carried.adapter.MaxPCIe)
			switch usual := common[carried.adapter.Name]; {
			case now == 0:
			case now < most && now < float64(carried.rate):
				got = append(got, fmt.Sprintf("%s %s, where %s is possible and its ports carry %s", carried.adapter.Name, carried.adapter.PCIe, carried.adapter.MaxPCIe, nccl.Gigabits(carried.rate)))
			case now < pcieRate(usual):
				got = append(got, fmt.Sprintf("%s %s, where other nodes have %s", carried.adapter.Name, carried.adapter.PCIe, usual))
			}
		}
		if got != nil {
			findings = append(findings, checks.Finding{
				Verdict:  checks.Warn,
				Nodes:    []string{node.Name},
				Summary:  "adapters run on a narrower or slower PCIe link than they could",
				Got:      strings.Join(got, "; "),
				Want:     "every lane of the slot: see how the card sits, its riser, and the slot's setting in the firmware",
				WouldSee: "no message: every collective is as slow as its slowest adapter",
				Remedy:   []fix.Command{fix.On(`sudo lspci -vv -d 15b3: | grep -E "^[0-9a-f]|LnkCap:|LnkSta:"`)},
			})
		}
	}
	return findings
}

// carriage is an adapter and what its ports together carry in bit/s.
type carriage struct {
	adapter *facts.HCA
	rate    int64
}

func carriages(ports []nccl.HCAPort) (all []carriage) {
	for _, port := range ports {
		if n := len(all); n > 0 && all[n-1].adapter == port.Adapter {
			all[n-1].rate += port.Rate
			continue
		}
		all = append(all, carriage{port.Adapter, port.Rate})
	}
	return all
}

// commonLinks are the links that more than half of the nodes have, by adapter.
func commonLinks(networks map[*facts.Node]nccl.Network, nodes []*facts.Node) map[string]string {
	count, total, common := map[[2]string]int{}, map[string]int{}, map[string]string{}
	for _, node := range nodes {
		for _, carried := range carriages(networks[node].Ports) {
			name, link := carried.adapter.Name, carried.adapter.PCIe
			total[name]++
			count[[2]string{name, link}]++
		}
	}
	for key, n := range count {
		if 2*n > total[key[0]] {
			common[key[0]] = key[1]
		}
	}
	return common
}

// pcieRate is what a link "16.0 GT/s PCIe x8" carries one way in bit/s: one bit a
// transfer and lane, less the line code, 8b/10b up to 5 GT/s and 128b/130b above (PCI
// Express Base Specification 3.0). 0 for what is not told.
func pcieRate(link string) float64 {
	speed, lanes, _ := strings.Cut(link, " GT/s PCIe x")
	transfers, err := strconv.ParseFloat(speed, 64)
	width, notWidth := strconv.Atoi(lanes)
	if err != nil || notWidth != nil {
		return 0
	}
	code := 128.0 / 130
	if transfers <= 5 {
		code = 0.8
	}
	return transfers * 1e9 * code * float64(width)
}
