package checks

import (
	"fmt"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// placedPort is one node's port of a name that several nodes have.
type placedPort struct {
	node *facts.Node
	*facts.IBPort
}

// portsByName gathers the ports that bear one name ("mlx5_0:1"), in the order
// of nodes; names come in the order they are met. Ports that NCCL_IB_HCA leaves out
// do not matter.
func portsByName(view View, nodes []*facts.Node) (names []string, ports map[string][]placedPort) {
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
func selectedPorts(view View, node *facts.Node) func(name string, port int) bool {
	given := rankEnv(view, node)["NCCL_IB_HCA"].Value
	return func(name string, port int) bool {
		return given == "" || len(launch.MatchHCA(given, []launch.Device{{Name: name, Port: port}})) > 0
	}
}

// downPorts finds ports that are not ACTIVE although at least half of the
// nodes' are: a port that is mostly down is not in use.
func downPorts(view View, nodes []*facts.Node) []Finding {
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
	return portFindings(nodes, down, Finding{
		Summary:  "ports are not up that are up on other nodes",
		Want:     "ACTIVE LinkUp (Polling: cable or switch port; INIT: no subnet manager; Disabled: switched off)",
		WouldSee: "NET/IB : Got async event : port error, or TCP from this node only",
		Remedy:   []fix.Command{fix.On("ibstat")},
	})
}

// slowPorts finds ACTIVE ports slower than the rate most of the nodes have on
// them, the higher one of two that are as common.
func slowPorts(view View, nodes []*facts.Node) []Finding {
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
				slow[port.node] = append(slow[port.node], fmt.Sprintf("%s %s (%s) of %s", name, gigabits(port.Rate), port.Width, gigabits(common)))
			}
		}
	}
	return portFindings(nodes, slow, Finding{
		Verdict:  Warn,
		Summary:  "ports are slower than on other nodes",
		Want:     "the full number of lanes at full speed: see cable, module and switch port",
		WouldSee: "no message: every collective is as slow as its slowest port",
		Remedy:   []fix.Command{fix.On("ibstatus")},
	})
}

func gigabits(rate int64) string { return fmt.Sprintf("%g Gbit/s", float64(rate)/1e9) }

// portFindings is one finding a node, made from a template and what it lacks.
func portFindings(nodes []*facts.Node, got map[*facts.Node][]string, template Finding) []Finding {
	var findings []Finding
	for _, node := range nodes {
		if got[node] != nil {
			f := template
			f.Nodes, f.Got = []string{node.Name}, strings.Join(got[node], ", ")
			findings = append(findings, f)
		}
	}
	return findings
}
