// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

// switches lists settings that contradict the hardware, that leaked into the launch from elsewhere,
// or that were workarounds and now slow the launch down.
var switches = []struct {
	name     string
	harms    func(node *facts.Node, value string) bool
	verdict  checks.Verdict // "" for a warning
	summary  string
	wouldSee string
}{
	{"NCCL_NET", func(node *facts.Node, value string) bool { return lacksRDMA(node) && strings.EqualFold(value, "IB") }, checks.Fail,
		"NCCL_NET=IB requires InfiniBand, but the node has no RDMA adapter", "Failed to initialize any NET plugin"},
	{"NCCL_IB_DISABLE", func(node *facts.Node, value string) bool {
		disabled, isNumber := nccl.Number(value)
		return lacksRDMA(node) && isNumber && disabled == 0
	}, "", "NCCL_IB_DISABLE=0 requests InfiniBand, but the node has no RDMA adapter", "NET/IB : No device found, and everything over TCP"},
	{"NCCL_P2P_DISABLE", isOn, "", "NCCL_P2P_DISABLE=1 disables NVLink and PCIe peer access between GPUs", slower},
	{"NCCL_SHM_DISABLE", isOn, "", "NCCL_SHM_DISABLE=1 sends data between GPUs of one node over the network", slower},
	{"NCCL_IB_DISABLE", func(node *facts.Node, value string) bool { return hasActivePort(node.IB) && nccl.IsOn(value) }, "",
		"NCCL_IB_DISABLE=1 leaves working RDMA ports unused: all data goes over TCP", slower},
	{"NCCL_NET", func(node *facts.Node, value string) bool {
		return hasActivePort(node.IB) && strings.EqualFold(value, "Socket")
	}, "", "NCCL_NET=Socket leaves working RDMA ports unused: all data goes over TCP", slower},
	{"CUDA_LAUNCH_BLOCKING", isOn, "", "CUDA_LAUNCH_BLOCKING=1 makes every kernel launch wait", slower},
	{"TORCH_DISTRIBUTED_DEBUG", func(_ *facts.Node, value string) bool { return strings.EqualFold(value, "DETAIL") }, "",
		"TORCH_DISTRIBUTED_DEBUG=DETAIL runs a second collective to check each one", slower},
	// torchrun sets this variable for its own workers. In another launch, it makes every rank a
	// client of a store that no rank serves.
	{"TORCHELASTIC_USE_AGENT_STORE", func(_ *facts.Node, value string) bool { return value == "True" }, checks.Fail,
		"a variable of torchrun leaked into the launch: no rank will serve the store",
		"The client socket has timed out … while trying to connect, on every node, rank 0 included"},
}

const slower = "no message: the run is slower than the hardware allows"

func isOn(_ *facts.Node, value string) bool { return nccl.IsOn(value) }

func lacksRDMA(node *facts.Node) bool { return node.IB != nil && len(node.IB.Devices) == 0 }

