// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// The rules of this package apply to all GPUs. Their texts are written for NVIDIA's GPUs, which are
// the most common. The two tables below translate findings on AMD GPUs.

func isAMD(node *facts.Node) bool { return node.NVML.Source == facts.SourceAMD }

func maker(node *facts.Node) string {
	if isAMD(node) {
		return "AMD"
	}
	return "NVIDIA"
}

// amdWords translates messages of NVIDIA, and of torch for CUDA, to the messages of AMD, and of
// torch for ROCm (torch 2.5, torch/utils/hipify/cuda_to_hip_mappings.py, which rewrites torch's
// sources).
var amdWords = strings.NewReplacer(
	noDriver, "RuntimeError: No HIP GPUs are available",
	unknownCUDA, "RuntimeError: No HIP GPUs are available",
	"No CUDA GPUs", "No HIP GPUs", "CUDA error", "HIP error", "CUDA out of memory", "HIP out of memory", "CUDA-capable", "ROCm-capable",
	"NVLinks", "XGMI links", "NVIDIA's", "AMD's", "NVIDIA drivers", "AMD drivers", "the driver nvidia", "the driver amdgpu",
)

// amdCommands maps commands for NVIDIA GPUs to the commands for AMD GPUs.
//
// Source: AMD SMI 24.6 of ROCm 6.2, amd-smi --help of each command.
var amdCommands = map[string]fix.Command{
	unroled(resetGPU):    fix.On("sudo amd-smi reset --gpureset --gpu {gpus}   # when no process uses it; otherwise reboot the node"),
	unroled(listGPUs):    fix.On("amd-smi list; lspci -d 1002:   # shows whether one is missing"),
	unroled(listSome):    fix.On("amd-smi list   # shows whether one is missing"),
	unroled(listModels):  fix.On("amd-smi static --asic"),
	unroled(onBus):       fix.On("lspci -d 1002:   # lists AMD devices; no output means that there are none"),
	unroled(driverLog):   amdLog,
	unroled(showECC):     fix.On("amd-smi metric --ecc --ecc-blocks --gpu {gpus}   # replace the GPU if errors return"),
	unroled(showRefused): fix.On("amd-smi metric --ecc --gpu {gpus}   # shows whether it persists"),
	unroled(xidLog):      amdLog,
	unroled(showFlood):   fix.On("amd-smi metric --ecc --ecc-blocks --gpu {gpus}"),
	unroled(showUse):     fix.On("amd-smi process   # run as root on the machine itself, to see processes of other containers"),
	unroled(showUsers):   fix.On("sudo fuser -v /dev/kfd /dev/dri/render*"),
	unroled(showUnseen):  fix.On("amd-smi process   # run on the machine itself: the process belongs to another container or to the host"),
	unroled(showLinks):   fix.On("amd-smi xgmi; amd-smi topology"),
	unroled(showFaults):  fix.On(`sudo dmesg -T | grep -iE "xgmi|amdgpu"`),
	unroled(showPCIe):    fix.On("amd-smi static --bus --gpu {gpus}"),
	unroled(showVBIOS):   fix.On("amd-smi static --vbios; amd-smi firmware   # updates come from the maker of the machine"),
	unroled(whichHeld):   fix.On("lspci -nnk -d 1002:   # shows which they are"),
}

// unroled returns the key of a command in amdCommands. The key does not depend on the command's
// role.
func unroled(command fix.Command) string { return command.As(fix.Fix).String() }

var amdLog = fix.On("sudo dmesg -T | grep -E 'amdgpu|kfd' | tail -20").As(fix.Look)

// typedFor returns the form of a command that suits the GPUs of a node.
func typedFor(node *facts.Node, command fix.Command) fix.Command {
	if other, known := amdCommands[unroled(command)]; known && isAMD(node) {
		return other.As(command.Role())
	}
	return command
}

