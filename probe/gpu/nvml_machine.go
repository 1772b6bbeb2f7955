// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/probe/machine"
)

// processName is the maximum length of a process name. A process may choose its name itself.
const processName = 64

// nameProcesses adds data from the process table to the processes on the GPUs. A process that is
// not in the table belongs to another container, or has ended.
func nameProcesses(o machine.Options, cards []facts.Card) {
	for i := range cards {
		for j := range cards[i].Processes {
			user := &cards[i].Processes[j]
			dir := o.At(filepath.Join("/proc", strconv.Itoa(user.PID)))
			info, err := os.Stat(dir)
			if err != nil || user.PID <= 0 || !isSameProcess(o, dir) {
				continue
			}
			user.Name = programName(dir)
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				user.User = machine.Owner(o, int(stat.Uid))
			}
		}
	}
}

// isSameProcess reports whether a process in the process table is the one that the driver means. In
// a container, older drivers report the machine's process IDs (NVIDIA/nvidia-docker, issue 1483).
// So in a container the process must have a GPU open.
func isSameProcess(o machine.Options, dir string) bool {
	if namespace, err := os.Readlink(o.At("/proc/self/ns/pid")); err == nil && namespace == machine.InitialPID {
		return true
	}
	open, _ := os.ReadDir(filepath.Join(dir, "fd")) // empty for another user's process
	for _, entry := range open {
		if file, err := os.Readlink(filepath.Join(dir, "fd", entry.Name())); err == nil && (strings.HasPrefix(file, "/dev/nvidia") || file == kfdDevice) {
			return true
		}
	}
	return false
}

// programName returns the name with which a process was started, without the directory. If the
// process has no arguments any more, it returns the kernel's name for the process.
func programName(dir string) string {
	arguments, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // empty for a process that is ending
	name, _, _ := strings.Cut(string(arguments), "\x00")
	if name = filepath.Base(name); name == "." || name == "/" {
		name = machine.Line(filepath.Join(dir, "comm"))
	}
	return name[:min(processName, len(name))]
}

// addressUnreachable sets the PCI addresses of GPUs that report none, such as GPUs that fell off
// the bus. NVML numbers GPUs by PCI address, and the kernel driver lists the same number of
// addresses.
func addressUnreachable(o machine.Options, cards []facts.Card) {
	entries, err := os.ReadDir(o.At("/proc/driver/nvidia/gpus")) // sorted by name
	if err != nil || len(entries) != len(cards) {
		return
	}
	for i, card := range cards {
		if card.Index != i || card.Address != "" && card.Address != entries[i].Name() {
			return // the list is about other GPUs, as may happen in a container
		}
	}
	for i := range cards {
		cards[i].Address = entries[i].Name()
	}
}

// hiddenNodes returns the device nodes of GPUs that the driver does not show, and why this session
// cannot use them. If the device cgroup of a job or container denies a GPU, the GPU is hidden. All
// other GPUs in the result are lost. The nodes are not opened, see [access].
func hiddenNodes(o machine.Options, seen *facts.NVML) []facts.DeviceNode {
	if seen.Failure != nil {
		return nil
	}
	shown := map[string]bool{}
	for _, card := range seen.Cards {
		if card.Minor == nil {
			return nil // one of the nodes may belong to this card
		}
		shown["/dev/nvidia"+strconv.Itoa(*card.Minor)] = true
	}
	var nodes []facts.DeviceNode
	for _, path := range deviceNodes(o, "/dev", "nvidia") {
		if !shown[path] {
			nodes = append(nodes, deviceNode(path, access(o.At(path))))
		}
	}
	return nodes
}
