// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// driverModules lists the kernel modules that affect how GPUs work, sorted. They are NVIDIA's
// modules, the modules for GPUDirect, and nouveau, which takes GPUs away from NVIDIA's driver.
var driverModules = []string{"gdrdrv", "nouveau", "nv_peer_mem", "nvidia", "nvidia_peermem", "nvidia_uvm"}

// loadedModules returns which of driverModules are loaded. It returns nil if /sys does not show
// modules.
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

// moduleBanner matches the first line of /proc/driver/nvidia/version: "NVRM version: NVIDIA UNIX
// x86_64 Kernel Module  550.54.15", or for the open module "NVIDIA UNIX Open Kernel Module for
// x86_64  550.54.15".
var moduleBanner = lazyregexp.New(`(Open )?Kernel Module(?: for \S+)? +(\d+(?:\.\d+)+)`)

// driverModule returns the version of the loaded kernel module, "" if none is loaded, and whether
// it is the open module. Only this line shows which of the two modules it is.
func driverModule(o machine.Options) (version string, open bool) {
	if match := moduleBanner.FindStringSubmatch(machine.Line(o.At("/proc/driver/nvidia/version"))); match != nil {
		version, open = match[2], match[1] != ""
	}
	if loaded := machine.Line(o.At("/sys/module/nvidia/version")); loaded != "" {
		version = loaded
	}
	return version, open
}

// accessibleNodes returns the device nodes of NVIDIA's driver, each with the error of trying to use
// it. It opens the nodes that every CUDA process opens, because only that shows whether the module
// answers.
//
// It does not open the node of a GPU, because that would wake the GPU up. It does not open the node
// of a module that is not loaded either, because the kernel would then try to load the module.
func accessibleNodes(o machine.Options, devices, loaded []string) []facts.DeviceNode {
	if machine.Exists(o.At("/dev/dxg")) && !machine.Exists(o.At("/dev/nvidiactl")) {
		return []facts.DeviceNode{deviceNode("/dev/dxg", access(o.At("/dev/dxg")))} // WSL 2 has no other device node
	}
	all := []facts.DeviceNode{}
	for _, shared := range []struct{ path, module string }{{"/dev/nvidia-uvm", "nvidia_uvm"}, {"/dev/nvidiactl", "nvidia"}} {
		err := access(o.At(shared.path))
		switch {
		case err != nil:
		case loaded != nil && !slices.Contains(loaded, shared.module):
			err = syscall.ENXIO // the error of opening the node without its module
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

// modprobeHelper is the program with which CUDA loads modules and creates device nodes. It needs
// root's rights (NVIDIA/nvidia-modprobe 550, nvidia-modprobe.c).
const modprobeHelper = "/usr/bin/nvidia-modprobe"

// hasModprobe reports whether modprobeHelper exists and gets root's rights for every caller.
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

// access checks whether a file may be read and written, without opening it. It checks the mode of
// the file. For a device node it also checks the cgroup of a container or job, which causes
// "operation not permitted" (Linux 6.8, fs/namei.c, inode_permission).
func access(path string) error {
	const readWrite = 4 | 2 // R_OK|W_OK of access(2)
	return syscall.Access(path, readWrite)
}

// opens tries to open a device node for reading and writing.
func opens(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Close(fd)
	}
	return err
}

// libcudaName is the name under which the CUDA runtime loads the driver's library.
const libcudaName = "libcuda.so.1"

var (
	// libcudaFile matches the name of the file that libcudaName links to. Releases begin with three
	// digits. The libcuda.so.1.1 of WSL 2 is not a release.
	libcudaFile = lazyregexp.New(`^libcuda\.so\.(\d{3,}(?:\.\d+)+)$`)
	// compatPath matches the directories of forward-compatibility packages. These are
	// /usr/local/cuda-12.4/compat, /usr/local/cuda/compat/lib in NVIDIA's images, and a directory
	// cuda-compat with conda (CUDA Compatibility, "Forward Compatibility").
	compatPath = lazyregexp.New(`/(?:cuda[^/]*/compat|cuda-compat)/`)
)

// findLibcuda lists the driver libraries that exist, in the loader's order. It lists each file
// once.
func findLibcuda(o machine.Options, libraryPath string) []facts.DriverLibrary {
	found := []facts.DriverLibrary{}
	for _, c := range machine.Present(machine.LoaderOrder(o, libraryPath, libcudaName), o.At) {
		library := facts.DriverLibrary{Path: c.Path, From: c.From}
		if file, err := filepath.EvalSymlinks(o.At(c.Path)); err == nil {
			library.Problem = notLoadable(file)
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

// notLoadable returns why the loader refuses a library file. Container runtimes that fail half-way
// leave files of 0 bytes. It returns "" for other files, and if the file cannot be read.
func notLoadable(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, len(elf.ELFMAG))
	switch n, err := io.ReadFull(file, head); {
	case n == 0 && err == io.EOF:
		return "0 bytes"
	case err == nil && string(head) != elf.ELFMAG, err == io.ErrUnexpectedEOF:
		return "not an ELF file"
	}
	return ""
}

// compatBranches returns the driver branches that a forward-compatibility libcuda supports, nil if
// the file does not say. The branches are JSON in a note of the file.
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
	// A note has three numbers: the length of the name, the length of the text, and a third one.
	// The name and the text follow, each padded to a boundary: elf(5), Notes.
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
