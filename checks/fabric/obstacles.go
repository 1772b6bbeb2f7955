// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// obstructed returns the findings for an obstacle that prevents NCCL from using the adapters of a
// node. The launch fails if other nodes can use their adapters, and is only slow if no node can.
// ib-same reports nodes without adapters.
func obstructed(view checks.View, node *facts.Node, network *nccl.Network, othersWork bool) []checks.Finding {
	f := checks.Finding{WouldSee: "NET/IB : No device found; only this node then uses TCP"}
	switch network.Obstacle {
	case nccl.ObstacleHCA:
		return []checks.Finding{{
			Summary:  "NCCL_IB_HCA selects no adapter of this node",
			Got:      ranks.Origin(view, network.Setting),
			Want:     "one or more of " + ranks.DeviceNames(node),
			WouldSee: f.WouldSee,
			Remedy:   ranks.TakeOut(view, network.Setting),
		}}
	case nccl.ObstacleInactive:
		f.Summary, f.Got = "no InfiniBand or RoCE port is up, but other nodes have some", portStates(node)
		f.Want, f.Remedy = "ACTIVE LinkUp", []fix.Command{fix.On("ibstat").As(fix.Look)}
		if !othersWork {
			return unmanaged(node)
		}
	case nccl.ObstacleNoLibrary:
		f.Summary, f.Want = "the node has RDMA adapters, but NCCL finds no libibverbs.so.1", "libibverbs.so.1 in the loader's path"
		f.Remedy = userspaceRDMA(view, node)
	case nccl.ObstacleNoDriver:
		f.Summary, f.Want = "libibverbs has no driver for the adapters of this node", "libmlx5.so.1 in the loader's path, and its libibverbs plugin"
		f.Remedy = userspaceRDMA(view, node)
	case nccl.ObstacleNoVerbs:
		f.Summary, f.Got = "the node has RDMA adapters, but no /dev/infiniband/uverbs*", ranks.DeviceNames(node)
		f.Remedy = openVerbs(node, fix.On("sudo modprobe ib_uverbs"))
	case nccl.ObstacleRefused:
		f.Summary, f.Got = "the ranks cannot open /dev/infiniband/uverbs*", refusedVerbs(node)
		f.Remedy = openVerbs(node, fix.On("sudo chmod 0666 /dev/infiniband/uverbs*   # until the next boot; for good, install the udev rules of rdma-core"))
	default:
		return nil
	}
	if !othersWork {
		f.Verdict, f.WouldSee = checks.Warn, "NET/IB : No device found; all traffic then goes over TCP"
	}
	return []checks.Finding{f}
}

// unmanaged returns a finding if no node has an active port although some ports have a link. These
// ports wait for a subnet manager (INIT or ARMED). Ports without a link count as unused.
func unmanaged(node *facts.Node) []checks.Finding {
	var waiting []string
	for _, device := range node.IB.Devices {
		for _, port := range device.Ports {
			if port.LinkLayer == "InfiniBand" && (port.State == "INIT" || port.State == "ARMED") {
				waiting = append(waiting, fmt.Sprintf("%s:%d %s", device.Name, port.Port, port.State))
			}
		}
	}
	if waiting == nil {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Summary:  "no subnet manager has brought up the InfiniBand ports of any node",
		Got:      strings.Join(waiting, ", "),
		Want:     "ACTIVE ports, which need a subnet manager: one on a switch, or opensm on one machine of the fabric",
		WouldSee: "NET/IB : No device found, and all traffic over TCP",
		Remedy:   []fix.Command{fix.Console("sudo systemctl enable --now opensm   # on one machine only, if no switch manages the fabric").As(fix.Or)},
	}}
}

func portStates(node *facts.Node) string {
	var states []string
	for _, device := range node.IB.Devices {
		for _, port := range device.Ports {
			states = append(states, strings.TrimSpace(fmt.Sprintf("%s:%d %s %s", device.Name, port.Port, port.State, port.Physical)))
		}
	}
	return strings.Join(states, ", ")
}

func refusedVerbs(node *facts.Node) string {
	texts := text.Map(node.IB.Refused, func(refused facts.DeviceNode) string { return refused.Path + ": " + refused.Problem })
	return strings.Join(texts, ", ")
}

