// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// SlotsUsed returns a function that returns the slots of a node's ranks: the numbers by which the
// ranks select their accelerators. The slots are nil if they are unknown. They are also nil if
// their number depends on the node, as with torchrun's --nproc_per_node=gpu.
func (p Prediction) SlotsUsed() func(*facts.Node) []int {
	slots := make(map[string][]int, len(p.Hosts))
	if perNode := p.perNode(); perNode == "" || isNumber(perNode) {
		for i, host := range p.Hosts {
			slots[host.Name] = p.devices(i)
		}
	}
	if p.Local && len(p.Hosts) > 0 {
		return func(*facts.Node) []int { return p.Hosts[0].Slots }
	}
	return func(node *facts.Node) []int { return slots[node.Name] }
}

// GPUsUsed returns a function that returns the GPUs that a node's ranks use, as indexes into NVML's
// cards; all GPUs if nothing selects them. A slot is treated as such an index, because CUDA and
// NVML number the GPUs of a node the same way if all are of one model. If variables that the
// launcher does not set hide some GPUs, slots count only the visible GPUs.
func (p Prediction) GPUsUsed() func(*facts.Node) []int {
	slotsOf := p.SlotsUsed()
	return func(node *facts.Node) []int {
		cards := node.NVML.Cards
		used := slotsOf(node)
		hiding := p.Hiding(node)
		if slices.ContainsFunc(hiding, func(s facts.Setting) bool { return s.Value != "" }) {
			used = visibleAt(used, hiding, cards)
		}
		if used == nil {
			used = hostfile.FirstSlots(len(cards))
		}
		return slices.DeleteFunc(slices.Clone(used), func(place int) bool { return place >= len(cards) })
	}
}

// visibleAt returns the GPUs that a process finds at its slots, counted among the GPUs that the
// variables leave visible.
func visibleAt(slots []int, hiding []facts.Setting, cards []facts.Card) []int {
	shown, known := Shown(hiding, cards)
	if !known {
		return slots
	}
	places := []int{}
	for i, place := range shown {
		if slots == nil || slices.Contains(slots, i) {
			places = append(places, place)
		}
	}
	return places
}

// Hiding returns the variables that hide some of a node's accelerators from its ranks and that
// launch.py does not overwrite, in the order in which they apply. For AMD, ROCr applies its own
// variable first, and HIP uses CUDA's only if its own is empty.
//
// Source: ROCm/ROCR-Runtime 6.2, core/inc/amd_filter_device.h; ROCm/clr 6.2,
// rocclr/device/rocm/rocdevice.cpp, Device::init.
func (p Prediction) Hiding(node *facts.Node) (hiding []facts.Setting) {
	env := RankEnv(node.Env, p.Exports)
	cuda, set := env.Lookup("CUDA_VISIBLE_DEVICES")
	set = set && !p.ChoosesDevices()
	if node.NVML.Source == facts.SourceAMD {
		if rocr, set := env.Lookup("ROCR_VISIBLE_DEVICES"); set {
			hiding = append(hiding, rocr)
		}
		if hip := env.Get("HIP_VISIBLE_DEVICES"); hip.Value != "" {
			return append(hiding, hip)
		}
		set = set && cuda.Value != ""
	}
	if set {
		hiding = append(hiding, cuda)
	}
	return hiding
}

// Shown returns the indexes of the cards that variables leave visible, in the order in which a
// process counts the cards. Each variable selects among the cards that the previous variable left.
func Shown(hiding []facts.Setting, cards []facts.Card) (places []int, known bool) {
	places = hostfile.FirstSlots(len(cards))
	for _, setting := range hiding {
		left := make([]facts.Card, len(places))
		for i, place := range places {
			left[i] = cards[place]
		}
		shown, known := Visible(setting.Value, len(left), left)
		if !known {
			return nil, false
		}
		for i, place := range shown {
			shown[i] = places[place]
		}
		places = shown
	}
	return places, true
}

