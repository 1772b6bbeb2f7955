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

// FleetNCCL is the NCCL version most nodes have, "" when none showed one. It
// stands in for a node whose python could not be asked.
func FleetNCCL(v checks.View) string {
	seen := compare.Without(v.Nodes, func(n *facts.Node) bool { return nccl.Version(n) == "" })
	if len(seen) == 0 {
		return ""
	}
	return compare.GroupBy(seen, nccl.Version)[0].Value
}

// UsesNCCL is whether the ranks compute where NCCL carries what they tell each other. On
// processors they talk by gloo, and nothing that NCCL reads or needs matters.
func UsesNCCL(view checks.View) bool { return view.Launch.Accelerator != "cpu" }

// UsesGloo is whether the ranks make a group of gloo for certain: on processors, and where
// the script asks for one by name beside NCCL's. What it imports may do so elsewhere.
//
// Of what launches it none does by itself: DeepSpeed's backend is its accelerator's alone
// (deepspeed/comm/torch.py, 0.19.8), accelerate adds cpu:gloo for FSDP only (state.py,
// 1.15), and init_process_group() without a backend takes the accelerator's since torch 2.6.
func UsesGloo(view checks.View) bool {
	makesGloo := func(named facts.LaunchFile) bool {
		file := FileAt(view.Head, named)
		return file != nil && file.MakesGloo
	}
	return !UsesNCCL(view) || slices.ContainsFunc(view.Launch.Files, makesGloo)
}

// NoInterface is the first of what gloo or tensorpipe are given that is no interface of a node with an
// address: they know neither prefixes nor marks.
//
// Source: facebookincubator/gloo, transport/tcp/device.cc; pytorch/tensorpipe, transport/uv/utility.cc.
func NoInterface(net *facts.Net, list string) (name string, isAny bool) {
	usable := nccl.Addressed(net)
	for item := range strings.SplitSeq(list, ",") {
		if !slices.Contains(usable, item) {
			return item, true
		}
	}
	return "", false
}

// GlooMesh is which of the nodes gloo's ranks will call.
func GlooMesh(view checks.View) nccl.GlooMesh {
	return checks.Remember(view, glooMesh{}, func() nccl.GlooMesh {
		return nccl.NewGlooMesh(view.Everywhere(), func(node *facts.Node) nccl.Choice { return nccl.Gloo(view.Launch, node) })
	})
}

type glooMesh struct{}

// ByOrder is why an address that no peer can call does no harm to gloo.
const ByOrder = "by luck: of two gloo ranks the one with the larger address calls the other, and this node's is the larger of every pair"

// NCCLNetwork is what NCCL on a node will reach the others by.
func NCCLNetwork(view checks.View, node *facts.Node) *nccl.Network {
	return checks.Remember(view, networkOn{node}, func() *nccl.Network {
		network := nccl.NetworkOf(view.Launch, node)
		return &network
	})
}

type networkOn struct{ node *facts.Node }

// UsingIB is the nodes whose ranks would use InfiniBand or RoCE, or why there
// are none. A node without an adapter counts: the others have some.
func UsingIB(view checks.View) (nodes []*facts.Node, reason string) {
	if !UsesNCCL(view) {
		return nil, "ranks on cpu talk by gloo, over TCP"
	}
	if len(view.All) < 2 {
		return nil, "ranks of one node need no network"
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
		return nil, "the environment keeps NCCL off InfiniBand on every node"
	}
	return nodes, ""
}

// SwitchDoors are the adapters behind which a node's NVSwitches are managed and that carry no
// data. Where who looked was not root, they are guessed on a machine with B200 or B300: the
// InfiniBand functions that are several of one ConnectX-7, where others are not.
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

// IsHGXBlackwell is whether a GPU sits on a board whose NVSwitches do not show on the bus.
func IsHGXBlackwell(card facts.Card) bool {
	return strings.Contains(card.Name, " B200") || strings.Contains(card.Name, " B300")
}

func DeviceNames(node *facts.Node) string {
	names := text.Map(node.IB.Devices, func(device facts.HCA) string { return device.Name })
	return strings.Join(names, ", ")
}
