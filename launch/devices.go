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

// SlotsUsed is a function for the accelerators that the launch gives to the ranks
// of a node, as the ranks count them; nil where nothing says, or where their number is
// the accelerators' own, as with torchrun's --nproc_per_node=gpu.
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

// GPUsUsed is a function for the GPUs that the ranks of a node take, by their
// places among the cards that NVML shows; all where nothing says which. A slot is
// taken for such a place: CUDA counts alike where a node's GPUs are of one model. Where
// variables that the launcher does not set show a part of them, these are counted.
func (p Prediction) GPUsUsed() func(*facts.Node) []int {
	slotsOf := p.SlotsUsed()
	return func(node *facts.Node) []int {
		cards := node.NVML.Cards
		used := slotsOf(node)
		hiding := p.Hiding(node)
		if slices.ContainsFunc(hiding, func(s facts.Setting) bool { return s.Value != "" }) {
			used = behind(used, hiding, cards)
		}
		if used == nil {
			used = hostfile.FirstSlots(len(cards))
		}
		return slices.DeleteFunc(slices.Clone(used), func(place int) bool { return place >= len(cards) })
	}
}

// behind are the GPUs that a process finds at the slots, of those that variables show it.
func behind(slots []int, hiding []facts.Setting, cards []facts.Card) []int {
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

// Hiding are the variables that show the ranks of a node a part of its accelerators and that
// no launch.py sets anew, in the order in which they are applied. Of AMD's, ROCr applies its
// own first, and HIP CUDA's only where its own is empty.
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

// Shown are the cards that variables show, by their places, in the order in which a process
// counts them; each chooses among those that the one before it left.
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

// Accelerators is how many accelerators a rank of the launch finds on a machine,
// whoever made them: NVIDIA's and AMD's as the driver reports them. Where it was not asked or
// failed, device nodes are counted, as a container may be given a few of a
// machine's; but where there is no container, a GPU that the driver holds counts
// without its node too, because CUDA makes that on first use. Not known are those
// of a machine that was not looked at, and of a WSL whose driver reports nothing: it
// shows all of them as one device.
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

// WindowsGPUs is the door of WSL 2 to the GPUs of Windows.
const WindowsGPUs = "/dev/dxg"

// ChoosesDevices is whether the ranks are started by DeepSpeed's launch.py, which
// sets CUDA_VISIBLE_DEVICES to the slots, whatever it was. Other launchers leave the
// choice to LOCAL_RANK, and the variable to whoever set it.
func (p Prediction) ChoosesDevices() bool {
	return !p.Torchrun() && (p.Local || p.NoSSH || p.StartedBy().LaunchPy)
}

// Visible are those of count accelerators that CUDA shows to a process with a value
// of CUDA_VISIBLE_DEVICES, in the order in which the process counts them: those that it
// names up to the first that is not there, by index or by the beginning of a UUID;
// named twice, none. Not known is what names a MIG instance, and a UUID where the
// cards did not show theirs.
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

// exporting is the accelerator whose variables are exported: the launching
// machine's, where a login node without one has DeepSpeed take the CPU for it. One
// that was not looked at is taken to have some.
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

// daemons are programs that hold a GPU for everybody: of NVIDIA's driver, of DCGM
// and of MPS. The kernel cuts names after 15 letters.
var daemons = []string{"nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "dcgmi", "nvidia-smi", mps}

const mps = "nvidia-cuda-mps"

// IsDaemon is whether who is on a GPU is no job of anybody's.
func IsDaemon(user facts.GPUUser) bool {
	return slices.ContainsFunc(daemons, func(daemon string) bool { return strings.HasPrefix(path.Base(user.Name), daemon) })
}

// IsMPS is whether it has others share the GPU, or shares it that way.
func IsMPS(user facts.GPUUser) bool {
	return user.Kind == "mps" || strings.HasPrefix(path.Base(user.Name), mps)
}
