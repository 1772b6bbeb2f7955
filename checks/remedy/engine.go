package remedy

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// engine is a program that makes containers and takes docker's options.
type engine struct {
	name string  // as facts.Host.Container has it
	gpus fix.Arg // which each has an option of its own for
}

var engines = []engine{
	{"docker", fix.Code("--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility")},
	{"podman", fix.Code("--device nvidia.com/gpu=all")},
	{"nerdctl", fix.Code("--gpus all")},
}

// What containers are to have, as docker's options.
var (
	InfiniBand  = fix.Code("--device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK")
	hostNetwork = fix.Code("--network=host")
	writableTmp = fix.Code("--tmpfs /tmp:exec")
)

// Anew starts a container of such an engine with an option, nil where it is of another kind:
// what it was not given when it was started, it never gets.
func Anew(container string, option fix.Arg) []fix.Command {
	if !isEngine(container) {
		return nil
	}
	return []fix.Command{fix.Here("%s run %s …   # start the container of {nodes} anew with this", fix.Name(container), option)}
}

func isEngine(container string) bool {
	return slices.ContainsFunc(engines, func(e engine) bool { return e.name == container })
}

// WritableTmp gives a container a directory to run programs from, nil for a machine.
func WritableTmp(node *facts.Node) []fix.Command {
	switch container := ranks.ContainerOf(node); container {
	case "apptainer", "singularity":
		return []fix.Command{fix.Here("%s exec --writable-tmpfs …   # in --in, and where the ranks are started", fix.Name(container))}
	case "enroot":
		return []fix.Command{fix.Here("enroot start --rw …   # start the container of {nodes} anew with this")}
	default:
		return Anew(container, writableTmp)
	}
}

// WithHostNetwork gives a container the network of its machine, nil where it has that: where it
// has the address by which we came to the machine.
func WithHostNetwork(node *facts.Node) []fix.Command {
	if node == nil || node.SSH == nil || node.SSH.Inside == nil || node.Address == "" || node.Net == nil {
		return nil
	}
	if slices.ContainsFunc(node.Net.Interfaces, func(i facts.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(address string) bool {
			return strings.HasPrefix(address, node.Address+"/")
		})
	}) {
		return nil
	}
	return Anew(ranks.ContainerOf(node), hostNetwork)
}
