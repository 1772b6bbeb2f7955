package checks

import (
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var ibLinks = Check{
	ID:       "ib-links",
	Title:    "the InfiniBand and RoCE ports NCCL will use are up, at full rate and addressable",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionIB},
	Doc: "NCCL uses every ACTIVE port of the adapters that NCCL_IB_HCA selects, and falls back to TCP without a word where there is none; ranks that " +
		"fell back cannot talk to ranks that did not. A port that is down everywhere is taken for unused, one that is down here and up on most nodes is not. " +
		"A container also needs /dev/infiniband/uverbs*, and a RoCE port needs a usable GID.",
	WouldSee: "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
	Run:      judgePorts,
}

func judgePorts(view View) []Finding {
	nodes, reason := usingIB(view)
	if reason != "" {
		return skip(reason)
	}
	findings := downPorts(nodes)
	for _, node := range nodes {
		if len(node.IB.Devices) == 0 {
			continue // ib-same says so
		}
		env := rankEnv(view, node)
		if f, lacks := lacksVerbs(node); lacks {
			findings = append(findings, f)
			continue
		}
		findings = append(findings, selectsNothing(view, node, env["NCCL_IB_HCA"])...)
		findings = append(findings, unaddressable(view, node, env["NCCL_IB_GID_INDEX"])...)
	}
	return append(findings, slowPorts(nodes)...)
}

// usingIB is the nodes whose ranks would use InfiniBand or RoCE, or why there
// are none. A node without an adapter counts: the others have some.
func usingIB(view View) (nodes []*facts.Node, reason string) {
	if view.Launch.Accelerator == "cpu" {
		return nil, "ranks on cpu talk by gloo, over TCP"
	}
	hasDevices, disabled := false, 0
	for _, node := range view.Nodes {
		hasDevices = hasDevices || len(node.IB.Devices) > 0
		if keptOffRDMA(rankEnv(view, node)) {
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

// keptOffRDMA is whether what ranks see has NCCL leave adapters alone.
func keptOffRDMA(env map[string]facts.Setting) bool {
	return isOn(env["NCCL_IB_DISABLE"].Value) || strings.EqualFold(env["NCCL_NET"].Value, "Socket")
}

// lacksVerbs: the adapter shows in sysfs, but nothing can open it.
func lacksVerbs(node *facts.Node) (Finding, bool) {
	if len(node.IB.Verbs) > 0 {
		return Finding{}, false
	}
	f := Finding{
		Nodes:    []string{node.Name},
		Summary:  "there are RDMA adapters, and no /dev/infiniband/uverbs* to use them by",
		Got:      deviceNames(node),
		WouldSee: "NET/IB : No device found, and TCP from this node only",
		Fix:      []string{"{ssh} sudo modprobe ib_uverbs"},
	}
	if node.Host != nil && node.Host.Container != "" {
		f.Fix = []string{"docker run --device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK …"}
	}
	return f, true
}

func selectsNothing(view View, node *facts.Node, hca facts.Setting) []Finding {
	if hca.Value == "" || len(launch.MatchHCA(hca.Value, portsOf(node))) > 0 {
		return nil
	}
	return []Finding{{
		Nodes:    []string{node.Name},
		Summary:  "NCCL_IB_HCA selects no adapter of this node",
		Got:      origin(view, hca),
		Want:     "some of " + deviceNames(node),
		WouldSee: "NET/IB : No device found, and TCP from this node only",
		Fix:      takeOut(view, hca),
	}}
}

func portsOf(node *facts.Node) []launch.Device {
	var ports []launch.Device
	for _, device := range node.IB.Devices {
		for _, port := range device.Ports {
			ports = append(ports, launch.Device{Name: device.Name, Port: port.Port})
		}
	}
	return ports
}

func deviceNames(node *facts.Node) string {
	var names []string
	for _, device := range node.IB.Devices {
		names = append(names, device.Name)
	}
	return strings.Join(names, ", ")
}