func harmfulSwitches(r envOfRanks) []checks.Finding {
	var findings []checks.Finding
	for _, each := range switches {
		if ranks.Unread(r.view, each.name) == "" && each.harms(r.node, r.value(each.name)) {
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
	return slices.ContainsFunc(ib.Devices, func(device facts.HCA) bool {
		return slices.ContainsFunc(device.Ports, func(port facts.IBPort) bool { return port.State == "ACTIVE" })
	})
}

// confFile checks the file that NCCL_CONF_FILE names. NCCL reads this variable since 2.23, and does
// not expand its value.
func confFile(r envOfRanks) []checks.Finding {
	const name = "NCCL_CONF_FILE"
	file := r.value(name)
	var findings []checks.Finding
	if ranks.Unread(r.view, name) != "" {
		return nil
	}
	if strings.HasPrefix(file, "~") {
		findings = append(findings, r.finding(name, "NCCL does not expand ~ in NCCL_CONF_FILE, so it reads no file"))
	}
	if file != "" && hostfile.Before(nccl.Version(r.node), "2.23") {
		f := r.finding(name, "NCCL reads NCCL_CONF_FILE only since 2.23")
		f.Want = "NCCL 2.23 or newer (the node has " + nccl.Version(r.node) + "), or the settings in ~/.nccl.conf"
		findings = append(findings, f)
	}
	return findings
}

// servicePort warns about the variable that Kubernetes sets in pods if a Service has the name vllm.
//
// Source: vllm-project/vllm, envs.py, get_vllm_port, 0.9 to 0.11.
func servicePort(r envOfRanks) []checks.Finding {
	const name = "VLLM_PORT"
	script := ranks.ScriptAt(r.view.Launch, r.node)
	if !strings.Contains(r.value(name), "://") || script == nil || !slices.Contains(script.Imports, "vllm") {
		return nil
	}
	f := r.finding(name, "a Kubernetes Service named vllm sets VLLM_PORT to its address")
	f.Want = "a port number, or no such variable"
	f.WouldSee = "ValueError: VLLM_PORT '" + r.value(name) + "' appears to be a URI"
	f.Remedy = []fix.Command{fix.Note("set enableServiceLinks: false in the spec of the pods, or give the Service another name")}
	return []checks.Finding{f}
}

// ncclInterfaces fails if NCCL_SOCKET_IFNAME matches no interface, because NCCL then has no
// fallback.
func ncclInterfaces(r envOfRanks) []checks.Finding {
	if r.node.Net == nil {
		return nil
	}
	const name = "NCCL_SOCKET_IFNAME"
	spec := r.value(name)
	if spec == "" {
		return nil
	}
	usable := text.Map(nccl.Candidates(r.view.Launch, r.node), func(choice nccl.Choice) string { return choice.Interface })
	selected, chosen := nccl.MatchIfname(spec, usable)
	switch {
	case !chosen:
		return []checks.Finding{r.finding(name, "NCCL ignores NCCL_SOCKET_IFNAME if it has fewer than two characters")}
	case len(selected) > 0:
		return nil
	}
	f := r.finding(name, "NCCL_SOCKET_IFNAME matches no interface of the node")
	f.Verdict, f.WouldSee = r.fatal(name, "Bootstrap : no socket interface found")
	f.Want = oneOf(outward(r.node.Net, usable))
	if f.Verdict == checks.Fail { // the fix first removes the variable, and then sets it
		f.Remedy = append(f.Remedy, setForAll(r.view.Launch, name, ifnameList(r.view))...)
	}
	return []checks.Finding{f}
}

// fatal returns the verdict and message of a setting that ends every process that reads it.
func (r envOfRanks) fatal(name, message string) (checks.Verdict, string) {
	if unread := ranks.Unread(r.view, name); unread != "" {
		return checks.Warn, fmt.Sprintf("nothing: %s; otherwise %s", unread, message)
	}
	return checks.Fail, message
}

// exactInterfaces fails if the variable of gloo or tensorpipe names no interface.
func exactInterfaces(r envOfRanks) []checks.Finding {
	if r.node.Net == nil {
		return nil
	}
	usable := nccl.Addressed(r.node.Net)
	var findings []checks.Finding
	for _, name := range []string{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
		if r.value(name) == "" {
			continue
		}
		item, isAny := ranks.NoInterface(r.node.Net, r.value(name))
		if !isAny {
			continue
		}
		f := r.finding(name, fmt.Sprintf("%s: the node has no interface %q", name, item))
		if strings.ContainsAny(item, "^=") {
			f.Summary = name + " takes whole interface names: ^ and = work only for NCCL"
		}
		f.Verdict, f.WouldSee = r.fatal(name, "Unable to find address for: "+item)
		f.Want = oneOf(outward(r.node.Net, usable))
		f.Remedy = append(f.Remedy, setForAll(r.view.Launch, name, sharedName(r.view))...)
		findings = append(findings, f)
	}
	return findings
}

// outward returns the interfaces without the loopback interface.
func outward(net *facts.Net, interfaces []string) []string {
	return slices.DeleteFunc(slices.Clone(interfaces), func(name string) bool { return names.InterfaceOf(net, name).Loopback })
}

// oneOf returns a text that lists the interfaces that would work.
func oneOf(interfaces []string) string {
	if len(interfaces) == 0 {
		return "an interface that is up, with a carrier and an address; the node has none"
	}
	return "one of " + strings.Join(interfaces, ", ")
}

// setForAll returns the command that sets a variable for the whole fleet. If no value is right on
// every node, it returns a command that lists the interfaces.
func setForAll(p launch.Prediction, name, value string) []fix.Command {
	if value == "" {
		return []fix.Command{fix.On("ip -br addr").As(fix.Look)}
	}
	line := ranks.ExportLine(p, name, value)
	if strings.HasPrefix(value, "=") && ranks.Exportable(name, value) {
		line = line.Remark(exactMark)
	}
	return []fix.Command{line}
}
