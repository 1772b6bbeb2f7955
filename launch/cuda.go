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

// leastDrivers lists the oldest Linux drivers for programs built with a CUDA toolkit, newest first.
// Since CUDA 11, one driver is enough for all toolkits of a major version. Each older toolkit needs
// the driver that it came with.
//
// Source: NVIDIA, CUDA Compatibility, r590, minor version compatibility, tables 1 and 2; CUDA
// Toolkit release notes 13.0 and 12.0 for the last digits.
var leastDrivers = []struct{ toolkit, driver string }{
	{"13", "580.65.06"},
	{"12", "525.60.13"},
	{"11", "450.80.02"},
	{"10.2", "440.33"},
	{"10.1", "418.39"},
	{"10.0", "410.48"},
}

// LeastDriver returns the oldest driver that runs programs built with a CUDA toolkit ("12.4")
// without forward compatibility, "" if that driver is unknown.
func LeastDriver(toolkit string) string {
	for _, row := range leastDrivers {
		if toolkit == row.toolkit || strings.HasPrefix(toolkit, row.toolkit+".") {
			return row.driver
		}
	}
	return ""
}

// DriverRuns reports whether a driver runs programs built with a CUDA toolkit ("12.4"), and whether
// the answer is known. cuda is the newest CUDA version that libcuda supports. driver is the version
// of the kernel module. Leave driver empty if the libcuda in use has another version, as with
// forward compatibility. cuda and driver may be "" for unknown.
//
// A driver runs all older toolkits. Since CUDA 11, a driver also runs newer toolkits of its own
// major version, but without their new features: it cannot translate their PTX kernels, see
// [TorchCode].
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

// GPUCode is the kind of code that a torch build contains for a GPU.
type GPUCode string

const (
	CodeNative GPUCode = "native"
	CodePTX    GPUCode = "ptx"  // translated by the driver, which must not be older than the toolkit
	CodeNone   GPUCode = "none" // every kernel fails
)

// torchWheels lists the GPUs for which the x86_64 wheels of pytorch.org contain code (see
// [CodeFor]). Each row is for one CUDA version and the torch releases from since up to but not
// including before.
//
// Source: pytorch/pytorch, .ci/manywheel/build_cuda.sh and similar scripts in pytorch/builder up to
// 2.5; RELEASE.md, "PyTorch CUDA Support Matrix", 2.9 to 2.12; pull request 188443 for CUDA 12.9 in
// 2.12 and 2.13.
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

// wheelVersion matches the version of pytorch.org's wheels. Builds from conda, from NVIDIA's
// containers and by users may contain code for other GPUs.
var wheelVersion = regexp.MustCompile(`^(\d+\.\d+\.\d+)\+cu(\d+)$`)

// TorchCode returns the kind of code that a torch build contains for GPUs of a compute capability
// ("9.0"), and the GPUs that it was built for, see [CodeFor]. arch is the machine's architecture as
// uname prints it. The code is "" if it is unknown: TorchCode knows only the x86_64 wheels of
// pytorch.org in the releases of torchWheels.
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

// Wheels identifies builds of torch on pytorch.org.
type Wheels struct {
	Index string // index below download.pytorch.org/whl, "cu126"
	// Release is the requested release, "2.9.1". It is "" if the index has only other releases.
	// Those are the releases from Since up to but not including Before ("2.6", "2.13").
	Release, Since, Before string
}

// TorchFor returns wheels that a driver runs (see [DriverRuns]) and that contain machine code for
// GPUs of all the capabilities. It prefers the release of the given torch, then the next later
// release, then the latest earlier release. If a release has wheels for several CUDA versions,
// TorchFor returns the newest that the driver itself supports, otherwise the oldest. found is false
// if no known release fits.
//
// Source: see [TorchCode], whose table is for x86_64: on aarch64 an index may lack some of its
// releases.
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

// finalRelease matches the release number in a torch version, including that of a pre-release.
var finalRelease = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// nearer compares how close the wheels a and b are to a release. It is negative if a is closer.
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

// CodeFor returns the kind of code that a library has for GPUs of a compute capability. built lists
// the GPUs that the library was built for, in the notation of torch.cuda.get_arch_list() and
// cuobjdump. Machine code for "sm_86" runs on 8.6 and later versions of the same major version. PTX
// for "compute_86" runs on 8.6 and everything later.
//
// Source: NVIDIA, CUDA C++ Programming Guide, binary compatibility and PTX compatibility.
func CodeFor(built []string, capability string) GPUCode {
	code := CodeNone
	for _, each := range built {
		kind, number, _ := strings.Cut(each, "_")
		last := max(len(number)-1, 0)
		of := number[:last] + "." + number[last:] // 86 means 8.6, 120 means 12.0
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