func userspaceRDMA(view checks.View, node *facts.Node) []fix.Command {
	commands := fix.Install(fix.On, remedy.SystemOf(node), "libibverbs1 ibverbs-providers", "libibverbs")
	if ranks.ContainerOf(node) != "" {
		for i := range commands {
			commands[i] = commands[i].Remark("also in the container image, or it is lost with the container")
		}
	}
	return commands
}

// openVerbs returns the commands that make the adapters' device nodes available. A container must
// be started with the device nodes. On a machine, onMetal creates or opens them.
func openVerbs(node *facts.Node, onMetal fix.Command) []fix.Command {
	container := ranks.ContainerOf(node)
	if commands := remedy.StartAgain(container, remedy.InfiniBand); commands != nil {
		return commands
	}
	if container == "" {
		return []fix.Command{onMetal}
	}
	return []fix.Command{fix.Note("start the container of {nodes} again with its machine's /dev/infiniband")}
}

// unaddressable returns findings for RoCE ports without the GID that NCCL needs. That is the GID
// that NCCL_IB_GID_INDEX names, or a GID of RoCE v2 if NCCL looks for one. A port without the GID
// cannot connect to ports of nodes that have it.
func unaddressable(view checks.View, node *facts.Node, ports []nccl.HCAPort, hasV2 map[string]bool) (findings []checks.Finding) {
	index := ranks.Env(view, node).Get("NCCL_IB_GID_INDEX")
	for _, port := range ports {
		if port.LinkLayer != "Ethernet" || port.Adapter.Kind == "RNIC" {
			continue
		}
		device := port.Adapter.Name
		f := checks.Finding{
			WouldSee: "Call to ibv_modify_qp failed with error No data available (or Invalid argument, or Connection timed out)",
			Remedy:   []fix.Command{fix.On("cat /sys/class/infiniband/%s/ports/%s/gid_attrs/types/*", fix.Name(device), fix.Number(port.Port)).As(fix.Look)},
		}
		wanted, isNumber := nccl.Number(index.Value)
		switch given := isNumber && wanted >= 0; {
		case given && !slices.ContainsFunc(port.GIDs, func(g facts.GID) bool { return int64(g.Index) == wanted }):
			f.Summary = "NCCL_IB_GID_INDEX names an empty GID of " + device
			f.Got = ranks.Origin(view, index) + "; the port has " + gidIndexes(*port.IBPort)
			f.Want = "an index that exists on this node, or no NCCL_IB_GID_INDEX with NCCL 2.21 or newer"
			f.Remedy = append(f.Remedy, ranks.TakeOut(view, index)...)
		case given && pinnedBeside(view, node, port.IBPort) != "":
			f.Verdict, f.WouldSee = checks.Warn, "nothing within one Ethernet segment; retry exceeded across a router"
			f.Summary = "NCCL_IB_GID_INDEX selects an address of " + device + " that NCCL would not choose"
			f.Got = ranks.Origin(view, index) + ": " + takenGID(view, node, port.IBPort) + "; NCCL would choose " + pinnedBeside(view, node, port.IBPort)
			f.Want = "no NCCL_IB_GID_INDEX: an index changes with the addresses of the interface"
			f.Remedy = ranks.TakeOut(view, index)
		case missesV2(view, node, port.IBPort):
			f.Summary = device + " has no RoCE v2 GID"
			f.Got = gidIndexes(*port.IBPort)
			f.Want = "an IPv4 address on the interface " + port.NetDev
			if slices.ContainsFunc(port.GIDs, nccl.IsRoCEv2) {
				f.Summary = "NCCL does not choose the RoCE v2 GID of " + device
				f.Got = "NCCL chooses " + takenGID(view, node, port.IBPort) + "; the port has " + f.Got
				if hostfile.Before(nccl.Version(node), "2.21") {
					f.Want = "NCCL_IB_GID_INDEX with the index of a GID with an IPv4 address, or NCCL 2.21, which finds it"
				}
			}
			if !hasV2[port.Name()] {
				f.Verdict, f.WouldSee = checks.Warn, "nothing within one Ethernet segment; Call to ibv_modify_qp failed, or retry exceeded, across a router"
			}
		default:
			continue
		}
		findings = append(findings, f)
	}
	return findings
}

