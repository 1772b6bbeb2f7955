package checks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// byPort is one comparison for each port that any node has.
func byPort(view View, nodes []*facts.Node, label string, value func(*facts.Node, *facts.IBPort) string) (all []comparison) {
	names, ports := portsByName(view, nodes)
	for _, name := range names {
		values := map[*facts.Node]string{}
		for _, port := range ports[name] {
			values[port.node] = value(port.node, port.IBPort)
		}
		all = append(all, among(nodes, name+label, func(n *facts.Node) string { return values[n] }))
	}
	return all
}

func byDevice(nodes []*facts.Node, label string, value func(facts.HCA) string) (all []comparison) {
	seen := map[string]bool{}
	for _, node := range nodes {
		for _, device := range node.IB.Devices {
			if seen[device.Name] {
				continue
			}
			seen[device.Name] = true
			all = append(all, among(nodes, device.Name+label, func(n *facts.Node) string {
				for _, d := range n.IB.Devices {
					if d.Name == device.Name {
						return value(d)
					}
				}
				return ""
			}))
		}
	}
	return all
}

func linkLayer(_ *facts.Node, port *facts.IBPort) string { return port.LinkLayer }

// takenLayer is the one link layer of the ports that NCCL takes, "" for none and for
// two, which ib-links speaks of.
func takenLayer(view View, node *facts.Node) string {
	layer := ""
	for _, port := range ncclNetwork(view, node).Ports {
		if layer != "" && layer != port.LinkLayer {
			return ""
		}
		layer = port.LinkLayer
	}
	return layer
}

// partition is that of the key that NCCL uses, the one in slot 0 unless NCCL_IB_PKEY
// names another, without the bit that says whether as a full member.
func partition(view View) func(*facts.Node, *facts.IBPort) string {
	return func(node *facts.Node, port *facts.IBPort) string {
		slot, _ := launch.Number(rankEnv(view, node)["NCCL_IB_PKEY"].Value)
		at := int(slot)
		if port.PKeySlots != nil {
			at = slices.Index(port.PKeySlots, int(slot))
		}
		if at < 0 || at >= len(port.PKeys) {
			return ""
		}
		key, isNumber := launch.Number(port.PKeys[at])
		if !isNumber {
			return port.PKeys[at]
		}
		return fmt.Sprintf("0x%04x", key&0x7fff)
	}
}

// subnetPrefix is the first half of an InfiniBand port's address. Ports of two subnets
// meet through a router only, for which their addresses carry an FLID.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc, ncclIbExtractFlid.
func subnetPrefix(_ *facts.Node, port *facts.IBPort) string {
	if port.LinkLayer != "InfiniBand" || port.State != "ACTIVE" || len(port.GIDs) == 0 || port.GIDs[0].Index != 0 {
		return ""
	}
	address, err := netip.ParseAddr(port.GIDs[0].GID)
	if err != nil {
		return ""
	}
	raw := address.As16()
	if raw[4] != 0 || raw[5] != 0 {
		return ""
	}
	half, _ := address.Prefix(64) // fails for IPv4 only
	return half.String()
}

func managerLID(_ *facts.Node, port *facts.IBPort) string {
	if port.LinkLayer != "InfiniBand" || port.State != "ACTIVE" {
		return ""
	}
	return fmt.Sprint(port.SMLID)
}

// unlikeCounts are nodes on which NCCL uses another number of ports although the same
// adapters are up: NCCL_IB_HCA in a node's own files, or device nodes that a container
// was not given.
func unlikeCounts(view View, nodes []*facts.Node) []difference {
	up := func(node *facts.Node) string {
		var ports []string
		for _, device := range node.IB.Devices {
			for _, port := range device.Ports {
				ports = append(ports, fmt.Sprint(device.Name, port.Port, port.State))
			}
		}
		return strings.Join(ports, " ")
	}
	alike := groupBy(nodes, up)
	inLargest := map[string]bool{}
	for _, name := range alike[0].Nodes {
		inLargest[name] = true
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return !inLargest[n.Name] })
	return onBothSides(compare(among(nodes, "ports", func(n *facts.Node) string {
		if count := len(ncclNetwork(view, n).Ports); count > 0 {
			return fmt.Sprint(count)
		}
		return ""
	})))
}
