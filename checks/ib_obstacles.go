package checks

import (
	"fmt"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// obstructed is what keeps NCCL off the adapters of a node: the launch fails where
// other nodes use theirs, and is slow where nobody can. Nodes without an adapter are
// ib-same's to speak of.
func obstructed(view View, node *facts.Node, network launch.Network, othersWork bool) []Finding {
	f := Finding{Nodes: []string{node.Name}, WouldSee: "NET/IB : No device found, and TCP from this node only"}
	switch network.Obstacle {
	case launch.ObstacleHCA:
		return selectsNothing(view, node, network.Setting)
	case launch.ObstacleInactive:
		f.Summary, f.Got = "no InfiniBand or RoCE port is up, where other nodes have some", portStates(node)
		f.Want, f.Remedy = "ACTIVE LinkUp", []fix.Command{fix.On("ibstat")}
		if !othersWork {
			return unmanaged(node)
		}
	case launch.ObstacleNoLibrary:
		f.Summary, f.Want = "there are RDMA adapters, and no libibverbs.so.1 for NCCL to use them by", "libibverbs.so.1 in the loader's path"
		f.Remedy = userspaceRDMA(view, node)
	case launch.ObstacleNoDriver:
		f.Summary, f.Want = "libibverbs has no driver for the adapters of this node", "libmlx5.so.1 in the loader's path, and libibverbs' own part of it"
		f.Remedy = userspaceRDMA(view, node)
	case launch.ObstacleNoVerbs:
		f.Summary, f.Got = "there are RDMA adapters, and no /dev/infiniband/uverbs* to use them by", deviceNames(node)
		f.Remedy = openVerbs(node, fix.On("sudo modprobe ib_uverbs"))
	case launch.ObstacleRefused:
		f.Summary, f.Got = "the ranks may not open /dev/infiniband/uverbs*", refusedVerbs(node)
		f.Remedy = openVerbs(node, fix.On("sudo chmod 0666 /dev/infiniband/uverbs*   # until the next start; the udev rules of rdma-core make it so for good"))
	default:
		return nil
	}
	if !othersWork {
		f.Verdict, f.WouldSee = Warn, "NET/IB : No device found, and everything over TCP"
	}
	return []Finding{f}
}

func selectsNothing(view View, node *facts.Node, hca facts.Setting) []Finding {
	return []Finding{{
		Nodes:    []string{node.Name},
		Summary:  "NCCL_IB_HCA selects no adapter of this node",
		Got:      origin(view, hca),
		Want:     "some of " + deviceNames(node),
		WouldSee: "NET/IB : No device found, and TCP from this node only",
		Remedy:   takeOut(view, hca),
	}}
}

// unmanaged speaks of a fleet without any active port only where ports have a link, as
// INIT and ARMED say, and wait for a subnet manager: others are taken for unused.
func unmanaged(node *facts.Node) []Finding {
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
	return []Finding{{
		Verdict:  Warn,
		Nodes:    []string{node.Name},
		Summary:  "no subnet manager has brought up the InfiniBand ports of any node",
		Got:      strings.Join(waiting, ", "),
		Want:     "ACTIVE: a subnet manager on a switch, or opensm on one machine of the fabric",
		WouldSee: "NET/IB : No device found, and everything over TCP",
		Remedy:   []fix.Command{fix.Console("sudo systemctl enable --now opensm   # typed there, on one of them only, where no switch manages the fabric")},
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
	var texts []string
	for _, refused := range node.IB.Refused {
		texts = append(texts, refused.Path+": "+refused.Problem)
	}
	return strings.Join(texts, ", ")
}

// userspaceRDMA installs what NCCL loads, on a machine or in the image of a container.
func userspaceRDMA(view View, node *facts.Node) []fix.Command {
	commands := fix.Install(fix.On, systemOf(node), "libibverbs1 ibverbs-providers", "libibverbs")
	if containerOf(node) != "" {
		for i := range commands {
			commands[i] = commands[i].Remark("and in the container's image, or it is gone with the container")
		}
	}
	return commands
}

// openVerbs gives a container the adapters' device nodes; a machine has its own cure.
func openVerbs(node *facts.Node, onMetal fix.Command) []fix.Command {
	switch container := containerOf(node); container {
	case "":
		return []fix.Command{onMetal}
	case "docker", "podman":
		return []fix.Command{fix.Here("%s run --device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK …   # start the container of {nodes} anew with this", fix.Name(container))}
	case "kubernetes":
		return []fix.Command{fix.Here("resources: {limits: {rdma/hca: 1}}   # in the pod's spec, by the name that the cluster's RDMA device plugin gives them, with IPC_LOCK")}
	}
	return []fix.Command{fix.Note("start the container of {nodes} anew with /dev/infiniband of its machine")}
}
