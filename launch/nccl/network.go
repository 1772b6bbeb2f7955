// SPDX-License-Identifier: Apache-2.0

// Package nccl predicts what NCCL and gloo choose on a node: interfaces and addresses, RDMA ports
// and their GIDs, the transport between GPUs and between nodes, and the shared memory that NCCL
// uses. Each rule names the release it was read from.
//
// It uses only the facts of a node and the environment of its ranks. It opens no device and
// measures nothing. The checks decide whether a choice is good.
package nccl

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// The reasons why NCCL's NET/IB has no device on a node.
const (
	ObstacleDisabled  = "disabled"    // NCCL_IB_DISABLE, or NCCL_NET names another network
	ObstacleNoAdapter = "no-adapter"  // the kernel shows no adapter
	ObstacleNoLibrary = "no-library"  // libibverbs.so.1 is not in the loader's path
	ObstacleNoDriver  = "no-provider" // libibverbs has no driver for the adapters
	ObstacleNoVerbs   = "no-verbs"    // the adapters have no /dev/infiniband/uverbs*
	ObstacleRefused   = "refused"     // the device exists, but this session may not open it
	ObstacleInactive  = "inactive"    // no port is ACTIVE
	ObstacleHCA       = "hca"         // NCCL_IB_HCA selects no active port
)

// Network is what NCCL's ranks on a node use to reach other nodes. NCCL tries a network plugin
// first, then InfiniBand and RoCE, then TCP sockets, and uses the first of these with a device.
type Network struct {
	// Plugin is the library of a plugin that NCCL tries first, "" if there is none. It is a file
	// name in the loader's path, or the path in NCCL_NET_PLUGIN. It is unknown in advance whether
	// the plugin finds a device.
	Plugin string
	// Ports lists the ports that NET/IB opens, in its order. It is empty if there is an Obstacle.
	Ports []HCAPort
	// Obstacle is one of the ObstacleXxx words, and Setting is the variable that causes the
	// obstacle. Both are zero if NET/IB has devices.
	Obstacle string
	Setting  facts.Setting
	// Demanded means that NCCL_NET=IB keeps NCCL from using sockets instead.
	Demanded bool

	env  launch.Env // the ranks' environment
	nccl string     // the ranks' NCCL version
}

// NetworkOf returns the network that the ranks of a node will use. The node's InfiniBand facts must
// exist. NetworkOf assumes that devices and libraries exist if an older probe did not report on
// them.
//
// Source: NVIDIA/nccl 2.30.7, plugin/net.cc, ncclNetInit, plugin/plugin_open.cc, openPluginLib, and
// transport/net_ib/init.cc, ncclIbInitDevices; 2.12 to 2.26, net.cc.
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

// KeptOffRDMA reports whether the ranks' environment makes NCCL ignore RDMA adapters.
func KeptOffRDMA(env launch.Env) bool {
	return IsOn(env.Get("NCCL_IB_DISABLE").Value) || strings.EqualFold(env.Get("NCCL_NET").Value, "Socket")
}

// netPlugin returns the first existing network plugin that NCCL tries. NCCL tries libnccl-net.so,
// or the names in NCCL_NET_PLUGIN. Each of these names is a file or the NAME in
// libnccl-net-NAME.so. "none" means no plugin.
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

// obstacle returns the first reason why NET/IB cannot use its ports, "" for none. It checks
// NCCL_IB_HCA after the adapters, because the variable cannot select ports that cannot be opened.
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

// opens returns the reason why this session cannot open an adapter, "" if it can. If the kernel
// does not show which device node belongs to the adapter, any device node counts.
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
