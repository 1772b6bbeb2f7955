// SPDX-License-Identifier: Apache-2.0

// Package nccl predicts what NCCL and gloo choose on a node: interfaces and addresses,
// RDMA ports and their GIDs, the transport between GPUs and between nodes, and the shared
// memory that NCCL takes. Each rule names the release it was read from.
//
// It goes by the facts of a node and the environment of its ranks alone, opens no device
// and measures nothing; whether a choice is a good one is for checks.
package nccl

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// What keeps NCCL's NET/IB from having a device on a node.
const (
	ObstacleDisabled  = "disabled"    // NCCL_IB_DISABLE, or NCCL_NET names another network
	ObstacleNoAdapter = "no-adapter"  // the kernel shows none
	ObstacleNoLibrary = "no-library"  // libibverbs.so.1 is not in the loader's path
	ObstacleNoDriver  = "no-provider" // libibverbs has no driver for the adapters
	ObstacleNoVerbs   = "no-verbs"    // no /dev/infiniband/uverbs* leads to them
	ObstacleRefused   = "refused"     // it is there, and this session may not open it
	ObstacleInactive  = "inactive"    // no port is ACTIVE
	ObstacleHCA       = "hca"         // NCCL_IB_HCA selects none of those that are
)

// Network is what NCCL's ranks on a node reach other nodes by. The first that has a
// device is taken: a network plugin, InfiniBand and RoCE, and TCP sockets.
type Network struct {
	// Plugin is the plugin's library where one will be asked first: the name of a file
	// in the loader's path, or the path that NCCL_NET_PLUGIN gives. Whether it finds a
	// device is not known before it runs.
	Plugin string
	// Ports are those that NET/IB opens, in its order; none where there is an Obstacle.
	Ports []HCAPort
	// Obstacle is one of the ObstacleXxx words, and Setting the variable that makes it
	// one; both zero where NET/IB has devices.
	Obstacle string
	Setting  facts.Setting
	// Demanded is whether NCCL_NET=IB rules sockets out.
	Demanded bool

	env  launch.Env // what the ranks see
	nccl string     // their version
}

// NetworkOf is what the ranks of a node will use, by its InfiniBand section, which must
// have been seen. What an older probe did not tell is taken to be there.
//
// Source: NVIDIA/nccl 2.30.7, plugin/net.cc, ncclNetInit, plugin/plugin_open.cc,
// openPluginLib, and transport/net_ib/init.cc, ncclIbInitDevices; 2.12 to 2.26, net.cc.
func NetworkOf(p launch.Prediction, node *facts.Node) Network {
	env := launch.RankEnv(node.Env, p.Exports)
	wanted := env.Get("NCCL_NET")
	n := Network{Demanded: strings.EqualFold(wanted.Value, "IB"), env: env, nccl: Version(node)}
	if !n.Demanded && !strings.EqualFold(wanted.Value, "Socket") {
		n.Plugin = netPlugin(node.IB, env.Get("NCCL_NET_PLUGIN").Value)
	}
	disable := env.Get("NCCL_IB_DISABLE")
	switch {
	case IsOn(disable.Value):
		n.Obstacle, n.Setting = ObstacleDisabled, disable
	case wanted.Value != "" && !n.Demanded:
		n.Obstacle, n.Setting = ObstacleDisabled, wanted
	default:
		ports := hcaPorts(node.IB, env, n.nccl)
		if n.Obstacle = obstacle(node.IB, ports, env); n.Obstacle == ObstacleHCA {
			n.Setting = env.Get("NCCL_IB_HCA")
		}
		if n.Obstacle == "" {
			n.Ports = slices.DeleteFunc(ports, func(h HCAPort) bool { return opens(node.IB, h.Adapter) != "" })
		}
	}
	return n
}

// KeptOffRDMA is whether what ranks see has NCCL leave adapters alone.
func KeptOffRDMA(env launch.Env) bool {
	return IsOn(env.Get("NCCL_IB_DISABLE").Value) || strings.EqualFold(env.Get("NCCL_NET").Value, "Socket")
}

// netPlugin is the first network plugin that is there of those that NCCL asks:
// libnccl-net.so, or what NCCL_NET_PLUGIN lists, each as it stands or as the middle of
// libnccl-net-NAME.so; "none" is none of them.
func netPlugin(ib *facts.IB, list string) string {
	has := func(name string) bool {
		return slices.ContainsFunc(ib.Libraries, func(l facts.RDMALibrary) bool { return l.Name == name })
	}
	if list == "" {
		list = "libnccl-net.so"
	}
	for name := range strings.SplitSeq(list, ",") {
		switch full := "libnccl-net-" + name + ".so"; {
		case strings.Contains(name, "/"), has(name):
			return name
		case name != "" && has(full):
			return full
		}
	}
	return ""
}

// obstacle is the first thing that stands in the way of the ports that NET/IB would
// take, "" for none. What cannot be opened is not there for NCCL_IB_HCA to select.
func obstacle(ib *facts.IB, ports []HCAPort, env launch.Env) string {
	lacks := func(library string) bool {
		listed := ib.Libraries != nil && env.Get("NCCL_IBVERBS_LIB").Value == ""
		return listed && !slices.ContainsFunc(ib.Libraries, func(l facts.RDMALibrary) bool { return l.Name == library })
	}
	candidates := hcaPorts(ib, launch.Env{}, "")
	switch {
	case len(ib.Devices) == 0:
		return ObstacleNoAdapter
	case len(candidates) == 0:
		return ObstacleInactive
	case lacks("libibverbs.so.1"):
		return ObstacleNoLibrary
	case lacks("libmlx5.so.1") && !slices.ContainsFunc(candidates, func(h HCAPort) bool { return h.Adapter.Driver != "mlx5_core" }):
		return ObstacleNoDriver
	}
	if reason := closed(ib, candidates); reason != "" {
		return reason
	}
	if len(ports) == 0 {
		return ObstacleHCA
	}
	return closed(ib, ports)
}

func closed(ib *facts.IB, ports []HCAPort) string {
	reason := ObstacleNoVerbs
	for _, port := range ports {
		switch opens(ib, port.Adapter) {
		case "":
			return ""
		case ObstacleRefused:
			reason = ObstacleRefused
		}
	}
	return reason
}

// opens is why an adapter cannot be opened from this session, "" when it can. Where
// the kernel does not tell which device node is an adapter's, any will do.
func opens(ib *facts.IB, adapter *facts.HCA) string {
	leads := func(path string) bool { return adapter.Verbs == "" || path == adapter.Verbs }
	isRefused := func(path string) bool {
		return slices.ContainsFunc(ib.Refused, func(d facts.DeviceNode) bool { return d.Path == path })
	}
	reason := ObstacleNoVerbs
	for _, path := range ib.Verbs {
		switch {
		case leads(path) && !isRefused(path):
			return ""
		case leads(path):
			reason = ObstacleRefused
		}
	}
	return reason
}
