// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

var Count = checks.Check{
	ID:        "gpu-count",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"slots-fit"},
	Run: func(view checks.View) []checks.Finding {
		return inMakersWords(view, invalidDevice, judgeGPUCount(view))
	},
}

const invalidDevice = "RuntimeError: CUDA error: invalid device ordinal"

func judgeGPUCount(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	if len(nodes) == 0 {
		return findings
	}
	short := view.Failing("slots-fit")
	slotsOf := view.Launch.SlotsUsed()
	var alike []*facts.Node
	for _, node := range nodes {
		switch names := lost(node); {
		case names != nil:
			findings = append(findings, checks.OfNode(node, lostGPU(view, node, names, slotsOf(node)))...)
		case len(unheld(node)) > 0 && !view.Policy.SwitchesOff("gpu-driver-loads"): // gpu-driver-loads reports these GPUs
		case !short[node.Name]:
			alike = append(alike, node)
		}
	}
	findings = append(findings, unlikeMakers(nodes)...)
	for _, node := range view.Nodes {
		if !node.NVML.Asked && !short[node.Name] && (slotsOf(node) == nil || len(slotsOf(node)) > 0) {
			findings = append(findings, noGPU(node))
		}
	}
	return append(findings, fewerGPUs(alike, slotsOf)...)
}

const talksToItself = "a hang or an error at the first collective: NCCL and RCCL cannot communicate"

// unlikeMakers returns the findings for a fleet with GPUs of both makers.
func unlikeMakers(nodes []*facts.Node) []checks.Finding {
	return compare.Findings("makers of GPUs", compare.Differences(compare.Among(nodes, "GPU maker", maker)), checks.Finding{
		WouldSee: talksToItself, Remedy: []fix.Command{fix.Note("remove {nodes} from {hostfile}")},
	})
}

func noGPU(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: "no NVIDIA or AMD GPU, but other nodes of the launch have GPUs", Want: "GPUs of one maker on every node",
		WouldSee: noDriver, Remedy: []fix.Command{onBus, fix.Note("remove {nodes} from {hostfile}")},
	}
	if others := len(valueOf(node.GPU).Others); others > 0 {
		f.Got = fmt.Sprintf("%d accelerators of another maker", others)
		f.WouldSee = talksToItself
	}
	if container := ranks.ContainerOf(node); container != "" {
		f.Remedy = append(remedy.StartWithGPUs(container), f.Remedy[1])
	}
	return f
}

// fewerGPUs compares the numbers of GPUs of the nodes. A node that shows exactly as many GPUs as it
// has slots is configured as intended.
func fewerGPUs(nodes []*facts.Node, slotsOf func(*facts.Node) []int) (findings []checks.Finding) {
	known := map[string]bool{}
	for _, node := range nodes {
		known[node.Name] = len(slotsOf(node)) == len(node.NVML.Cards)
	}
	for _, d := range compare.Differences(compare.Among(nodes, "GPUs", func(n *facts.Node) string { return strconv.Itoa(len(n.NVML.Cards)) })) {
		want, _ := strconv.Atoi(d.Deviations[0].Want)
		got, _ := strconv.Atoi(d.Deviations[0].Got)
		d.Nodes = slices.DeleteFunc(slices.Clone(d.Nodes), func(name string) bool { return known[name] })
		if len(d.Nodes) == 0 || !d.Split && got > want {
			continue
		}
		f := d.Finding("numbers of GPUs")
		f.Verdict = checks.Warn
		f.Remedy = []fix.Command{listGPUs}
		f.WouldSee = "nothing, if the launch needs no more GPUs than are shown"
		findings = append(findings, f)
	}
	return findings
}

// unheld returns the GPUs on a machine's bus that are not bound to their maker's driver, although
// the driver works for other GPUs. It leaves out GPUs that are passed to virtual machines. In a
// container, the bus shows the whole machine, so unheld returns nil there.
func unheld(node *facts.Node) (addresses []string) {
	if node.GPU == nil || node.Host == nil || ranks.ContainerOf(node) != "" {
		return nil
	}
	for _, gpu := range node.GPU.OnBus {
		if gpu.Driver == "" || gpu.Driver == "nouveau" {
			addresses = append(addresses, gpu.Address)
		}
	}
	return addresses
}

// lost returns the GPUs that are bound to the driver, or that have device nodes, but that the
// driver does not show. It names them by PCI address. It names them by device node if the bus does
// not show them, or if another job uses some of them. In that case only the device nodes tell which
// GPUs are lost.
func lost(node *facts.Node) (names []string) {
	gpu := node.GPU
	if gpu == nil || node.Host == nil {
		return nil
	}
	others := withheld(node)
	if ranks.ContainerOf(node) == "" && others == 0 {
		for _, device := range gpu.OnBus {
			if device.Driver == map[bool]string{false: "nvidia", true: "amdgpu"}[isAMD(node)] && !shows(node.NVML.Cards, device.Address) {
				names = append(names, device.Address)
			}
		}
	}
	if names != nil {
		return names
	}
	for _, device := range gpu.Devices {
		refused := func(d facts.DeviceNode) bool { return d.Path == device && d.Problem != "" }
		if !slices.ContainsFunc(gpu.Doors, refused) && !slices.ContainsFunc(node.NVML.Unshown, refused) && isOthersDevice(node, device) {
			names = append(names, device)
		}
	}
	if len(names) <= node.NVML.Hidden { // all of them may be GPUs that the driver hides on purpose
		return nil
	}
	return names
}