// inMakersWords translates the findings on AMD GPUs. wouldSee is the message of the check. It
// serves for findings that have no message of their own.
func inMakersWords(view checks.View, wouldSee string, findings []checks.Finding) []checks.Finding {
	amd := map[string]*facts.Node{}
	for _, node := range view.Nodes {
		if node.NVML != nil && isAMD(node) {
			amd[node.Name] = node
		}
	}
	if len(amd) == 0 {
		return findings
	}
	for i := range findings {
		f := &findings[i]
		if len(f.Nodes) == 0 || slices.ContainsFunc(f.Nodes, func(name string) bool { return amd[name] == nil }) {
			continue
		}
		if f.WouldSee == "" && f.Verdict != checks.Unknown {
			f.WouldSee = wouldSee
		}
		for _, text := range []*string{&f.Summary, &f.Want, &f.WouldSee} {
			*text = amdWords.Replace(*text)
		}
		f.Remedy = slices.Clone(f.Remedy)
		for j, command := range f.Remedy {
			f.Remedy[j] = typedFor(amd[f.Nodes[0]], command)
		}
	}
	return findings
}

// judgedNVIDIA returns the same as judgedGPUs, for facts that AMD GPUs do not have or do not
// report.
func judgedNVIDIA(view checks.View) (nodes []*facts.Node, found []checks.Finding) {
	nodes, found = judgedGPUs(view)
	nvidia := slices.DeleteFunc(slices.Clone(nodes), isAMD)
	if len(nodes) > 0 && len(nvidia) == 0 {
		found = append(found, checks.Skipped("the GPUs are AMD's, which this check does not cover")...)
	}
	return nvidia, found
}

// amdModuleMissing returns the finding for a node whose bus has GPUs but whose driver is not
// loaded.
func amdModuleMissing(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "the kernel module of AMD's driver is not loaded", Want: "the module amdgpu", WouldSee: noDriver,
		Remedy: []fix.Command{fix.On("sudo modprobe amdgpu"), fix.On("uname -r; dkms status; grep -rn amdgpu /etc/modprobe.d   # if that fails: is the module built for this kernel, and is it blacklisted?").As(fix.Look), amdLog},
	}
	if ranks.ContainerOf(node) != "" {
		f.Remedy = []fix.Command{fix.Note("run modprobe amdgpu on the machine that runs the container of {nodes}: a container uses the kernel module of its machine")}
	}
	return f
}

// closedToROCm returns the findings for AMD device nodes that are missing or that this session may
// not use. The kernel module creates them for the groups render and video. A user who joins a group
// must log in again before that takes effect. A container has only the device nodes with which it
// was started.
//
// Source: ROCm 6.2, Installation prerequisites, "Setting permissions for groups".
func closedToROCm(node *facts.Node, missing, refused []string) (findings []checks.Finding) {
	const want = "/dev/kfd and a /dev/dri/renderDN for each GPU that ranks may read and write"
	if missing != nil {
		findings = append(findings, checks.Finding{
			Summary: "device nodes of the driver are missing", Got: strings.Join(missing, ", "), Want: want, WouldSee: noGPUs,
			Remedy: orStartWithGPUs(node, fix.On("sudo modprobe amdgpu; ls -l /dev/kfd /dev/dri"), amdLog),
		})
	}
	if refused != nil {
		findings = append(findings, checks.Finding{
			Summary: "ranks cannot open the driver's device nodes", Got: strings.Join(refused, ", "), Want: want, WouldSee: noGPUs,
			Remedy: orStartWithGPUs(node,
				fix.On("ls -l /dev/kfd /dev/dri/render*; id   # shows which groups may open them").As(fix.Look),
				fix.On("sudo usermod -a -G render,video %s   # then log in again", fix.Word(valueOf(node.Host).User)).As(fix.Or)),
		})
	}
	return findings
}

// torchOfAnother returns the finding for a torch that was not built for the AMD GPUs of the node.
// Wheels from pytorch.org contain ROCm's libraries, so any wheel that supports the GPUs works.
func torchOfAnother(view checks.View, node *facts.Node) checks.Finding {
	torch := node.Python.Torch
	f := checks.Finding{
		Summary: "torch is built for " + ranks.TorchKind(node) + ", but the GPUs are AMD's", Got: "torch " + torch.Version, Want: "a build for ROCm",
		WouldSee: noDriver, Remedy: []fix.Command{fix.Note("install a torch for ROCm on {nodes}: pytorch.org/get-started has the command")},
	}
	if torch.CUDA == "" {
		f.WouldSee = "AssertionError: Torch not compiled with CUDA enabled"
	}
	if view.Launch.AcceleratorAssumed {
		f.Remedy = append(f.Remedy, meantCPU)
	}
	return f
}
