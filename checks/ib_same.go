package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var ibSame = Check{
	ID:       "ib-same",
	Title:    "all nodes have the same RDMA adapters, link layers, partitions and firmware",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionIB},
	Doc: "A node without an adapter falls back to TCP and cannot talk to the others; a port that is InfiniBand here and Ethernet there cannot connect, " +
		"nor can ports whose first partition key, the one NCCL uses, differs. Another number of adapters, another model, firmware or subnet manager works and is warned of.",
	WouldSee: "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [0]mlx5_0:1/RoCE",
	Run:      judgeAdapters,
}

func judgeAdapters(view View) []Finding {
	nodes, reason := usingIB(view)
	if reason != "" {
		return skip(reason)
	}
	var findings []Finding
	for _, node := range nodes {
		if len(node.IB.Devices) == 0 {
			findings = append(findings, Finding{
				Nodes:    []string{node.Name},
				Summary:  "no RDMA adapter, where other nodes have some",
				Want:     deviceNames(withDevices(nodes)[0]) + ", as on " + withDevices(nodes)[0].Name,
				WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
				Fix:      []string{"{ssh} 'lspci -nn | grep -iE \"infiniband|mellanox\"; lsmod | grep _ib'"},
			})
		}
	}
	nodes = withDevices(nodes)
	compare := func(what string, verdict Verdict, wouldSee, fix string, aspects []aspect) {
		for _, d := range differences(nodes, aspects) {
			// A port that one side does not have is told with the adapters.
			d.Deviations = slices.DeleteFunc(d.Deviations, func(dev deviation) bool {
				return d.Split && strings.Contains(dev.Got, shown("")+" on ") || !d.Split && (dev.Got == "" || dev.Want == "")
			})
			if len(d.Deviations) == 0 {
				continue
			}
			f := d.finding(what)
			f.Verdict, f.WouldSee, f.Fix = verdict, wouldSee, []string{fix}
			findings = append(findings, f)
		}
	}
	layer := func(p facts.IBPort) string { return p.LinkLayer }
	manager := func(p facts.IBPort) string {
		if p.LinkLayer != "InfiniBand" || p.State != "ACTIVE" {
			return ""
		}
		return fmt.Sprint(p.SMLID)
	}
	compare("link layers", Fail, "", "{ssh} ibstat", portAspects(nodes, " link layer", layer))
	compare("partitions", Fail, "Got completion from peer … with status=12 (retry exceeded)", "{ssh} 'grep . /sys/class/infiniband/*/ports/*/pkeys/0'",
		portAspects(nodes, " partition", firstPartition))
	compare("subnet managers", Warn, "nothing, if the ports are on one fabric", "{ssh} sudo sminfo", portAspects(nodes, " subnet manager LID", manager))
	compare("adapters", Warn, "Detected mixed local Net device counts across ranks", "{ssh} ibv_devinfo -l",
		[]aspect{{"adapters", deviceNames}})
	compare("adapter models", Warn, "nothing as a rule", "{ssh} ibv_devinfo", deviceAspects(nodes, " model", func(d facts.HCA) string { return d.Type }))
	compare("firmware versions", Warn, "nothing as a rule; stalls and link errors that only some nodes show", "{ssh} sudo mlxfwmanager --query",
		deviceAspects(nodes, " firmware", func(d facts.HCA) string { return d.Firmware }))
	return findings
}

// firstPartition is the partition of the key that NCCL uses (NCCL_IB_PKEY is 0
// unless set), without the bit that says whether as a full member.
func firstPartition(port facts.IBPort) string {
	if len(port.PKeys) == 0 {
		return ""
	}
	key, isNumber := launch.Number(port.PKeys[0])
	if !isNumber {
		return port.PKeys[0]
	}
	return fmt.Sprintf("0x%04x", key&0x7fff)
}

// portAspects are one aspect for each port that any node has.
func portAspects(nodes []*facts.Node, label string, value func(facts.IBPort) string) []aspect {
	var aspects []aspect
	names, ports := portsByName(nodes)
	for _, name := range names {
		values := map[*facts.Node]string{}
		for _, port := range ports[name] {
			values[port.node] = value(*port.IBPort)
		}
		aspects = append(aspects, aspect{name + label, func(n *facts.Node) string { return values[n] }})
	}
	return aspects
}

func deviceAspects(nodes []*facts.Node, label string, value func(facts.HCA) string) []aspect {
	var aspects []aspect
	seen := map[string]bool{}
	for _, node := range nodes {
		for _, device := range node.IB.Devices {
			if seen[device.Name] {
				continue
			}
			seen[device.Name] = true
			aspects = append(aspects, aspect{device.Name + label, func(n *facts.Node) string {
				for _, d := range n.IB.Devices {
					if d.Name == device.Name {
						return value(d)
					}
				}
				return ""
			}})
		}
	}
	return aspects
}

func withDevices(nodes []*facts.Node) []*facts.Node {
	var some []*facts.Node
	for _, node := range nodes {
		if len(node.IB.Devices) > 0 {
			some = append(some, node)
		}
	}
	return some
}
