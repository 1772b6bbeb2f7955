package ranks

import (
	"slices"

	"preflight/checks"
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

// ContainerOf is the kind of container a node is, as facts.Host spells it, ""
// for a machine of its own and where that was not seen.
func ContainerOf(node *facts.Node) string {
	if node.Host == nil {
		return ""
	}
	return node.Host.Container
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
