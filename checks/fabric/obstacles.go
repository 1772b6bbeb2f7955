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

// obstructed is what keeps NCCL off the adapters of a node: the launch fails where
// other nodes use theirs, and is slow where nobody can. Nodes without an adapter are
// ib-same's to speak of.
func obstructed(view checks.View, node *facts.Node, network *nccl.Network, othersWork bool) []checks.Finding {
	f := checks.Finding{WouldSee: "NET/IB : No device found, and TCP from this node only"}
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
		f.Verdict, f.WouldSee = checks.Warn, "NET/IB : No device found, and all traffic over TCP"
	}
	return []checks.Finding{f}
}

// unmanaged speaks of a fleet without any active port only where ports have a link, as
// INIT and ARMED say, and wait for a subnet manager: others are taken for unused.
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
		Want:     "ACTIVE: a subnet manager on a switch, or opensm on one machine of the fabric",
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

// openVerbs gives a container the adapters' device nodes; a machine has its own way.
func openVerbs(node *facts.Node, onMetal fix.Command) []fix.Command {
	container := ranks.ContainerOf(node)
	if commands := remedy.Anew(container, remedy.InfiniBand); commands != nil {
		return commands
	}
	if container == "" {
		return []fix.Command{onMetal}
	}
	return []fix.Command{fix.Note("start the container of {nodes} again with its machine's /dev/infiniband")}
}

// unaddressable finds RoCE ports whose GID is not there: the one that NCCL_IB_GID_INDEX
// names, or one of RoCE v2 where NCCL looks for it, without which a port cannot connect to its
// like on nodes that have one.
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

// missesV2 is whether NCCL looks for a GID of RoCE v2 on a port and takes another, as where
// no interface has an IPv4 address: its walk then ends where it began, at the link-local
// address of RoCE v1. Whoever gives the index or the version has chosen.
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

// pinnedBeside is the GID of RoCE v2 that NCCL would find on a port by itself where an index
// that is given picks one of another kind, "" where it picks no worse or NCCL finds none.
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

// overIWARP finds ports that NCCL takes by their link layer and cannot connect: iWARP
// has no GIDs to find a peer by, and NCCL does not ask what a port speaks.
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

// mixedLayers warns of a node that has NCCL take InfiniBand and Ethernet ports: which
// of them meet is the topology's to decide, and those of two layers cannot connect.
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

// takenByBeginning warns of adapters that NCCL_IB_HCA selects only because their names begin
// with the whole name of another: mlx5_10 with mlx5_1.
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

// managing warns of ports that lead to the machine's own NVSwitches and to no other node. NCCL
// takes them like any other (NVIDIA/nccl 2.30.7, transport/net_ib/init.cc, ncclIbInitDevices).
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
		WouldSee: "Got completion from peer … with status=12 (retry exceeded), when a rank uses one",
		Remedy:   leaveOut(view, node, ports, isDoor),
	}}
}

// forData are the ports that do not manage switches.
func forData(node *facts.Node, ports []nccl.HCAPort) []nccl.HCAPort {
	doors := ranks.SwitchDoors(node)
	return compare.Without(ports, func(port nccl.HCAPort) bool { return slices.Contains(doors, port.Adapter.Name) })
}