// Accelerators returns how many NVIDIA and AMD accelerators a rank finds on a machine, as the
// driver reports them. If the driver was not asked or failed, Accelerators counts device nodes,
// because a container may have only some of a machine's GPUs. Outside containers, it also counts a
// GPU that the driver knows but that has no device node, because CUDA creates the device node on
// first use.
//
// known is false for a machine that was not probed. It is also false for WSL if the driver reports
// nothing, because WSL shows all GPUs as one device.
//
// Source: NVIDIA/nvidia-modprobe 550, modprobe-utils/nvidia-modprobe-utils.c.
func Accelerators(machine *facts.Node) (count int, known bool) {
	gpu := machine.GPU
	if gpu == nil {
		return 0, false
	}
	others := slices.DeleteFunc(slices.Clone(gpu.Others), func(device string) bool { return device == WindowsGPUs })
	if nvml := machine.NVML; nvml != nil && nvml.Asked && nvml.Failure == nil {
		return len(nvml.Cards) + len(others), true
	}
	if len(others) < len(gpu.Others) {
		return 0, false
	}
	count = len(gpu.Devices)
	if machine.Host != nil && machine.Host.Container == "" {
		count = max(count, len(gpu.Driver))
	}
	return count + len(others), true
}

// WindowsGPUs is the device through which WSL 2 uses the GPUs of Windows.
const WindowsGPUs = "/dev/dxg"

// ChoosesDevices reports whether DeepSpeed's launch.py starts the ranks. launch.py always sets
// CUDA_VISIBLE_DEVICES to the slots. Other launchers do not change the variable, and each rank
// selects its device by LOCAL_RANK.
func (p Prediction) ChoosesDevices() bool {
	return !p.Torchrun() && (p.Local || p.NoSSH || p.StartedBy().LaunchPy)
}

// Visible returns which of count accelerators CUDA shows to a process with this
// CUDA_VISIBLE_DEVICES, in the order in which the process numbers them. CUDA stops at the first
// name (an index or the start of a UUID) that does not exist, and shows none if a name occurs
// twice. known is false if the value names a MIG instance. It is also false if the value names a
// UUID and the cards did not report their UUIDs.
//
// Source: NVIDIA, CUDA C++ Programming Guide 12.8, CUDA environment variables.
func Visible(value string, count int, cards []facts.Card) (shown []int, known bool) {
	for _, name := range strings.Split(value, ",") {
		name = strings.TrimSpace(name)
		index, err := strconv.Atoi(name)
		switch {
		case strings.HasPrefix(name, "MIG-"), strings.HasPrefix(name, "GPU-") && !allNamed(cards):
			return nil, false
		case strings.HasPrefix(name, "GPU-"):
			index = slices.IndexFunc(cards, func(c facts.Card) bool { return strings.HasPrefix(c.UUID, name) })
		case err != nil:
			index = -1
		}
		if index < 0 || index >= count {
			return shown, true
		}
		if slices.Contains(shown, index) {
			return nil, true
		}
		shown = append(shown, index)
	}
	return shown, true
}

func allNamed(cards []facts.Card) bool {
	return len(cards) > 0 && !slices.ContainsFunc(cards, func(c facts.Card) bool { return c.UUID == "" })
}

// exporting returns the accelerator whose variables DeepSpeed exports, which is the launching
// machine's. On a login node without GPUs, DeepSpeed uses the CPU. A machine that was not probed is
// assumed to have GPUs.
//
// Source: deepspeed/launcher/runner.py, main, get_accelerator().export_envs(), and
// accelerator/real_accelerator.py, 0.14.1 to 0.19.8.
func (r runner) exporting(head *facts.Node) string {
	if r.Accelerator == "" && head != nil && !r.before(cpuFallback) {
		if count, known := Accelerators(head); known && count == 0 {
			return "cpu"
		}
	}
	return cmp.Or(r.Accelerator, "cuda")
}

// daemons lists the programs of NVIDIA's driver, DCGM and MPS that use a GPU on behalf of all
// users. The names are cut after 15 characters, as the kernel cuts process names.
var daemons = []string{"nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "dcgmi", "nvidia-smi", mps}

const mps = "nvidia-cuda-mps"

// IsDaemon reports whether a process on a GPU is a system daemon rather than a job.
func IsDaemon(user facts.GPUUser) bool {
	return slices.ContainsFunc(daemons, func(daemon string) bool { return strings.HasPrefix(path.Base(user.Name), daemon) })
}

// IsMPS reports whether a process is the MPS server or shares the GPU through MPS.
func IsMPS(user facts.GPUUser) bool {
	return user.Kind == "mps" || strings.HasPrefix(path.Base(user.Name), mps)
}
