package fabric

import (
	"fmt"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

var Links = checks.Check{
	ID:       "ib-links",
	Title:    "the InfiniBand and RoCE ports NCCL will use are up, at full rate and addressable",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionIB},
	Doc: "NCCL uses every ACTIVE port of the adapters that NCCL_IB_HCA selects, and falls back to TCP without a word where there is none; ranks that " +
		"fell back cannot talk to ranks that did not. A port that is down everywhere is taken for unused, one that is down here and up on most nodes is not. " +
		"It also takes libibverbs with the adapters' driver and /dev/infiniband/uverbs*, which containers often lack, a usable GID for RoCE, and ports of one link layer. " +
		"Ports slower than their like on other nodes are warned of, and adapters whose PCIe slot is.",
	WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
	Run:      judgePorts,
}

func judgePorts(view checks.View) []checks.Finding {
	nodes, reason := ranks.UsingIB(view)
	if reason != "" {
		return checks.Skipped(reason)
	}
	findings := downPorts(view, nodes)
	down := map[string]bool{}
	for _, f := range findings {
		down[f.Nodes[0]] = true
	}
	networks, someWork := map[*facts.Node]nccl.Network{}, false
	for _, node := range nodes {
		networks[node] = ranks.NCCLNetwork(view, node)
		someWork = someWork || len(networks[node].Ports) > 0
	}
	hasV2 := portsWithV2(networks)
	for _, node := range nodes {
		network := networks[node]
		switch {
		case network.Obstacle == nccl.ObstacleInactive && down[node.Name]: // told
		case network.Obstacle != "":
			findings = append(findings, obstructed(view, node, network, someWork)...)
		default:
			findings = append(findings, overIWARP(view, node, network.Ports)...)
			findings = append(findings, mixedLayers(view, node, network.Ports)...)
			findings = append(findings, unaddressable(view, node, network.Ports, hasV2)...)
		}
	}
	findings = append(append(findings, slowPorts(view, nodes)...), narrowSlots(networks, nodes)...)
	if !someWork && len(findings) == 0 {
		return checks.Skipped("no InfiniBand or RoCE port is up on any node")
	}
	return findings
}

// placedPort is one node's port of a name that several nodes have.
type placedPort struct {
	node *facts.Node
	*facts.IBPort
}

// portsByName gathers the ports that bear one name ("mlx5_0:1"), in the order
// of nodes; names come in the order they are met. Ports that NCCL_IB_HCA leaves out
// do not matter.
func portsByName(view checks.View, nodes []*facts.Node) (names []string, ports map[string][]placedPort) {
	ports = map[string][]placedPort{}
	for _, node := range nodes {
		selected := selectedPorts(view, node)
		for _, device := range node.IB.Devices {
			for i := range device.Ports {
				port := &device.Ports[i]
				if !selected(device.Name, port.Port) {
					continue
				}
				name := device.Name + ":" + strconv.Itoa(port.Port)
				if ports[name] == nil {
					names = append(names, name)
				}
				ports[name] = append(ports[name], placedPort{node, port})
			}
		}
	}
	return names, ports
}

// selectedPorts is what NCCL_IB_HCA leaves in on a node, up or down.
func selectedPorts(view checks.View, node *facts.Node) func(name string, port int) bool {
	given := ranks.Env(view, node)["NCCL_IB_HCA"].Value
	return func(name string, port int) bool {
		return given == "" || len(nccl.MatchHCA(given, []nccl.Device{{Name: name, Port: port}})) > 0
	}
}

// downPorts finds ports that are not ACTIVE although at least half of the
// nodes' are: a port that is mostly down is not in use.
func downPorts(view checks.View, nodes []*facts.Node) []checks.Finding {
	down := map[*facts.Node][]string{}
	names, ports := portsByName(view, nodes)
	for _, name := range names {
		active := 0
		for _, port := range ports[name] {
			if port.State == "ACTIVE" {
				active++
			}
		}
		for _, port := range ports[name] {
			if port.State != "ACTIVE" && 2*active >= len(ports[name]) {
				down[port.node] = append(down[port.node], strings.TrimSpace(fmt.Sprintf("%s %s %s", name, port.State, port.Physical)))
			}
		}
	}
	return portFindings(nodes, down, checks.Finding{
		Summary:  "ports are not up that are up on other nodes",
		Want:     "ACTIVE LinkUp (Polling: cable or switch port; INIT: no subnet manager; Disabled: switched off)",
		WouldSee: "NET/IB : Got async event : port error, or TCP from this node only",
		Remedy:   []fix.Command{fix.On("ibstat")},
	})
}

// slowPorts finds ACTIVE ports slower than the rate most of the nodes have on
// them, the higher one of two that are as common.
func slowPorts(view checks.View, nodes []*facts.Node) []checks.Finding {
	slow := map[*facts.Node][]string{}
	names, ports := portsByName(view, nodes)
	for _, name := range names {
		common, count := int64(0), map[int64]int{}
		for _, port := range ports[name] {
			if port.State != "ACTIVE" {
				continue
			}
			count[port.Rate]++
			n := count[port.Rate]
			if n > count[common] || n == count[common] && port.Rate > common {
				common = port.Rate
			}
		}
		for _, port := range ports[name] {
			if port.State == "ACTIVE" && port.Rate < common {
				slow[port.node] = append(slow[port.node], fmt.Sprintf("%s %s (%s) of %s", name, nccl.Gigabits(port.Rate), port.Width, nccl.Gigabits(common)))
			}
		}
	}
	return portFindings(nodes, slow, checks.Finding{
		Verdict:  checks.Warn,
		Summary:  "ports are slower than on other nodes",
		Want:     "the full number of lanes at full speed: see cable, module and switch port",
		WouldSee: "no message: every collective is as slow as its slowest port",
		Remedy:   []fix.Command{fix.On("ibstatus")},
	})
}

// portFindings is one finding a node, made from a template and what it lacks.
func portFindings(nodes []*facts.Node, got map[*facts.Node][]string, template checks.Finding) []checks.Finding {
	var findings []checks.Finding
	for _, node := range nodes {
		if got[node] != nil {
			f := template
			f.Nodes, f.Got = []string{node.Name}, strings.Join(got[node], ", ")
			findings = append(findings, f)
		}
	}
	return findings
}
