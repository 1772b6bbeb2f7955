// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// leastDrivers are the oldest Linux drivers for programs built with a CUDA toolkit,
// newest first: since CUDA 11 one for all toolkits of a major version, before that
// the one that came with the toolkit.
//
// Source: NVIDIA, CUDA Compatibility, r590, minor version compatibility, tables 1
// and 2; CUDA Toolkit release notes 13.0 and 12.0 for the last digits.
var leastDrivers = []struct{ toolkit, driver string }{
	{"13", "580.65.06"},
	{"12", "525.60.13"},
	{"11", "450.80.02"},
	{"10.2", "440.33"},
	{"10.1", "418.39"},
	{"10.0", "410.48"},
}

// LeastDriver is the oldest driver that runs what was built with a CUDA toolkit
// ("12.4"), without forward compatibility; "" where it is not known.
func LeastDriver(toolkit string) string {
	for _, row := range leastDrivers {
		if toolkit == row.toolkit || strings.HasPrefix(toolkit, row.toolkit+".") {
			return row.driver
		}
	}
	return ""
}

// DriverRuns is whether a driver runs what was built with a CUDA toolkit ("12.4"),
// and whether that is known. cuda is the newest that libcuda runs by its own
// account; driver is the version of the kernel module, which is to be left out where
// a libcuda of another version does the work, as with forward compatibility. Either
// may be "" for not known.
//
// A driver runs all toolkits before its own. One that is older than the toolkit runs
// those of its own major version from 11 on, without what the newer one added:
// kernels that come as PTX cannot be translated then, see [TorchCode].
func DriverRuns(driver, cuda, toolkit string) (runs, known bool) {
	least := LeastDriver(toolkit)
	switch {
	case toolkit == "" || driver == "" && cuda == "":
		return false, false
	case cuda != "" && !hostfile.Before(cuda, toolkit):
		return true, true
	case driver != "" && least != "":
		return !hostfile.Before(driver, least), true
	case cuda != "":
		return major(cuda) == major(toolkit) && !hostfile.Before(toolkit, "11"), true
	}
	return false, false
}

func major(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return first
}

// GPUCode is what a build of torch has for a GPU.
type GPUCode string

const (
	CodeNative GPUCode = "native"
	CodePTX    GPUCode = "ptx"  // for the driver to translate, which one older than the toolkit cannot
	CodeNone   GPUCode = "none" // every kernel fails
)

