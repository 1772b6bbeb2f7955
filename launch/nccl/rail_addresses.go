// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"net/netip"
	"slices"

	"preflight/facts"
	"preflight/launch"
)

// RailAddress is an IP address over which NCCL carries data, or an IP address of a port over which
// NCCL carries data.
type RailAddress struct {
	Name      string // name of the port or interface: "mlx5_2:1", "eth1"
	Layer     string // RoCE or InfiniBand, "" for sockets
	Interface string
	Address   string
}

// The values of RailAddress.Layer for rails that are ports of adapters.
const (
	LayerRoCE       = "RoCE"
	LayerInfiniBand = "InfiniBand"
)

// RailAddresses returns a node's addresses towards the other nodes, in NCCL's order. A RoCE port
// has the address of the GID that NCCL uses. An InfiniBand port has the address of IP over
// InfiniBand, if any. If NCCL uses sockets, the result has all interfaces that NCCL_SOCKET_IFNAME
// selects, if there are several. A port is left out if no interface of the node has its address.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/connect.cc, ncclIbConnect: the GID of each port;
// transport/net_socket.cc, ncclNetSocketConnect and ncclNetSocketListen: NCCL connects to the
// address of a peer's device, from a source address that the kernel chooses.
func RailAddresses(p launch.Prediction, node *facts.Node) (rails []RailAddress) {
	if p.Accelerator == "cpu" || node.Net == nil || node.IB == nil {
		return nil
	}
	held := launch.HeldAddresses(node)
	network := NetworkOf(p, node)
	for _, port := range network.Ports {
		rail, known := railOf(held, port, GIDIndex(*port.IBPort, network.env, network.nccl))
		if known {
			rails = append(rails, rail)
		}
	}
	if _, named := network.env.Lookup("NCCL_SOCKET_IFNAME"); len(network.Ports) > 0 || !named {
		return rails
	}
	sockets := Sockets(p, node)
	if len(sockets) < 2 {
		return nil
	}
	for _, choice := range sockets {
		rails = append(rails, RailAddress{Name: choice.Interface, Interface: choice.Interface, Address: choice.Address})
	}
	return rails
}

func railOf(held []launch.HeldAddress, port HCAPort, index int) (rail RailAddress, known bool) {
	if port.LinkLayer == "InfiniBand" {
		at := slices.IndexFunc(held, func(h launch.HeldAddress) bool {
			return h.Name == port.NetDev && h.Up && h.Running && !h.Addr().IsLinkLocalUnicast()
		})
		if at < 0 {
			return rail, false
		}
		return RailAddress{port.Name(), LayerInfiniBand, port.NetDev, held[at].Addr().String()}, true
	}
	at := slices.IndexFunc(port.GIDs, func(g facts.GID) bool { return g.Index == index })
	if at < 0 {
		return rail, false
	}
	address, err := netip.ParseAddr(port.GIDs[at].GID)
	if address = address.Unmap(); err != nil || address.IsLinkLocalUnicast() {
		return rail, false
	}
	by, isHeld := holder(held, address)
	if !isHeld {
		return rail, false
	}
	return RailAddress{port.Name(), LayerRoCE, by.Name, address.String()}, true
}

// SameRail returns the index of the peer's rail that should be cabled to the same switch as the
// node's rail at index at, -1 for none. It is the rail with the same name. If the nodes share no
// name and have the same number of rails, it is the rail with the same index. A port that is down
// shifts the indexes of the ports after it.
func SameRail(rails, peers []RailAddress, at int) int {
	named := func(name string) int {
		return slices.IndexFunc(peers, func(p RailAddress) bool { return p.Name == name })
	}
	if same := named(rails[at].Name); same >= 0 {
		return same
	}
	if len(rails) == len(peers) && !slices.ContainsFunc(rails, func(r RailAddress) bool { return named(r.Name) >= 0 }) {
		return at
	}
	return -1
}
