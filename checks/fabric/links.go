// SPDX-License-Identifier: Apache-2.0

// Package fabric checks InfiniBand and RoCE with the settings that NCCL will use. It checks ports,
// addresses and drivers, and whether the adapters of all nodes can connect to each other.
//
// It cannot say that data passes, because no test sends data over RDMA.
package fabric

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var Links = checks.Check{
	ID:       "ib-links",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Run:      judgePorts,
}

func judgePorts(view checks.View) []checks.Finding {
	nodes, reason := ranks.UsingIB(view)
	if reason != "" {
		return checks.Skipped(reason)
	}
	all := portsOf(view, nodes)
	findings := all.down()
	down := map[string]bool{}
	for _, f := range findings {
		down[f.Nodes[0]] = true
	}
	networks, someWork := make(map[*facts.Node]*nccl.Network, len(nodes)), false
	for _, node := range nodes {
		networks[node] = ranks.NCCLNetwork(view, node)
		someWork = someWork || len(networks[node].Ports) > 0
	}
	hasV2 := portsWithV2(view, networks)
	for _, node := range nodes {
		network := networks[node]
		switch {
		case network.Obstacle == nccl.ObstacleInactive && down[node.Name]: // the inactive port is already reported
		case network.Obstacle != "":
			findings = append(findings, checks.OfNode(node, obstructed(view, node, network, someWork)...)...)
		default:
			taken := network.Ports
			found := slices.Concat(takenByBeginning(view, node), overIWARP(view, node, taken), managing(view, node, taken), mixedLayers(view, node, forData(node, taken)), unaddressable(view, node, taken, hasV2))
			findings = append(findings, checks.OfNode(node, found...)...)
		}
	}
	findings = append(append(findings, all.slow()...), narrowSlots(networks, nodes)...)
	if !someWork && len(findings) == 0 {
		return checks.Skipped("no InfiniBand or RoCE port is up on any node")
	}
	return findings
}

// ports holds the ports of some nodes by name, such as "mlx5_0:1".
type ports struct {
	nodes []*facts.Node
	names []string // the names of the ports, in the order of the nodes
	on    map[string]map[*facts.Node]*facts.IBPort
}

func isActive(port *facts.IBPort) bool { return port != nil && port.State == "ACTIVE" }

// portsOf returns the ports of the nodes, without the ports that NCCL_IB_HCA excludes.
func portsOf(view checks.View, nodes []*facts.Node) ports {
	p := ports{nodes: nodes, on: map[string]map[*facts.Node]*facts.IBPort{}}
	type place struct {
		device string
		port   int
	}
	at := map[place]map[*facts.Node]*facts.IBPort{}
	for _, node := range nodes {
		given := ranks.Env(view, node).Get("NCCL_IB_HCA").Value
		for d := range node.IB.Devices {
			device := &node.IB.Devices[d]
			for i := range device.Ports {
				port := &device.Ports[i]
				if given != "" && len(nccl.MatchHCA(given, []nccl.Device{{Name: device.Name, Port: port.Port}})) == 0 {
					continue
				}
				here := at[place{device.Name, port.Port}]
				if here == nil {
					here = map[*facts.Node]*facts.IBPort{}
					name := device.Name + ":" + strconv.Itoa(port.Port)
					at[place{device.Name, port.Port}], p.on[name], p.names = here, here, append(p.names, name)
				}
				here[node] = port
			}
		}
	}
	return p
}

// down returns findings for ports that are not ACTIVE on a node but are on at least half of the
// nodes. A port that is down on most nodes is not in use.
func (p ports) down() []checks.Finding {
	down := map[*facts.Node][]string{}
	for _, name := range p.names {
		inactive := 0
		for _, port := range p.on[name] {
			if !isActive(port) {
				inactive++
			}
		}
		if inactive == 0 || 2*inactive > len(p.on[name]) {
			continue
		}
		for node, port := range p.on[name] {
			if !isActive(port) {
				down[node] = append(down[node], strings.TrimSpace(fmt.Sprintf("%s %s %s", name, port.State, port.Physical)))
			}
		}
	}
	return portFindings(p.nodes, down, ", ", checks.Finding{
		Summary:  "some ports are down, but up on other nodes",
		Want:     "ACTIVE LinkUp",
		WouldSee: "NET/IB : Got async event : port error, or TCP from this node only",
		Remedy: []fix.Command{
			fix.On("ibstat").As(fix.Look),
			fix.Note("check the cable and the switch port (Polling), start a subnet manager (INIT), or enable the port (Disabled)"),
		},
	})
}

// slow returns findings for ACTIVE ports with a lower rate than most nodes have on that port. If
// two rates are equally common, the higher one counts.
func (p ports) slow() []checks.Finding {
	slow := map[*facts.Node][]string{}
	for _, name := range p.names {
		common, count := int64(0), map[int64]int{}
		for _, port := range p.on[name] {
			if isActive(port) {
				count[port.Rate]++
			}
		}
		for rate, n := range count {
			if n > count[common] || n == count[common] && rate > common {
				common = rate
			}
		}
		for node, port := range p.on[name] {
			if isActive(port) && port.Rate < common {
				slow[node] = append(slow[node], fmt.Sprintf("%s %s (%s), on most nodes %s", name, text.BitRate(float64(port.Rate)), port.Width, text.BitRate(float64(common))))
			}
		}
	}
	return portFindings(p.nodes, slow, ", ", checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "ports are slower than on other nodes",
		Want:     "all lanes at full speed",
		WouldSee: "no message: every collective is as slow as its slowest port",
		Remedy:   []fix.Command{fix.On("ibstatus").As(fix.Look), fix.Note("check cable, module and switch port")},
	})
}