// withheld returns the number of GPUs that this session cannot use. Either the driver hides them,
// or the cgroup of a job or a container denies access to their device nodes. The driver may also
// hide a GPU because of the cgroup.
func withheld(node *facts.Node) int {
	refused := slices.DeleteFunc(slices.Clone(node.NVML.Unshown), func(d facts.DeviceNode) bool { return d.Problem == "" || slices.Contains(notThere, d.Problem) })
	return max(len(refused), node.NVML.Hidden)
}

// shows reports whether one of the cards has the PCI address. A card with an unknown address may
// have it and counts too.
func shows(cards []facts.Card, address string) bool {
	for i := range cards { // by index, to avoid copying a large card
		if cards[i].Address == "" || cards[i].Address == address {
			return true
		}
	}
	return false
}

// unheldGPUs returns the findings for GPUs without a driver. They are only warnings if the launch
// does not need these GPUs: a small GPU for the console often has no driver.
func unheldGPUs(view checks.View, node *facts.Node, slots []int) []checks.Finding {
	addresses := unheld(node)
	if addresses == nil {
		return nil
	}
	f := checks.Finding{
		Summary: "GPUs on the bus are not bound to NVIDIA's driver", Got: strings.Join(addresses, ", "),
		Want: "the driver nvidia for every GPU that ranks use", WouldSee: invalidDevice,
		Remedy: []fix.Command{whichHeld, typedFor(node, driverLog).Remark("shows why the driver refused them")},
	}
	if slices.Contains(busDrivers(node), "nouveau") {
		f.Remedy = append(f.Remedy, nouveauOff, rebootNode.Remark("; needed after that step"))
	}
	if enoughShown(node, slots) {
		f.Verdict, f.WouldSee = checks.Warn, unneeded
	} else {
		f.Remedy = append(f.Remedy, doWithout(view, node, slots)...)
	}
	return []checks.Finding{f}
}

var whichHeld = fix.On("lspci -nnk -d 10de:   # shows which they are").As(fix.Look)

const unneeded = "nothing: the launch does not use the missing GPUs"

func doWithout(view checks.View, node *facts.Node, slots []int) []fix.Command {
	commands := fewerSlots(view.Launch, slots, len(node.NVML.Cards))
	if len(node.NVML.Cards) > 0 {
		commands = append(commands, withoutNode)
	}
	return commands
}

var withoutNode = fix.Note("or remove {nodes} from {hostfile} for now")

// enoughShown reports whether the driver shows all GPUs that the slots need.
func enoughShown(node *facts.Node, slots []int) bool {
	return len(slots) == 0 || slices.Max(slots) < len(node.NVML.Cards)
}

// lostGPU returns the finding for a machine whose driver shows fewer GPUs than the machine has. It
// is only a warning if the launch does not need the missing GPUs. The cgroup of a job hides GPUs
// from its session in the same way.
func lostGPU(view checks.View, node *facts.Node, names []string, slots []int) checks.Finding {
	f := checks.Finding{
		Summary:  fmt.Sprintf("the driver shows %d of %d GPUs: one has fallen off the bus", len(node.NVML.Cards), len(node.NVML.Cards)+len(names)),
		Got:      fmt.Sprintf("%d GPUs; not shown: %s", len(node.NVML.Cards), strings.Join(names, ", ")),
		Want:     fmt.Sprintf("%d GPUs", len(node.NVML.Cards)+len(names)),
		Remedy:   []fix.Command{driverLog, fix.On("cat /proc/self/cgroup   # shows whether a job gave this session only some GPUs").As(fix.Look)},
		WouldSee: invalidDevice,
	}
	if len(names) > 1 {
		f.Summary = fmt.Sprintf("the driver shows %d of %d GPUs", len(node.NVML.Cards), len(node.NVML.Cards)+len(names))
	}
	if container := ranks.ContainerOf(node); container != "" {
		f.Summary = "there are device nodes of GPUs that the driver does not show"
		f.Remedy = append([]fix.Command{driverLog}, remedy.RestartContainer(container, fix.Code("it was started with other GPUs"))...)
	}
	if enoughShown(node, slots) { // another job may use the missing GPUs, so no command may stop that job
		f.Verdict, f.WouldSee = checks.Warn, unneeded
		return f
	}
	if ranks.ContainerOf(node) == "" {
		f.Remedy = append(f.Remedy, rebootNode.Remark(stayedAway))
	}
	f.Remedy = append(f.Remedy, doWithout(view, node, slots)...)
	return f
}