// torchWheels are the GPUs that the x86_64 wheels of pytorch.org have code for, see [CodeFor],
// by the CUDA they were built with, of releases from since up to before.
//
// Source: pytorch/pytorch, .ci/manywheel/build_cuda.sh and its likes in
// pytorch/builder up to 2.5; RELEASE.md, "PyTorch CUDA Support Matrix", 2.9 to 2.12;
// pull request 188443 for CUDA 12.9 in 2.12 and 2.13.
var torchWheels = []struct{ cuda, since, before, archs string }{
	{"13.2", "2.12", "2.13", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"},
	{"13.0", "2.9", "2.13", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"},
	{"12.9", "2.12", "2.14", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"},
	{"12.9", "2.8", "2.9", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"},
	{"12.8", "2.11", "2.12", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"},
	{"12.8", "2.8", "2.11", "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"},
	{"12.8", "2.7", "2.8", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"},
	{"12.6", "2.6", "2.13", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"},
	{"12.4", "2.4", "2.7", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"},
	{"12.1", "2.1", "2.6", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"},
	{"11.8", "2.0", "2.8", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"},
	{"11.7", "1.13", "2.1", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"},
	{"11.6", "1.12", "2.0", "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"},
}

// wheelVersion is how the wheels of pytorch.org call themselves. Builds of conda,
// of NVIDIA's containers and of one's own have GPUs of their own choice.
var wheelVersion = regexp.MustCompile(`^(\d+\.\d+\.\d+)\+cu(\d+)$`)

// TorchCode is what a torch has for GPUs of a compute capability ("9.0") on a
// machine of an architecture as uname spells it, and what it was built for, see [CodeFor];
// "" where that is not known: it is only of the wheels of pytorch.org for x86_64, in releases
// that were looked up.
func TorchCode(torch facts.Torch, arch, capability string) (code GPUCode, built []string) {
	wheel := wheelVersion.FindStringSubmatch(torch.Version)
	if wheel == nil || arch != "x86_64" || capability == "" || wheel[2] != strings.ReplaceAll(torch.CUDA, ".", "") {
		return "", nil
	}
	for _, row := range torchWheels {
		if row.cuda == torch.CUDA && hostfile.Within(wheel[1], row.since, row.before) {
			built = strings.Fields(row.archs)
			return CodeFor(built, capability), built
		}
	}
	return "", nil
}

// Wheels are builds of torch on pytorch.org.
type Wheels struct {
	Index string // of download.pytorch.org/whl, "cu126"
	// Release is the one that was asked for, "2.9.1", "" where the index has others
	// alone: those from Since on and before Before ("2.6", "2.13").
	Release, Since, Before string
}

// TorchFor are the wheels that a driver runs, see [DriverRuns], and that have code of
// their own for GPUs of all the capabilities: of the release of the torch at hand,
// else of the next later one that has such, else of the last before it. Of several
// they are those of the newest CUDA that is the driver's own, else of the oldest. false
// is for none among the releases that were looked up.
//
// Source: see [TorchCode], whose table is for x86_64: on aarch64 an index may lack
// some of its releases.
func TorchFor(torch facts.Torch, driver, cuda string, capabilities []string) (wheels Wheels, found bool) {
	release := finalRelease.FindString(torch.Version)
	best := ""
	for _, row := range torchWheels {
		if runs, _ := DriverRuns(driver, cuda, row.cuda); !runs || !hasCodeFor(row.archs, capabilities) {
			continue
		}
		w := Wheels{Index: "cu" + strings.ReplaceAll(row.cuda, ".", ""), Since: row.since, Before: row.before}
		if release != "" && hostfile.Within(release, row.since, row.before) {
			w.Release = release
		}
		isOwn := best != "" && cuda != "" && !hostfile.Before(cuda, best)
		if order := nearer(release, w, wheels); !found || order < 0 || order == 0 && !isOwn {
			wheels, best, found = w, row.cuda, true
		}
	}
	return wheels, found
}

// finalRelease is of a build of torch the release that it is or was to become.
var finalRelease = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// nearer compares wheels by how near to a release they are: negative where a is nearer.
func nearer(release string, a, b Wheels) int {
	const here, later, earlier = 0, 1, 2
	side := func(w Wheels) int {
		switch {
		case w.Release != "":
			return here
		case release != "" && hostfile.Before(release, w.Since):
			return later
		}
		return earlier
	}
	switch order := cmp.Compare(side(a), side(b)); {
	case order != 0 || side(a) == here:
		return order
	case side(a) == later:
		return compareReleases(a.Since, b.Since)
	}
	return compareReleases(b.Before, a.Before)
}

func compareReleases(a, b string) int {
	switch {
	case hostfile.Before(a, b):
		return -1
	case hostfile.Before(b, a):
		return 1
	}
	return 0
}

func hasCodeFor(archs string, capabilities []string) bool {
	return !slices.ContainsFunc(capabilities, func(capability string) bool { return CodeFor(strings.Fields(archs), capability) != CodeNative })
}

// CodeFor is what a library has for GPUs of a compute capability that was built for some, as
// torch.cuda.get_arch_list() and cuobjdump name them: machine code for "sm_86" runs on all of
// the same major version that are not before it, PTX for "compute_86" on all that are not.
//
// Source: NVIDIA, CUDA C++ Programming Guide, binary compatibility and PTX compatibility.
func CodeFor(built []string, capability string) GPUCode {
	code := CodeNone
	for _, each := range built {
		kind, number, _ := strings.Cut(each, "_")
		last := max(len(number)-1, 0)
		of := number[:last] + "." + number[last:] // 86 is 8.6, 120 is 12.0
		switch {
		case last == 0, hostfile.Before(capability, of):
		case kind == "sm" && major(of) == major(capability):
			return CodeNative
		case kind == "compute":
			code = CodePTX
		}
	}
	return code
}
