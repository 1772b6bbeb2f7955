package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// unheld are the GPUs on a machine's bus that no driver of NVIDIA's holds although
// it answers for others. Those given to virtual machines are not meant for us, and a
// container sees the bus of the whole machine.
func unheld(node *facts.Node) (addresses []string) {
	if node.GPU == nil || node.Host == nil || containerOf(node) != "" {
		return nil
	}
	for _, gpu := range node.GPU.OnBus {
		if gpu.Driver == "" || gpu.Driver == "nouveau" {
			addresses = append(addresses, gpu.Address)
		}
	}
	return addresses
}

// lost are the GPUs that NVIDIA's driver holds, or that have device nodes, and that
// it does not show: by PCI address, by device node where the bus shows no trace or
// where some are another job's, as of those only the device nodes say which they are.
func lost(node *facts.Node) (names []string) {
	gpu := node.GPU
	if gpu == nil || node.Host == nil {
		return nil
	}
	others := withheld(node)
	if containerOf(node) == "" && others == 0 {
		for _, device := range gpu.OnBus {
			if device.Driver == "nvidia" && !shows(node.NVML.Cards, device.Address) {
				names = append(names, device.Address)
			}
		}
	}
	if names != nil {
		return names
	}
	for _, device := range gpu.Devices {
		refused := func(d facts.DeviceNode) bool { return d.Path == device && d.Problem != "" }
		if !slices.ContainsFunc(gpu.Doors, refused) && !slices.ContainsFunc(node.NVML.Unshown, refused) && strangersDoor(node, device) {
			names = append(names, device)
		}
	}
	if len(names) <= node.NVML.Hidden { // which of them are hidden is not told
		return nil
	}
	return names
}

// withheld is how many GPUs of a machine are not for this session: the driver hides
// them, or the cgroup of a job or a container keeps it from their device nodes. The
// driver may hide a GPU because of the cgroup.
func withheld(node *facts.Node) int {
	refused := 0
	for _, device := range node.NVML.Unshown {
		if device.Problem != "" && !slices.Contains(leadsNowhere, device.Problem) {
			refused++
		}
	}
	return max(refused, node.NVML.Hidden)
}

// shows is whether a card has a PCI address, or may have: not all told theirs.
func shows(cards []facts.Card, address string) bool {
	for i := range cards {
		if cards[i].Address == "" || cards[i].Address == address {
			return true
		}
	}
	return false
}

// unheldGPUs is of those that the launch can do without a warning: a small GPU for
// the console alone often has no driver.
func unheldGPUs(view View, node *facts.Node, slots []int) []Finding {
	addresses := unheld(node)
	if addresses == nil {
		return nil
	}
	f := Finding{
		Nodes: []string{node.Name}, Summary: "GPUs on the bus are held by no driver of NVIDIA's", Got: strings.Join(addresses, ", "),
		Want: "the driver nvidia for every GPU that is to compute", WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
		Remedy: []fix.Command{fix.On("lspci -nnk -d 10de:   # which they are"), kernelSays.Remark("why the driver refused them")},
	}
	if slices.Contains(busDrivers(node), "nouveau") {
		f.Remedy = append(f.Remedy, nouveauOff)
	}
	if spares(node, slots) {
		f.Verdict = Warn
		f.WouldSee = unneeded
	} else {
		f.Remedy = append(f.Remedy, doWithout(view, node, slots)...)
	}
	return []Finding{f}
}

const unneeded = "nothing: the launch does not use what is not shown"

// doWithout starts the launch now, with the GPUs that the driver shows.
func doWithout(view View, node *facts.Node, slots []int) []fix.Command {
	commands := fewerSlots(view.Launch, slots, len(node.NVML.Cards))
	if len(node.NVML.Cards) > 0 {
		commands = append(commands, withoutNode)
	}
	return commands
}

// withoutNode starts the launch now, on the other nodes.
var withoutNode = fix.Note("or take {nodes} out of {hostfile} for now")

// spares is whether the slots need no more GPUs than the driver shows.
func spares(node *facts.Node, slots []int) bool {
	return len(slots) == 0 || slices.Max(slots) < len(node.NVML.Cards)
}

// lostGPU is of a machine whose driver shows fewer GPUs than it holds, which the
// launch may do without. A job's cgroup hides GPUs from its session in the same way.
func lostGPU(view View, node *facts.Node, names []string, slots []int) Finding {
	f := Finding{
		Nodes:    []string{node.Name},
		Summary:  "the driver shows fewer GPUs than there are: one has fallen off the bus",
		Got:      fmt.Sprintf("%d; not shown: %s", len(node.NVML.Cards), strings.Join(names, ", ")),
		Want:     fmt.Sprint(len(node.NVML.Cards) + len(names)),
		Remedy:   []fix.Command{kernelSays, fix.On("cat /proc/self/cgroup   # or does the session belong to a job that was given some of them?")},
		WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	}
	if len(names) > 1 {
		f.Summary = "the driver shows fewer GPUs than there are"
	}
	if container := containerOf(node); container != "" {
		f.Summary = "device nodes of GPUs are there that the driver does not show"
		f.Remedy = append([]fix.Command{kernelSays}, restartContainer(container, fix.Code("it was started with other GPUs"))...)
	}
	switch {
	case spares(node, slots): // another job may use the others: nothing that ends it
		f.Verdict = Warn
		f.WouldSee = unneeded
	case containerOf(node) == "":
		f.Remedy = append(f.Remedy, rebootNode.Remark("; where it stays away, power off and on"))
	}
	if !spares(node, slots) {
		f.Remedy = append(f.Remedy, doWithout(view, node, slots)...)
	}
	return f
}
