// SPDX-License-Identifier: Apache-2.0

// Package ranks describes the nodes, the environment and the interpreter of the ranks of a launch.
// It also describes the place where each variable is set, and the network that NCCL will use.
//
// It does not decide whether any of these is right.
package ranks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/launch"
)

// Nodes returns the machines that will run ranks, as far as the check can see them. If DeepSpeed
// starts the ranks of a single host on the launching machine, Nodes returns only that machine.
func Nodes(view checks.View) []*facts.Node {
	if view.Launch.Local && view.Head != nil {
		return []*facts.Node{view.Head}
	}
	return view.Nodes
}

// OfMachine returns a finding about a machine. If that is the launching machine, the fixes run
// locally.
func OfMachine(view checks.View, machine *facts.Node, f checks.Finding) checks.Finding {
	if machine != view.Head {
		return f
	}
	f.Remedy = slices.Clone(f.Remedy) // a copy, because findings share the slices of their checks
	for i, command := range f.Remedy {
		f.Remedy[i] = command.Locally()
	}
	return f
}

// RemoteMount returns the remote file system on which a place of a node is. It returns "" if the
// place is local, is missing or was not seen.
func RemoteMount(node *facts.Node, role string) string {
	if node.Disk == nil {
		return ""
	}
	at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool {
		return p.Role == role && p.Exists && p.Remote()
	})
	if at < 0 {
		return ""
	}
	return node.Disk.Places[at].FSType
}

// ContainerOf returns the kind of container if a node is a container, in the spelling of
// facts.Host. If preflight entered the container itself, it returns the program that entered it. It
// returns "" if the node is a machine, or if this was not seen.
func ContainerOf(node *facts.Node) string {
	if node.Host != nil && node.Host.Container != "" {
		return node.Host.Container
	}
	return engineOf(node)
}

// engines lists the programs that enter containers.
var engines = []string{"docker", "podman", "nerdctl", "apptainer", "singularity", "enroot", "nsenter"}

// engineOf returns the program with which preflight entered the container of the ranks, or "" if it
// entered none. The words of the command after the program may include the container's name.
func engineOf(node *facts.Node) string {
	if node.SSH == nil {
		return ""
	}
	for _, word := range node.SSH.Inside {
		if name := word[strings.LastIndexByte(word, '/')+1:]; slices.Contains(engines, name) {
			return name
		}
	}
	return ""
}

// HeadNode returns the node that is the launching machine. isNode is false if the boot ID, the
// machine ID or the network namespace of the two differ, or were not seen on both.
func HeadNode(view checks.View) (node *facts.Node, isNode bool) {
	if view.Head == nil {
		return nil, false
	}
	here, known := launch.Machine(view.Head)
	for i := range view.All {
		if there, seen := launch.Machine(&view.All[i]); known && seen && there == here {
			return &view.All[i], true
		}
	}
	return nil, false
}

// FileAt returns a machine's facts about a file that the launch names, or nil if they were not
// collected.
func FileAt(machine *facts.Node, named facts.LaunchFile) *facts.File {
	if machine == nil || machine.Files == nil {
		return nil
	}
	for i := range machine.Files.Files {
		if file := &machine.Files.Files[i]; file.Path == named.Path {
			return file
		}
	}
	return nil
}

// CountInodes lists the types of file systems that have a fixed number of inodes. Other types
// (btrfs, some NFS servers) may correctly report 0.
var CountInodes = []string{"ext2", "ext3", "ext4", "xfs", "tmpfs"}

// ScriptAt returns a machine's facts about the script of the launch, or nil if they were not
// collected.
func ScriptAt(p launch.Prediction, machine *facts.Node) *facts.File {
	i := slices.IndexFunc(p.Files, func(f facts.LaunchFile) bool { return f.Role == facts.RoleScript })
	if i < 0 {
		return nil
	}
	return FileAt(machine, p.Files[i])
}

// OnlyWorkers is the text before the error that ends only a script with worker processes. Python's
// locks are semaphores in /dev/shm (sem_open(3)). torchrun, DeepSpeed's launcher and gloo use none.
// Seen with torch 2.15 and DeepSpeed 0.19.8.
const OnlyWorkers = "nothing, unless the script uses DataLoader workers or multiprocessing; then "

// Workers returns in how many worker processes each rank on a node loads its data, or 0 if the script
// does not certainly start any. If the script computes the number, an argument whose name ends with
// "workers" counts.
func Workers(view checks.View, node *facts.Node) int {
	script := ScriptAt(view.Launch, node)
	switch {
	case script == nil || script.Workers == "":
		return 0
	case script.Workers != facts.WorkersAsTold:
		count, _ := strconv.Atoi(script.Workers)
		return max(count, 1)
	}
	for i, argument := range view.Launch.Arguments {
		name, number, isJoined := strings.Cut(argument, "=")
		if !isJoined && i+1 < len(view.Launch.Arguments) {
			number = view.Launch.Arguments[i+1]
		}
		if count, err := strconv.Atoi(number); err == nil && count > 0 && strings.HasPrefix(name, "-") && strings.HasSuffix(name, "workers") {
			return count
		}
	}
	return 0
}

// Answering returns the nodes whose Python interpreter answered. Only python-same reports the other
// nodes.
func Answering(view checks.View) []*facts.Node {
	return compare.Without(view.Nodes, func(n *facts.Node) bool { return n.Python == nil || !n.Python.Found || n.Python.Problem != "" })
}

// Nowhere returns the reason to skip a check that needs a package which no node has.
func Nowhere(view checks.View, what string) []checks.Finding {
	nodes := Answering(view)
	if len(nodes) == 0 {
		return checks.Skipped("no interpreter answered: see python-same")
	}
	return checks.Skipped(fmt.Sprintf("no node has %s installed for %s", what, nodes[0].Python.Path))
}

// TorchBuild returns the platform for which a node's torch is built, such as "CUDA 12.4", "ROCm
// 6.2" or "CPU". It returns "" if the node has no torch.
func TorchBuild(node *facts.Node) string {
	switch torch := node.Python.Torch; {
	case torch == nil:
		return ""
	case torch.CUDA != "":
		return "CUDA " + torch.CUDA
	case torch.HIP != "":
		return "ROCm " + torch.HIP
	}
	return "CPU"
}

func TorchKind(node *facts.Node) string {
	kind, _, _ := strings.Cut(TorchBuild(node), " ")
	return kind
}
