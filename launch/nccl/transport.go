// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
)

// Transport is what ranks use to communicate, and why.
type Transport struct {
	// Name is NVLink, PCIe, shared memory, InfiniBand, RoCE, sockets or the name of a network
	// plugin. It is "" if there is no other rank, or if nothing is known.
	Name string `json:"name"`
	// Detail describes the transport further: "NV18 between all 8 GPUs", "mlx5_0 … mlx5_7, 8 × 400
	// Gbit/s, GPUDirect".
	Detail string `json:"detail,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Transports predicts what the ranks of a fleet's nodes use to communicate.
type Transports struct {
	launch.Prediction
	gpusUsed func(*facts.Node) []int
	domains  nvlinkDomains
}

// NewTransports reads the facts of all nodes at once, because NVLink may connect GPUs of several
// nodes.
func NewTransports(p launch.Prediction, nodes []facts.Node) Transports {
	t := Transports{Prediction: p, gpusUsed: p.GPUsUsed()}
	t.domains = t.findDomains(nodes)
	return t
}

// Between returns what the ranks of a node will use to reach other nodes: NCCL's choice, or gloo's
// sockets if the ranks compute on the CPU.
func (t Transports) Between(node *facts.Node) Transport {
	switch {
	case len(t.Hosts) < 2:
		return Transport{}
	case t.Accelerator == "cpu":
		choice := Gloo(t.Prediction, node)
		return sockets(node, []Choice{choice}, "gloo talks TCP")
	case t.domains.altered:
		return Transport{}
	}
	return t.acrossDomain(node, overNetwork(t.Prediction, node))
}

func overNetwork(p launch.Prediction, node *facts.Node) Transport {
	if node.IB == nil {
		return Transport{}
	}
	network := NetworkOf(p, node)
	switch {
	case network.Plugin != "":
		path := "" // unknown for a plugin that is named by its path
		if at := slices.IndexFunc(node.IB.Libraries, func(l facts.RDMALibrary) bool { return l.Name == network.Plugin }); at >= 0 {
			path = node.IB.Libraries[at].Path
		}
		return Transport{Name: network.Plugin, Detail: path, Why: "NCCL tries a network plugin first; if that finds no device, " + withoutPlugin(network)}
	case len(network.Ports) > 0:
		return overPorts(node, network)
	case network.Demanded:
		return Transport{} // NCCL fails there, which a check reports
	}
	return sockets(node, Sockets(p, node), network.whyNot())
}

func overPorts(node *facts.Node, network Network) Transport {
	t := Transport{Name: layerName(network.Ports[0].LinkLayer), Detail: spelledPorts(network.nics())}
	for _, port := range network.Ports {
		if name := layerName(port.LinkLayer); name != t.Name {
			t.Name = "InfiniBand and RoCE"
		}
	}
	switch direct := network.GPUDirect(node); {
	case direct.By != "":
		t.Detail += ", GPUDirect"
	case direct.Why != "":
		t.Detail += ", no GPUDirect"
		t.Why = direct.Why
	}
	return t
}

func layerName(linkLayer string) string {
	if linkLayer == "Ethernet" {
		return "RoCE"
	}
	return "InfiniBand"
}

// spelledPorts describes NICs and their speed: "mlx5_0 … mlx5_7, 8 × 400 Gbit/s".
func spelledPorts(nics [][]HCAPort) string {
	var names []string
	var rates []int64
	for _, nic := range nics {
		var parts []string
		rate := int64(0)
		for _, port := range nic {
			parts, rate = append(parts, port.Adapter.Name), rate+port.Rate
		}
		names, rates = append(names, strings.Join(slices.Compact(parts), "+")), append(rates, rate)
	}
	text := strings.Join(names, ", ")
	if len(names) > 3 {
		text = names[0] + " … " + names[len(names)-1]
	}
	return text + ", " + spelledRates(rates)
}

// spelledRates summarises rates in bit/s: "8 × 400 Gbit/s", "100 to 400 Gbit/s".
func spelledRates(rates []int64) string {
	least, most := slices.Min(rates), slices.Max(rates)
	switch {
	case least != most:
		return fmt.Sprintf("%d ports of %g to %s", len(rates), float64(least)/1e9, text.BitRate(float64(most)))
	case len(rates) == 1:
		return text.BitRate(float64(most))
	}
	return fmt.Sprintf("%d × %s", len(rates), text.BitRate(float64(most)))
}

func withoutPlugin(n Network) string {
	if len(n.Ports) == 0 {
		return "sockets"
	}
	return layerName(n.Ports[0].LinkLayer)
}

// sockets describes TCP over the chosen interfaces, without addresses, because those differ from
// node to node.
func sockets(node *facts.Node, choices []Choice, why string) Transport {
	var parts []string
	for _, choice := range choices {
		if choice.Interface == "" {
			return Transport{} // the interfaces were not seen, or checks report the error
		}
		part := choice.Interface
		at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == choice.Interface })
		if at >= 0 && node.Net.Interfaces[at].Speed != nil {
			part += ", " + text.BitRate(float64(*node.Net.Interfaces[at].Speed))
		}
		parts = append(parts, part)
	}
	return Transport{Name: "sockets", Detail: strings.Join(parts, "; "), Why: why}
}

func (n Network) whyNot() string {
	switch n.Obstacle {
	case ObstacleDisabled:
		return cite(n.env, n.Setting)
	case ObstacleHCA:
		return cite(n.env, n.Setting) + " selects no active port"
	}
	return map[string]string{
		ObstacleNoAdapter: "there is no RDMA adapter",
		ObstacleInactive:  "no InfiniBand or RoCE port is active",
		ObstacleNoLibrary: "libibverbs.so.1 is not there",
		ObstacleNoDriver:  "libibverbs has no driver for the adapters: libmlx5.so.1 is not there",
		ObstacleNoVerbs:   "no /dev/infiniband/uverbs* leads to the adapters",
		ObstacleRefused:   "this session may not open /dev/infiniband/uverbs*",
	}[n.Obstacle]
}
