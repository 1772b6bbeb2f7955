// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// FleetNCCL returns the NCCL version that most nodes have, or "" if no node reported one. Callers
// use it for nodes whose Python did not answer.
func FleetNCCL(v checks.View) string {
	seen := compare.Without(v.Nodes, func(n *facts.Node) bool { return nccl.Version(n) == "" })
	if len(seen) == 0 {
		return ""
	}
	return compare.GroupBy(seen, nccl.Version)[0].Value
}

// UsesNCCL reports whether the ranks use NCCL. Ranks on CPUs use gloo, so the settings and
// requirements of NCCL do not matter for them.
func UsesNCCL(view checks.View) bool { return view.Launch.Accelerator != "cpu" }

// UsesGloo reports whether the ranks certainly create a gloo group. They do on CPUs, and if the
// script asks for gloo by name. Imported modules may also create one.
//
// No launcher creates a gloo group by itself. DeepSpeed uses only its accelerator's backend
// (deepspeed/comm/torch.py, 0.19.8), and accelerate adds cpu:gloo for FSDP only (state.py, 1.15).
// Since torch 2.6, init_process_group() without a backend uses the accelerator's backend.
func UsesGloo(view checks.View) bool {
	makesGloo := func(named facts.LaunchFile) bool {
		file := FileAt(view.Head, named)
		return file != nil && file.MakesGloo
	}
	return !UsesNCCL(view) || slices.ContainsFunc(view.Launch.Files, makesGloo)
}

// NoInterface takes a list of interfaces for gloo or tensorpipe. It returns the first name for
// which the node has no interface, or has only an interface without an address. Unlike NCCL, these
// libraries support neither prefixes nor marks such as "^".
//
// Source: facebookincubator/gloo, transport/tcp/device.cc; pytorch/tensorpipe,
// transport/uv/utility.cc.
func NoInterface(net *facts.Net, list string) (name string, isAny bool) {
	usable := nccl.Addressed(net)
	for item := range strings.SplitSeq(list, ",") {
		if !slices.Contains(usable, item) {
			return item, true
		}
	}
	return "", false
}

// GlooMesh returns the connections that gloo's ranks will make between nodes.
func GlooMesh(view checks.View) nccl.GlooMesh {
	return checks.Remember(view, glooMesh{}, func() nccl.GlooMesh {
		return nccl.NewGlooMesh(view.Everywhere(), func(node *facts.Node) nccl.Choice { return nccl.Gloo(view.Launch, node) })
	})
}

type glooMesh struct{}

// ByOrder is the reason why gloo still works although no peer can connect to a node's address.
const ByOrder = "by chance: the gloo rank with the larger address calls the other, and this node always has the larger one"

// NCCLNetwork returns the network over which NCCL on a node will reach the other nodes.
func NCCLNetwork(view checks.View, node *facts.Node) *nccl.Network {
	return checks.Remember(view, networkOn{node}, func() *nccl.Network {
		network := nccl.NetworkOf(view.Launch, node)
		return &network
	})
}

type networkOn struct{ node *facts.Node }

// UsingIB returns the nodes whose ranks would use InfiniBand or RoCE. If there are none, it returns
// the reason. The result includes nodes without an adapter if other nodes have one.
func UsingIB(view checks.View) (nodes []*facts.Node, reason string) {
	if !UsesNCCL(view) {
		return nil, "ranks on CPUs use gloo over TCP"
	}
	if len(view.All) < 2 {
		return nil, "the ranks of one node need no network"
	}
	hasDevices, disabled := false, 0
	for _, node := range view.Nodes {
		hasDevices = hasDevices || len(node.IB.Devices) > 0
		if nccl.KeptOffRDMA(Env(view, node)) {
			disabled++
			continue
		}
		nodes = append(nodes, node)
	}
	switch {
	case !hasDevices:
		return nil, "no node has an InfiniBand or RoCE adapter"
	case disabled == len(view.Nodes):
		return nil, "the environment disables InfiniBand for NCCL on every node"
	}
	return nodes, ""
}

// SwitchDoors returns the adapters that only manage a node's NVSwitches and carry no data. If the
// agent did not run as root, SwitchDoors guesses them on machines with B200 or B300. There they are
// the InfiniBand functions of a ConnectX-7 that has several functions.
//
// Source: NVIDIA, DGX B200 and HGX B200 user guides, network ports.
func SwitchDoors(node *facts.Node) []string {
	switch {
	case node.GPU == nil || node.IB == nil:
		return nil
	case node.GPU.SwitchDoors != nil:
		return node.GPU.SwitchDoors
	case node.NVML == nil || !slices.ContainsFunc(node.NVML.Cards, IsHGXBlackwell):
		return nil
	}
	var doors []string
	cards := map[string][]string{}
	for _, device := range node.IB.Devices {
		isInfiniBand := func(port facts.IBPort) bool { return port.LinkLayer == "InfiniBand" }
		if len(device.Path) > 0 && device.Type == "MT4129" && slices.ContainsFunc(device.Ports, isInfiniBand) {
			card, _, _ := strings.Cut(device.Path[len(device.Path)-1], ".")
			cards[card] = append(cards[card], device.Name)
		}
	}
	for _, functions := range cards {
		if len(functions) > 1 {
			doors = append(doors, functions...)
		}
	}
	if len(doors) == len(node.IB.Devices) {
		return nil
	}
	slices.Sort(doors)
	return doors
}

// IsHGXBlackwell reports whether a GPU is on a board whose NVSwitches are not visible on the PCI
// bus.
func IsHGXBlackwell(card facts.Card) bool {
	return strings.Contains(card.Name, " B200") || strings.Contains(card.Name, " B300")
}

func DeviceNames(node *facts.Node) string {
	names := text.Map(node.IB.Devices, func(device facts.HCA) string { return device.Name })
	return strings.Join(names, ", ")
}

// TakingRails returns the setting that makes NCCL use only the rails that answered. It returns the
// zero value if NCCL also uses a port that is not a rail, or uses different ports on different
// nodes.
func TakingRails(view checks.View, answered []string) facts.Setting {
	first, sockets := []string(nil), false
	for i, node := range view.Nodes {
		var names []string
		for _, rail := range node.Rails.Rails {
			if rail.Layer == nccl.LayerInfiniBand {
				return facts.Setting{}
			}
			names, sockets = append(names, rail.Name), rail.Layer == ""
		}
		slices.Sort(names)
		if i == 0 {
			first = names
		}
		if ports := len(NCCLNetwork(view, node).Ports); !slices.Equal(first, names) || !sockets && ports != len(names) {
			return facts.Setting{}
		}
	}
	if len(answered) == 0 {
		return facts.Setting{}
	}
	setting := facts.Setting{Name: "NCCL_IB_HCA", Value: "=" + strings.Join(answered, ",")}
	if sockets {
		setting.Name = "NCCL_SOCKET_IFNAME"
	}
	return setting
}