// missesV2 reports whether NCCL looks for a RoCE v2 GID on a port but chooses another GID. That
// happens if no interface has an IPv4 address: the search then ends at the link-local address of
// RoCE v1. An explicit index or version is the user's choice and does not count.
func missesV2(view checks.View, node *facts.Node, port *facts.IBPort) bool {
	env := ranks.Env(view, node)
	index, isNumber := nccl.Number(env.Get("NCCL_IB_GID_INDEX").Value)
	version, wanted := nccl.Number(env.Get("NCCL_IB_ROCE_VERSION_NUM").Value)
	if isNumber && index >= 0 || wanted && version != 2 {
		return false
	}
	gid, found := chosenGID(view, node, port)
	return !slices.ContainsFunc(port.GIDs, nccl.IsRoCEv2) || !found || gid.Type != "" && !nccl.IsRoCEv2(gid)
}

// pinnedBeside returns the RoCE v2 GID that NCCL would choose without NCCL_IB_GID_INDEX, if this
// variable selects another kind of GID. It returns "" if the selected GID is no worse, or if NCCL
// would find no GID.
func pinnedBeside(view checks.View, node *facts.Node, port *facts.IBPort) string {
	pinned, isThere := chosenGID(view, node, port)
	free := view
	free.Launch = ranks.Exporting(view.Launch, "NCCL_IB_GID_INDEX", "-1")
	found, isFound := chosenGID(free, node, port)
	if !isThere || !isFound || pinned.Type == "" || !nccl.IsRoCEv2(found) || gidWords(pinned) == gidWords(found) {
		return ""
	}
	return takenGID(free, node, port)
}

func takenGID(view checks.View, node *facts.Node, port *facts.IBPort) string {
	gid, found := chosenGID(view, node, port)
	if !found {
		return "index 0, which is empty"
	}
	return fmt.Sprintf("index %d (%s, %s)", gid.Index, gid.Type, gid.GID)
}

func portsWithV2(view checks.View, networks map[*facts.Node]*nccl.Network) map[string]bool {
	names := map[string]bool{}
	for node, network := range networks {
		for _, port := range network.Ports {
			if port.LinkLayer == "Ethernet" && !missesV2(view, node, port.IBPort) {
				names[port.Name()] = true
			}
		}
	}
	return names
}

func gidIndexes(port facts.IBPort) string {
	parts := text.Map(port.GIDs, func(gid facts.GID) string { return fmt.Sprintf("%d (%s)", gid.Index, gid.Type) })
	if parts == nil {
		return "no GID"
	}
	return "GID " + strings.Join(parts, ", ")
}

// overIWARP returns a finding for iWARP ports. NCCL selects them by their link layer but cannot
// connect them. iWARP has no GIDs with which to find a peer, and NCCL does not check the protocol
// of a port.
// Source: NVIDIA/nccl 2.30, transport/net_ib/init.cc, ncclIbInitDevices; Linux 6.8,
// drivers/infiniband/core/sysfs.c, node_type_show.
func overIWARP(view checks.View, node *facts.Node, ports []nccl.HCAPort) []checks.Finding {
	isIWARP := func(port nccl.HCAPort) bool { return port.Adapter.Kind == "RNIC" }
	if !slices.ContainsFunc(ports, isIWARP) {
		return nil
	}
	return []checks.Finding{{
		Summary:  "NCCL would use iWARP adapters, which cannot connect",
		Got:      spelledPorts(ports, isIWARP),
		Want:     "InfiniBand and RoCE only",
		WouldSee: "Call to ibv_modify_qp failed",
		Remedy:   leaveOut(view, node, ports, isIWARP),
	}}
}

// mixedLayers warns if NCCL would use both InfiniBand and Ethernet ports of a node. The topology
// decides which ports connect to each other, and ports of different link layers cannot.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc, ncclIbConnect.
func mixedLayers(view checks.View, node *facts.Node, ports []nccl.HCAPort) []checks.Finding {
	isEthernet := func(port nccl.HCAPort) bool { return port.LinkLayer == "Ethernet" && port.Adapter.Kind != "RNIC" }
	isFabric := func(port nccl.HCAPort) bool { return port.LinkLayer == "InfiniBand" }
	if !slices.ContainsFunc(ports, isEthernet) || !slices.ContainsFunc(ports, isFabric) {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Summary:  "NCCL would use InfiniBand and RoCE ports, which cannot connect to each other",
		Got:      "InfiniBand " + spelledPorts(ports, isFabric) + ", RoCE " + spelledPorts(ports, isEthernet),
		Want:     "ports of one link layer in NCCL_IB_HCA",
		WouldSee: "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE",
		Remedy:   leaveOut(view, node, ports, isEthernet),
	}}
}

