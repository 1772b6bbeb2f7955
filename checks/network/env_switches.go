package network

import (
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// missingAdapters finds settings that demand InfiniBand where there is none.
func missingAdapters(r envOfRanks) []checks.Finding {
	if r.node.IB == nil || len(r.node.IB.Devices) > 0 {
		return nil
	}
	var findings []checks.Finding
	if strings.EqualFold(r.value("NCCL_NET"), "IB") {
		f := r.finding("NCCL_NET", "NCCL_NET demands InfiniBand, and this node has no RDMA adapter")
		f.Verdict = checks.Fail
		f.WouldSee = "Failed to initialize any NET plugin"
		findings = append(findings, f)
	}
	if disabled, isNumber := nccl.Number(r.value("NCCL_IB_DISABLE")); isNumber && disabled == 0 {
		f := r.finding("NCCL_IB_DISABLE", "NCCL_IB_DISABLE=0 asks for InfiniBand, and this node has no RDMA adapter")
		f.WouldSee = "NET/IB : No device found, and everything over TCP"
		findings = append(findings, f)
	}
	return findings
}

// costs are switches that were a cure once and slow down every later run.
var costs = []struct {
	Name      string
	Is        func(value string) bool
	NeedsRDMA bool
	Summary   string
}{
	{"NCCL_P2P_DISABLE", nccl.IsOn, false, "NCCL_P2P_DISABLE=1 takes the GPUs of a node off NVLink and PCIe peer access"},
	{"NCCL_SHM_DISABLE", nccl.IsOn, false, "NCCL_SHM_DISABLE=1 sends what stays on a node over the network"},
	{"NCCL_IB_DISABLE", nccl.IsOn, true, "NCCL_IB_DISABLE=1 leaves working RDMA ports unused, and everything goes over TCP"},
	{"NCCL_NET", func(value string) bool { return strings.EqualFold(value, "Socket") }, true,
		"NCCL_NET=Socket leaves working RDMA ports unused, and everything goes over TCP"},
	{"CUDA_LAUNCH_BLOCKING", nccl.IsOn, false, "CUDA_LAUNCH_BLOCKING=1 makes every kernel launch wait"},
	{"TORCH_DISTRIBUTED_DEBUG", func(value string) bool { return strings.EqualFold(value, "DETAIL") }, false,
		"TORCH_DISTRIBUTED_DEBUG=DETAIL checks every collective with another one"},
}

func costlySwitches(r envOfRanks) []checks.Finding {
	var findings []checks.Finding
	for _, cost := range costs {
		if !cost.Is(r.value(cost.Name)) || cost.NeedsRDMA && !hasActivePort(r.node.IB) {
			continue
		}
		f := r.finding(cost.Name, cost.Summary)
		f.WouldSee = "no message: the run is slower than its machines"
		findings = append(findings, f)
	}
	return findings
}

func hasActivePort(ib *facts.IB) bool {
	if ib == nil {
		return false
	}
	for _, device := range ib.Devices {
		for _, port := range device.Ports {
			if port.State == "ACTIVE" {
				return true
			}
		}
	}
	return false
}

// leakedStore: set by torchrun for its own workers, it makes every rank a
// client of a store that nobody serves.
func leakedStore(r envOfRanks) []checks.Finding {
	const name = "TORCHELASTIC_USE_AGENT_STORE"
	if r.value(name) != "True" {
		return nil
	}
	f := r.finding(name, "a variable of torchrun leaked into the launch: no rank will serve the store")
	f.Verdict = checks.Fail
	f.WouldSee = "The client socket has timed out … while trying to connect, on every node, rank 0 included"
	return []checks.Finding{f}
}

// confFile: NCCL_CONF_FILE is read since NCCL 2.23, and taken literally.
func confFile(r envOfRanks) []checks.Finding {
	const name = "NCCL_CONF_FILE"
	file := r.value(name)
	var findings []checks.Finding
	if strings.HasPrefix(file, "~") {
		findings = append(findings, r.finding(name, "NCCL does not expand ~ in a path, and reads no file"))
	}
	if file != "" && hostfile.Before(nccl.Version(r.node), "2.23") {
		f := r.finding(name, "NCCL reads this variable since 2.23 only")
		f.Want = "NCCL 2.23 or newer, or the settings in ~/.nccl.conf; here is " + nccl.Version(r.node)
		findings = append(findings, f)
	}
	return findings
}
