// SPDX-License-Identifier: Apache-2.0

// Package ranks says what the ranks of a launch will run on and with: the nodes, their
// environment and where each setting of it comes from, the interpreter that answers, and the
// network that NCCL will use.
//
// It refuses to judge any of it.
package ranks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/launch"
)

// Nodes are the machines that ranks will run on, as far as a check may look
// at them: where DeepSpeed starts the only host's ranks on the launching machine,
// it is that one.
func Nodes(view checks.View) []*facts.Node {
	if view.Launch.Local && view.Head != nil {
		return []*facts.Node{view.Head}
	}
	return view.Nodes
}

// OfMachine has the fixes of a finding run where they are typed, if it is one of
// the launching machine.
func OfMachine(view checks.View, machine *facts.Node, f checks.Finding) checks.Finding {
	if machine != view.Head {
		return f
	}
	f.Remedy = slices.Clone(f.Remedy) // findings share the lists of their checks
	for i, command := range f.Remedy {
		f.Remedy[i] = command.Locally()
	}
	return f
}

// RemoteMount is the file system by which a node has a place from elsewhere, "" where the
// place is its own, is not there or was not seen.
func RemoteMount(node *facts.Node, role string) string {
	if node.Disk == nil {
		return ""
	}
	at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool {
		return p.Role == role && p.Exists && slices.Contains(RemoteFS, p.FSType)
	})
	if at < 0 {
		return ""
	}
	return node.Disk.Places[at].FSType
}

// ContainerOf is the kind of container a node is, as facts.Host spells it, else the program that
// took us inside, "" for a machine of its own and where that was not seen.
func ContainerOf(node *facts.Node) string {
	if node.Host != nil && node.Host.Container != "" {
		return node.Host.Container
	}
	return engineOf(node)
}

// engines are the programs that enter containers of their own kind.
var engines = []string{"docker", "podman", "nerdctl", "apptainer", "singularity", "enroot", "nsenter"}

// engineOf is the one that took us into what the ranks run in, "" where we were taken
// nowhere. A word behind it may be a container's name.
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

// HeadNode is the node that the launching machine is. It is none of them where
// boot id, machine id or network namespace differ, or were not seen on both.
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

// FileAt is what a machine has at a path that the launch names, nil where that was
// not looked at.
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

// RemoteFS are file systems that a node mounts from elsewhere.
var RemoteFS = []string{"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "glusterfs", "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs", "9p", "virtiofs", "wekafs"}

// OwnFS are file systems that lie on the machine itself.
var OwnFS = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs"}

// CountInodes are the file systems with a fixed number of inodes. The others (btrfs, NFS
// servers of all kinds) may truthfully report 0.
var CountInodes = []string{"ext2", "ext3", "ext4", "xfs", "tmpfs"}

// ScriptAt is the script of the launch as a machine has it, nil where it was not looked at.
func ScriptAt(p launch.Prediction, machine *facts.Node) *facts.File {
	i := slices.IndexFunc(p.Files, func(f facts.LaunchFile) bool { return f.Role == facts.RoleScript })
	if i < 0 {
		return nil
	}
	return FileAt(machine, p.Files[i])
}

// Answering is the nodes whose interpreter answered; what is wrong
// with the others is python-same's finding, and no other check's.
func Answering(view checks.View) []*facts.Node {
	return compare.Without(view.Nodes, func(n *facts.Node) bool { return n.Python == nil || !n.Python.Found || n.Python.Problem != "" })
}

// Nowhere is the reason to skip what needs a package that no node has.
func Nowhere(view checks.View, what string) []checks.Finding {
	nodes := Answering(view)
	if len(nodes) == 0 {
		return checks.Skipped("no interpreter answered: see python-same")
	}
	return checks.Skipped(fmt.Sprintf("no node has %s installed for %s", what, nodes[0].Python.Path))
}

// TorchBuild is what a node's torch was built for: "CUDA 12.4", "ROCm 6.2", "CPU", "" where
// there is none.
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