func spelledPorts(ports []nccl.HCAPort, is func(nccl.HCAPort) bool) string {
	var names []string
	for _, port := range ports {
		if is(port) {
			names = append(names, port.Name())
		}
	}
	return strings.Join(names, ", ")
}

func leaveOut(view checks.View, node *facts.Node, ports []nccl.HCAPort, is func(nccl.HCAPort) bool) []fix.Command {
	others := spelledPorts(ports, func(port nccl.HCAPort) bool { return !is(port) })
	value := "=" + strings.ReplaceAll(others, ", ", ",")
	if others == "" {
		return []fix.Command{ranks.ExportLine(view.Launch, "NCCL_IB_DISABLE", "1").Remark("no port is left: all nodes then use TCP")}
	}
	if !text.IsPlain(value) {
		return []fix.Command{fix.On("ls /sys/class/infiniband").As(fix.Look), fix.Note("name the adapters for data in NCCL_IB_HCA")}
	}
	commands := []fix.Command{ranks.ExportLine(view.Launch, "NCCL_IB_HCA", value)}
	if given := ranks.Env(view, node).Get("NCCL_IB_HCA"); given.Value != "" {
		commands = fix.Steps(append(ranks.TakeOut(view, given), commands...)...)
	}
	return commands
}

// takenByBeginning warns about adapters that NCCL_IB_HCA selects only because their names begin
// with a listed name. For example, mlx5_10 begins with mlx5_1.
// Source: NVIDIA/nccl 2.30.7, misc/utils.cc, matchIf.
func takenByBeginning(view checks.View, node *facts.Node) []checks.Finding {
	given := ranks.Env(view, node).Get("NCCL_IB_HCA")
	if given.Value == "" || strings.HasPrefix(given.Value, "^") {
		return nil
	}
	devices := func(value string) (names []string) {
		for _, device := range node.IB.Devices {
			if len(nccl.MatchHCA(value, []nccl.Device{{Name: device.Name}})) > 0 {
				names = append(names, device.Name)
			}
		}
		return names
	}
	exact := "=" + strings.TrimPrefix(given.Value, "=")
	taken, named := devices(given.Value), devices(exact)
	var besides []string
	for _, device := range taken {
		isLonger := func(name string) bool { return strings.HasPrefix(device, name) }
		if !slices.Contains(named, device) && slices.ContainsFunc(named, isLonger) {
			besides = append(besides, device)
		}
	}
	if besides == nil || !text.IsPlain(exact) {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Summary:  "NCCL_IB_HCA also selects adapters whose names only begin like those listed",
		Got:      ranks.Origin(view, given) + " selects " + strings.Join(besides, ", ") + " too",
		Want:     "a list that begins with =, which matches whole names only",
		WouldSee: "NET/IB : Using … with an unintended adapter",
		Remedy:   fix.Steps(append(ranks.TakeOut(view, given), ranks.ExportLine(view.Launch, "NCCL_IB_HCA", exact))...),
	}}
}

// managing warns about ports that only lead to the machine's own NVSwitches. NCCL would use them
// like any other port (NVIDIA/nccl 2.30.7, transport/net_ib/init.cc, ncclIbInitDevices).
func managing(view checks.View, node *facts.Node, ports []nccl.HCAPort) []checks.Finding {
	doors := ranks.SwitchDoors(node)
	isDoor := func(port nccl.HCAPort) bool { return slices.Contains(doors, port.Adapter.Name) }
	if !slices.ContainsFunc(ports, isDoor) {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Summary:  "NCCL would use adapters that only manage this machine's NVSwitches",
		Got:      spelledPorts(ports, isDoor),
		Want:     "ports for data only, named in NCCL_IB_HCA",
		WouldSee: "when a rank uses such an adapter: Got completion from peer … with status=12 (retry exceeded)",
		Remedy:   leaveOut(view, node, ports, isDoor),
	}}
}

// forData returns the ports that carry data, without those that only manage NVSwitches.
func forData(node *facts.Node, ports []nccl.HCAPort) []nccl.HCAPort {
	doors := ranks.SwitchDoors(node)
	return compare.Without(ports, func(port nccl.HCAPort) bool { return slices.Contains(doors, port.Adapter.Name) })
}
