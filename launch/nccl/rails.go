// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"

	"preflight/facts"
	"preflight/launch"
)

// Rail is one of several paths between two nodes, with the settings that make ranks use only this
// path.
type Rail struct{ Ends [2]RailEnd }

// RailEnd is one node's end of a rail.
type RailEnd struct {
	Name string          // name of the port or interface: "mlx5_2:1", "eth1"
	Env  []facts.Setting // settings for a rank on this node
	// Address is the node's address on the rail. It is "" if the rail has no IP address. The ranks
	// then use the usual rendezvous.
	Address string
}

// Rails returns the paths between two nodes over which their ranks can communicate. These are the
// ports that NCCL uses on both nodes. Ports with the same index should be connected to one switch.
// Without such ports, Rails returns interfaces with addresses in one subnet. A single rail allows
// no comparison, so the result is then empty.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/init.cc and transport/net_socket.cc: "=" selects
// exact names; pytorch/pytorch 2.7, ProcessGroupGloo.cpp, Options::create_default: exact names.
func Rails(p launch.Prediction, a, b *facts.Node) []Rail {
	rails := subnetRails(a, b)
	if p.Accelerator != "cpu" && a.IB != nil && b.IB != nil {
		if from, to := NetworkOf(p, a).Ports, NetworkOf(p, b).Ports; len(from) > 0 && len(to) > 0 {
			rails = portRails(from, to)
		}
	}
	if len(rails) < 2 {
		return nil
	}
	return rails
}

func portRails(a, b []HCAPort) (rails []Rail) {
	end := func(port HCAPort) RailEnd {
		return RailEnd{Name: port.Name(), Env: []facts.Setting{{Name: "NCCL_IB_HCA", Value: "=" + port.Name()}}}
	}
	for i := range min(len(a), len(b)) {
		rails = append(rails, Rail{[2]RailEnd{end(a[i]), end(b[i])}})
	}
	return rails
}

// subnetRails returns a rail for each pair of interfaces in one subnet. It leaves out the bridge of
// a container engine, which has the same address on all nodes.
func subnetRails(a, b *facts.Node) (rails []Rail) {
	carries := func(held launch.HeldAddress) bool {
		return held.Up && held.Running && !held.Loopback && held.Addr().Is4()
	}
	end := func(held launch.HeldAddress) RailEnd {
		return RailEnd{Name: held.Name, Address: held.Addr().String(), Env: []facts.Setting{
			{Name: "NCCL_SOCKET_IFNAME", Value: "=" + held.Name}, {Name: "GLOO_SOCKET_IFNAME", Value: held.Name},
		}}
	}
	if a.Net == nil || b.Net == nil {
		return nil
	}
	for _, from := range launch.HeldAddresses(a) {
		for _, to := range launch.HeldAddresses(b) {
			known := func(rail Rail) bool { return rail.Ends[0].Name == from.Name || rail.Ends[1].Name == to.Name }
			if carries(from) && carries(to) && from.Masked() == to.Masked() && from.Addr() != to.Addr() && !slices.ContainsFunc(rails, known) {
				rails = append(rails, Rail{[2]RailEnd{end(from), end(to)}})
			}
		}
	}
	return rails
}
