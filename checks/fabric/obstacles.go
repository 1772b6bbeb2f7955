package fabric

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

// obstructed is what keeps NCCL off the adapters of a node: the launch fails where
// other nodes use theirs, and is slow where nobody can. Nodes without an adapter are
// ib-same's to speak of.
func obstructed(view checks.View, node *facts.Node, network nccl.Network, othersWork bool) []checks.Finding {
	f := checks.Finding{Nodes: []string{node.Name}, WouldSee: "NET/IB : No device found, and TCP from this node only"}
	switch network.Obstacle {
	case nccl.ObstacleHCA:
		return selectsNothing(view, node, network.Setting)
	case nccl.ObstacleInactive:
		f.Summary, f.Got = "no InfiniBand or RoCE port is up, where other nodes have some", portStates(node)
		f.Want, f.Remedy = "ACTIVE LinkUp", []fix.Command{fix.On("ibstat")}
		if !othersWork {
			return unmanaged(node)
		}
	case nccl.ObstacleNoLibrary:
		f.Summary, f.Want = "there are RDMA adapters, and no libibverbs.so.1 for NCCL to use them by", "libibverbs.so.1 in the loader's path"
		f.Remedy = userspaceRDMA(view, node)
	case nccl.ObstacleNoDriver:
		f.Summary, f.Want = "libibverbs has no driver for the adapters of this node", "libmlx5.so.1 in the loader's path, and libibverbs' own part of it"
		f.Remedy = userspaceRDMA(view, node)
	case nccl.ObstacleNoVerbs:
		f.Summary, f.Got = "there are RDMA adapters, and no /dev/infiniband/uverbs* to use them by", ranks.DeviceNames(node)
		f.Remedy = openVerbs(node, fix.On("sudo modprobe ib_uverbs"))
	case nccl.ObstacleRefused:
		f.Summary, f.Got = "the ranks may not open /dev/infiniband/uverbs*", refusedVerbs(node)
		f.Remedy = openVerbs(node, fix.On("sudo chmod 0666 /dev/infiniband/uverbs*   # until the next start; the udev rules of rdma-core make it so for good"))
	default:
		return nil
	}
	if !othersWork {
		f.Verdict, f.WouldSee = checks.Warn, "NET/IB : No device found, and everything over TCP"
	}
	return []checks.Finding{f}
}

func selectsNothing(view checks.View, node *facts.Node, hca facts.Setting) []checks.Finding {
	return []checks.Finding{{
		Nodes:    []string{node.Name},
		Summary:  "NCCL_IB_HCA selects no adapter of this node",
		Got:      ranks.Origin(view, hca),
		Want:     "some of " + ranks.DeviceNames(node),
		WouldSee: "NET/IB : No device found, and TCP from this node only",
		Remedy:   ranks.TakeOut(view, hca),
	}}
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
func userspaceRDMA(view checks.View, node *facts.Node) []fix.Command {
	commands := fix.Install(fix.On, remedy.SystemOf(node), "libibverbs1 ibverbs-providers", "libibverbs")
	if ranks.ContainerOf(node) != "" {
		for i := range commands {
			commands[i] = commands[i].Remark("and in the container's image, or it is gone with the container")
		}
	}
	return commands
}

// openVerbs gives a container the adapters' device nodes; a machine has its own cure.
func openVerbs(node *facts.Node, onMetal fix.Command) []fix.Command {
	switch container := ranks.ContainerOf(node); container {
	case "":
		return []fix.Command{onMetal}
	case "docker", "podman":
		return []fix.Command{fix.Here("%s run --device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK …   # start the container of {nodes} anew with this", fix.Name(container))}
	case "kubernetes":
		return []fix.Command{fix.Here("resources: {limits: {rdma/hca: 1}}   # in the pod's spec, by the name that the cluster's RDMA device plugin gives them, with IPC_LOCK")}
	}
	return []fix.Command{fix.Note("start the container of {nodes} anew with /dev/infiniband of its machine")}
}
