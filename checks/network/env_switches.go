package network

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// switches are settings that contradict the machine, that leaked into the launch, or that
// were a workaround once and slow down every later run.
var switches = []struct {
	name     string
	harms    func(node *facts.Node, value string) bool
	verdict  checks.Verdict // "" is a warning
	summary  string
	wouldSee string
}{
	{"NCCL_NET", func(node *facts.Node, value string) bool { return lacksRDMA(node) && strings.EqualFold(value, "IB") }, checks.Fail,
		"NCCL_NET demands InfiniBand, and this node has no RDMA adapter", "Failed to initialize any NET plugin"},
	{"NCCL_IB_DISABLE", func(node *facts.Node, value string) bool {
		disabled, isNumber := nccl.Number(value)
		return lacksRDMA(node) && isNumber && disabled == 0
	}, "", "NCCL_IB_DISABLE=0 asks for InfiniBand, and this node has no RDMA adapter", "NET/IB : No device found, and everything over TCP"},
	{"NCCL_P2P_DISABLE", isOn, "", "NCCL_P2P_DISABLE=1 takes the GPUs of a node off NVLink and PCIe peer access", slower},
	{"NCCL_SHM_DISABLE", isOn, "", "NCCL_SHM_DISABLE=1 sends what stays on a node over the network", slower},
	{"NCCL_IB_DISABLE", func(node *facts.Node, value string) bool { return hasActivePort(node.IB) && ranks.IsOn(value) }, "",
		"NCCL_IB_DISABLE=1 leaves working RDMA ports unused, and everything goes over TCP", slower},
	{"NCCL_NET", func(node *facts.Node, value string) bool {
		return hasActivePort(node.IB) && strings.EqualFold(value, "Socket")
	}, "", "NCCL_NET=Socket leaves working RDMA ports unused, and everything goes over TCP", slower},
	{"CUDA_LAUNCH_BLOCKING", isOn, "", "CUDA_LAUNCH_BLOCKING=1 makes every kernel launch wait", slower},
	{"TORCH_DISTRIBUTED_DEBUG", func(_ *facts.Node, value string) bool { return strings.EqualFold(value, "DETAIL") }, "",
		"TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective with another one", slower},
	// Set by torchrun for its own workers, it makes every rank a client of a store that nobody serves.
	{"TORCHELASTIC_USE_AGENT_STORE", func(_ *facts.Node, value string) bool { return value == "True" }, checks.Fail,
		"a variable of torchrun leaked into the launch: no rank will serve the store",
		"The client socket has timed out … while trying to connect, on every node, rank 0 included"},
}

const slower = "no message: the run is slower than its machines"

func isOn(_ *facts.Node, value string) bool { return ranks.IsOn(value) }

func lacksRDMA(node *facts.Node) bool { return node.IB != nil && len(node.IB.Devices) == 0 }

func harmfulSwitches(r envOfRanks) []checks.Finding {
	var findings []checks.Finding
	for _, each := range switches {
		if each.harms(r.node, r.value(each.name)) {
			f := r.finding(each.name, each.summary)
			f.Verdict, f.WouldSee = each.verdict, each.wouldSee
			findings = append(findings, f)
		}
	}
	return findings
}

func hasActivePort(ib *facts.IB) bool {
	if ib == nil {
		return false
	}
	for _, device := range ib.Devices {
		if slices.ContainsFunc(device.Ports, func(port facts.IBPort) bool { return port.State == "ACTIVE" }) {
			return true
		}
	}
	return false
}

// confFile: NCCL_CONF_FILE is read since NCCL 2.23, and taken literally.
func confFile(r envOfRanks) []checks.Finding {
	const name = "NCCL_CONF_FILE"
	file := r.value(name)
	var findings []checks.Finding
	if strings.HasPrefix(file, "~") {
		findings = append(findings, r.finding(name, "NCCL does not expand ~ in a path, and reads no file"))
	}
	if file != "" && hostfile.Before(ranks.NCCLVersion(r.node), "2.23") {
		f := r.finding(name, "NCCL reads this variable since 2.23 only")
		f.Want = "NCCL 2.23 or newer, or the settings in ~/.nccl.conf; here is " + ranks.NCCLVersion(r.node)
		findings = append(findings, f)
	}
	return findings
}
