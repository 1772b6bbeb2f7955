// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// HCAPort is a port of an RDMA adapter that NCCL's NET/IB uses.
type HCAPort struct {
	Adapter *facts.HCA
	*facts.IBPort
}

// Name returns the port's name as in NCCL_IB_HCA and NCCL's log: "mlx5_0:1".
func (h HCAPort) Name() string { return fmt.Sprintf("%s:%d", h.Adapter.Name, h.Port) }

// HCAPorts returns the ports of a node that the ranks want NET/IB to use, even if something keeps
// NET/IB from opening them (see [NetworkOf] for that). The ports are ACTIVE, of link layer
// InfiniBand or Ethernet, and selected by NCCL_IB_HCA. There are at most 32 (16 before 2.18.5).
// Since 2.29.7 they are sorted by PCI address, unless NCCL_IB_DEVICE_PCI_ORDER is 0. Earlier
// releases use libibverbs' order, which is mostly the order of the ports' names.
//
// Source: NVIDIA/nccl 2.30.7, transport/net_ib/init.cc, ncclIbInitDevices and ncclIbCompareDevs;
// 2.12 to 2.28, transport/net_ib.cc, ncclIbInit.
func HCAPorts(p launch.Prediction, node *facts.Node) []HCAPort {
	if node.IB == nil {
		return nil
	}
	return hcaPorts(node.IB, launch.RankEnv(node.Env, p.Exports), Version(node))
}

func hcaPorts(ib *facts.IB, env launch.Env, nccl string) []HCAPort {
	filter, limit := parseNameFilter(env.Get("NCCL_IB_HCA").Value, maxHCAs), maxHCAs
	if hostfile.Before(nccl, "2.18.5") {
		limit = 16
	}
	var ports []HCAPort
	for _, adapter := range byNumber(ib.Devices) {
		for i := range adapter.Ports {
			port := HCAPort{adapter, &adapter.Ports[i]}
			taken := port.State == "ACTIVE" && (port.LinkLayer == "InfiniBand" || port.LinkLayer == "Ethernet")
			if taken && len(ports) < limit && filter.selects(Device{adapter.Name, port.Port}) {
				ports = append(ports, port)
			}
		}
	}
	given, set := Number(env.Get("NCCL_IB_DEVICE_PCI_ORDER").Value)
	if !hostfile.Before(nccl, "2.29.7") && (!set || given != 0) {
		slices.SortStableFunc(ports, func(a, b HCAPort) int { return byPCIAddress(a.Adapter, b.Adapter) })
	}
	return ports
}

// byNumber returns the adapters sorted by name, with mlx5_2 before mlx5_10.
func byNumber(devices []facts.HCA) []*facts.HCA {
	sorted := make([]*facts.HCA, len(devices))
	for i := range devices {
		sorted[i] = &devices[i]
	}
	stem := func(h *facts.HCA) string { return strings.TrimRight(h.Name, "0123456789") }
	slices.SortStableFunc(sorted, func(a, b *facts.HCA) int {
		return cmp.Or(cmp.Compare(stem(a), stem(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// byPCIAddress compares adapters by PCI address. Adapters that are on no PCI bus come last.
func byPCIAddress(a, b *facts.HCA) int {
	if len(a.Path) == 0 || len(b.Path) == 0 {
		return cmp.Compare(len(b.Path), len(a.Path))
	}
	one, other := a.Path[len(a.Path)-1], b.Path[len(b.Path)-1]
	return cmp.Or(cmp.Compare(len(one), len(other)), cmp.Compare(one, other)) // a longer address has a higher domain
}

// nics returns the ports as NCCL merges them. Since 2.20 the ports of one card and link layer form
// one network device, with at most two ports, and since 2.24 at most four. NCCL_IB_MERGE_NICS=0
// and, since 2.22, NCCL_NET_MERGE_LEVEL=LOC keep the ports separate. NCCL identifies a card by its
// PCI address without the function. Unless NCCL_IB_MERGE_VFS is 0, NCCL also ignores the device
// number, which merges virtual functions.
//
// Source: NVIDIA/nccl 2.20.5, transport/net_ib.cc, ncclIbFindMatchingDev; 2.30.7, graph/topo.cc,
// ncclTopoAutoMerge, and transport/net_ib/init.cc, ncclIbGetPciPath.
func (n Network) nics() [][]HCAPort {
	merges := !hostfile.Before(n.nccl, "2.20") && !isZero(n.env.Get("NCCL_IB_MERGE_NICS")) && (hostfile.Before(n.nccl, "2.22") || n.env.Get("NCCL_NET_MERGE_LEVEL").Value != "LOC")
	withVFs, most := !isZero(n.env.Get("NCCL_IB_MERGE_VFS")), 4
	if hostfile.Before(n.nccl, "2.24") {
		most = 2
	}
	nics := make([][]HCAPort, 0, len(n.Ports))
	for i, port := range n.Ports {
		card := cardOf(port.Adapter, withVFs)
		at := slices.IndexFunc(nics, func(nic []HCAPort) bool {
			return len(nic) < most && nic[0].LinkLayer == port.LinkLayer && cardOf(nic[0].Adapter, withVFs) == card
		})
		if at < 0 || !merges || card == "" {
			nics = append(nics, n.Ports[i:i+1:i+1])
			continue
		}
		nics[at] = append(nics[at], port)
	}
	return nics
}

// cardOf returns the PCI address of an adapter's card, "0000:4e:00." or, with virtual functions,
// "0000:4e:"; "" for an adapter on no PCI bus.
func cardOf(adapter *facts.HCA, withVFs bool) string {
	if len(adapter.Path) == 0 {
		return ""
	}
	address := adapter.Path[len(adapter.Path)-1]
	cut := strings.LastIndexByte(address, '.')
	if withVFs {
		cut = strings.LastIndexByte(address, ':')
	}
	return address[:cut+1]
}

func isZero(setting facts.Setting) bool {
	value, set := parameter(setting)
	return set && value == 0
}

// Version returns the NCCL version that the ranks of a node load, "" if it is unknown. Every rule
// treats an unknown version as the newest.
func Version(node *facts.Node) string {
	if node.Python == nil || len(node.Python.NCCL) == 0 {
		return ""
	}
	return node.Python.NCCL[0].Version
}