func portFindings(nodes []*facts.Node, got map[*facts.Node][]string, separator string, template checks.Finding) (findings []checks.Finding) {
	for _, node := range nodes {
		if got[node] != nil {
			f := template
			f.Nodes, f.Got = []string{node.Name}, strings.Join(got[node], separator)
			findings = append(findings, f)
		}
	}
	return findings
}

// narrowSlots warns about adapters whose PCIe link is below its maximum and carries less than the
// ports of the adapter. It also warns about adapters with a slower link than on most nodes. A link
// is fine if it runs at the maximum of adapter and slot.
func narrowSlots(networks map[*facts.Node]*nccl.Network, nodes []*facts.Node) []checks.Finding {
	common := commonLinks(networks, nodes)
	narrow := map[*facts.Node][]string{}
	for _, node := range nodes {
		for _, carried := range carriages(networks[node].Ports) {
			now, most := pcieRate(carried.adapter.PCIe), pcieRate(carried.adapter.MaxPCIe)
			switch usual := common[carried.adapter.Name]; {
			case now == 0:
			case now < most && now < float64(carried.rate):
				narrow[node] = append(narrow[node], fmt.Sprintf("%s %s, but %s is possible and the ports carry %s", carried.adapter.Name, carried.adapter.PCIe, carried.adapter.MaxPCIe, text.BitRate(float64(carried.rate))))
			case now < pcieRate(usual):
				narrow[node] = append(narrow[node], fmt.Sprintf("%s %s, on most nodes %s", carried.adapter.Name, carried.adapter.PCIe, usual))
			}
		}
	}
	return portFindings(nodes, narrow, "; ", checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "the PCIe links of adapters are narrower or slower than possible",
		Want:     "every lane of the slot at full speed",
		WouldSee: "no message: every collective is as slow as its slowest adapter",
		Remedy: []fix.Command{
			fix.On(`sudo lspci -vv -d 15b3: | grep -E "^[0-9a-f]|LnkCap:|LnkSta:"`).As(fix.Look),
			fix.Note("reseat the card, check its riser, and check the slot's setting in the firmware"),
		},
	})
}

// carriage is an adapter, together with the total rate of its ports in bit/s.
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

func commonLinks(networks map[*facts.Node]*nccl.Network, nodes []*facts.Node) map[string]string {
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

// pcieRate returns the rate in one direction, in bit/s, of a link such as "16.0 GT/s PCIe x8". The
// rate is one bit per transfer and lane, minus the line code: 8b/10b up to 5 GT/s, and 128b/130b
// above (PCI Express Base Specification 3.0). It returns 0 if the text does not describe a link.
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

// partitionKey returns the partition key that NCCL uses: the key in slot 0, or in the slot that
// NCCL_IB_PKEY names. It returns "" if the slot is empty.
func partitionKey(view checks.View, node *facts.Node, port *facts.IBPort) string {
	slot, _ := nccl.Number(ranks.Env(view, node).Get("NCCL_IB_PKEY").Value)
	at := int(slot)
	if port.PKeySlots != nil {
		at = slices.Index(port.PKeySlots, int(slot))
	}
	if at < 0 || at >= len(port.PKeys) {
		return ""
	}
	return port.PKeys[at]
}

// partition returns a function that returns the partition of NCCL's key. The partition is the key
// without the bit for full membership.
func partition(view checks.View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		spelled := partitionKey(view, node, port)
		key, isNumber := nccl.Number(spelled)
		if !isNumber {
			return spelled
		}
		return fmt.Sprintf("0x%04x", key&^fullMember)
	}
}

// limitedMembers returns findings for ports that are limited members of their partition on several
// nodes. A limited member can only connect to full members.
func (p ports) limitedMembers(view checks.View) []checks.Finding {
	limited := map[*facts.Node][]string{}
	for _, name := range p.names {
		var those []*facts.Node
		for _, node := range p.nodes {
			port := p.on[name][node]
			if !isActive(port) || port.LinkLayer != "InfiniBand" {
				continue
			}
			if key, isNumber := nccl.Number(partitionKey(view, node, port)); isNumber && key&fullMember == 0 {
				those = append(those, node)
			}
		}
		if len(those) < 2 {
			continue
		}
		for _, node := range those {
			limited[node] = append(limited[node], name+" "+partitionKey(view, node, p.on[name][node]))
		}
	}
	return portFindings(p.nodes, limited, ", ", checks.Finding{
		Summary:  "ports are limited members of their partition and cannot connect to each other",
		Want:     "full membership, which sets the top bit of the key (0xffff, not 0x7fff)",
		WouldSee: "Got completion from peer … with status=12 (retry exceeded)",
		Remedy: []fix.Command{
			fix.On("grep . /sys/class/infiniband/*/ports/*/pkeys/* | grep -v 0x0000").As(fix.Look),
			fix.Note("grant full membership in the subnet manager's partitions.conf, or set NCCL_IB_PKEY to the slot of a full member's key"),
		},
	})
}
