// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// driverModules are the kernel modules that have a say in how GPUs work: NVIDIA's,
// those for GPUDirect, and the one that takes GPUs away from NVIDIA's. Sorted.
var driverModules = []string{"gdrdrv", "nouveau", "nv_peer_mem", "nvidia", "nvidia_peermem", "nvidia_uvm"}

// loadedModules are those of them that are; nil when /sys does not show modules.
func loadedModules(o machine.Options) []string {
	if !machine.Exists(o.At("/sys/module")) {
		return nil
	}
	loaded := []string{}
	for _, name := range driverModules {
		if machine.Exists(o.At("/sys/module/" + name)) {
			loaded = append(loaded, name)
		}
	}
	return loaded
}

// moduleBanner is in the first line of /proc/driver/nvidia/version: "NVRM version:
// NVIDIA UNIX x86_64 Kernel Module  550.54.15", of the open one "NVIDIA UNIX Open
// Kernel Module for x86_64  550.54.15".
var moduleBanner = lazyregexp.New(`(Open )?Kernel Module(?: for \S+)? +(\d+(?:\.\d+)+)`)

// driverModule is the version of the loaded kernel module, "" when none is loaded,
// and whether it is the open one, which only its own line tells.
func driverModule(o machine.Options) (version string, open bool) {
	if match := moduleBanner.FindStringSubmatch(machine.Line(o.At("/proc/driver/nvidia/version"))); match != nil {
		version, open = match[2], match[1] != ""
	}
	if loaded := machine.Line(o.At("/sys/module/nvidia/version")); loaded != "" {
		version = loaded
	}
	return version, open
}

// accessibleNodes are the device nodes of NVIDIA's driver and how they answer. Those that
// every process of CUDA opens are opened: only that shows whether the module answers.
// A GPU's own is not, for it would wake the GPU up; nor is that of a module that is
// not loaded, for the kernel would try to load one.
func accessibleNodes(o machine.Options, devices, loaded []string) []facts.DeviceNode {
	if machine.Exists(o.At("/dev/dxg")) && !machine.Exists(o.At("/dev/nvidiactl")) {
		return []facts.DeviceNode{deviceNode("/dev/dxg", access(o.At("/dev/dxg")))} // WSL 2 has no other
	}
	all := []facts.DeviceNode{}
	for _, shared := range []struct{ path, module string }{{"/dev/nvidia-uvm", "nvidia_uvm"}, {"/dev/nvidiactl", "nvidia"}} {
		err := access(o.At(shared.path))
		switch {
		case err != nil:
		case loaded != nil && !slices.Contains(loaded, shared.module):
			err = syscall.ENXIO // as opening it would say
		default:
			err = opens(o.At(shared.path))
		}
		all = append(all, deviceNode(shared.path, err))
	}
	for _, path := range devices {
		all = append(all, deviceNode(path, access(o.At(path))))
	}
	return all
}

// modprobeHelper is what CUDA has load modules and make device nodes, which takes
// root's rights (NVIDIA/nvidia-modprobe 550, nvidia-modprobe.c).
const modprobeHelper = "/usr/bin/nvidia-modprobe"

// hasModprobe is whether it is there and gets them, whoever calls it.
func hasModprobe(o machine.Options) bool {
	info, err := os.Stat(o.At(modprobeHelper))
	if err != nil || !info.Mode().IsRegular() || info.Mode()&os.ModeSetuid == 0 || info.Mode().Perm()&0o001 == 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}

func deviceNode(path string, err error) facts.DeviceNode {
	if err != nil {
		return facts.DeviceNode{Path: path, Problem: machine.Reason(err)}
	}
	return facts.DeviceNode{Path: path}
}

// access asks whether a file may be read and written, and opens nothing: by its mode
// and, of a device node, by the cgroup of a container or a job as well, which says
// "operation not permitted" (Linux 6.8, fs/namei.c, inode_permission).
func access(path string) error {
	const readWrite = 4 | 2 // R_OK|W_OK of access(2)
	return syscall.Access(path, readWrite)
}

// opens tries a device node for reading and writing.
func opens(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Close(fd)
	}
	return err
}

// libcudaName is the name by which CUDA's runtime asks the loader for the driver.
const libcudaName = "libcuda.so.1"

var (
	// libcudaFile is what the name leads to. Releases have three digits at first;
	// WSL 2 has a libcuda.so.1.1, which tells none.
	libcudaFile = lazyregexp.New(`^libcuda\.so\.(\d{3,}(?:\.\d+)+)$`)
	// compatPath is where the packages of forward compatibility put theirs:
	// /usr/local/cuda-12.4/compat, NVIDIA's images /usr/local/cuda/compat/lib, conda
	// a directory cuda-compat (CUDA Compatibility, "Forward Compatibility").
	compatPath = lazyregexp.New(`/(?:cuda[^/]*/compat|cuda-compat)/`)
)

// findLibcuda lists the drivers' user halves that there are, in the order in which
// the loader takes them, each file once.
func findLibcuda(o machine.Options, libraryPath string) []facts.DriverLibrary {
	found := []facts.DriverLibrary{}
	for _, c := range machine.Present(machine.LoaderOrder(o, libraryPath, libcudaName), o.At) {
		library := facts.DriverLibrary{Path: c.Path, From: c.From}
		if file, err := filepath.EvalSymlinks(o.At(c.Path)); err == nil {
			if match := libcudaFile.FindStringSubmatch(filepath.Base(file)); match != nil {
				library.Version = match[1]
			}
			library.Compat = compatPath.MatchString(c.Path) || compatPath.MatchString(strings.TrimPrefix(file, o.At("/")))
			if library.Compat {
				library.Branches = compatBranches(file)
			}
		}
		found = append(found, library)
	}
	return found
}

// compatBranches are the branches of drivers that a libcuda of forward compatibility says it
// works with, nil where it says nothing: JSON in a note of the file.
//
// Source: NVIDIA/nvidia-container-toolkit 1.20, cmd/nvidia-cdi-hook/cudacompat/cuda-elf-header.go.
func compatBranches(path string) []int {
	library, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer library.Close()
	section := library.Section(".note.cuda.fwd_compatibility")
	const most = 64 << 10
	if section == nil || section.Type != elf.SHT_NOTE || section.Size > most {
		return nil
	}
	note, err := section.Data()
	if err != nil {
		return nil
	}
	// A name and a text of these lengths follow a third number, each filled up to a boundary:
	// elf(5), Notes.
	const head = 12
	if len(note) < head {
		return nil
	}
	nameSize, size := library.ByteOrder.Uint32(note), library.ByteOrder.Uint32(note[4:])
	boundary := max(section.Addralign, 1)
	begins := head + (uint64(nameSize)+boundary-1)/boundary*boundary
	if begins+uint64(size) > uint64(len(note)) || !bytes.HasPrefix(note[head:], []byte("NVIDIA Corporation")) {
		return nil
	}
	var says struct{ Driver []int }
	if json.Unmarshal(bytes.Trim(note[begins:begins+uint64(size)], "\x00"), &says) != nil {
		return nil
	}
	return says.Driver
}
