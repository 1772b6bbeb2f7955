// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// engine is a program that starts containers and accepts docker's options.
type engine struct {
	name string  // the name in facts.Host.Container
	gpus fix.Arg // the options for GPUs, which differ between engines
}

var engines = []engine{
	{"docker", fix.Code("--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility")},
	{"podman", fix.Code("--device nvidia.com/gpu=all")},
	{"nerdctl", fix.Code("--gpus all")},
}

// Lack is a property that a container can get only when it is started.
type Lack struct {
	option fix.Arg       // the option of docker that gives the property
	spec   []fix.Command // the YAML for a pod; nil if another function returns it
}

// Properties that containers may lack.
//
// Sources of the YAML: kubernetes/api, core/v1/types.go; for the annotation the Network Plumbing
// Working Group's Kubernetes Network Custom Resource Definition De-facto Standard, 4.1, which
// Multus follows; Mellanox/k8s-rdma-shared-dev-plugin, README.md, for resources named rdma/….
var (
	InfiniBand = Lack{fix.Code("--device=/dev/infiniband --ulimit memlock=-1 --cap-add=IPC_LOCK"), []fix.Command{
		fix.Here("kubectl get nodes{cluster} -o jsonpath='{.items[*].status.allocatable}'   # shows the resource name of the RDMA device plugin: rdma/… or the vendor's; none if no plugin runs").As(fix.Look),
		fix.Note("set resources: {limits: {rdma/hca: 1}} in the pod's spec, with the resource name of the cluster's RDMA device plugin"),
		fix.Note("if adapters come with their own network, set annotations: {k8s.v1.cni.cncf.io/networks: NETWORK} in the pod's metadata; kubectl get network-attachment-definitions{pods} lists the networks"),
		lockMemory,
	}}
	amdGPUs = Lack{fix.Code("--device=/dev/kfd --device=/dev/dri --group-add video --group-add render"), []fix.Command{
		fix.Note("set resources: {limits: {amd.com/gpu: 8}} in the pod's spec, with as many GPUs as slots"),
	}}
	IMEXChannel = Lack{option: fix.Code("--device=/dev/nvidia-caps-imex-channels/channel0")}
	hostNetwork = Lack{fix.Code("--network=host"), []fix.Command{
		fix.Note("set hostNetwork: true and dnsPolicy: ClusterFirstWithHostNet in the pod's spec, if the ranks are to use the machine's adapters"),
	}}
	writableTmp = Lack{option: fix.Code("--tmpfs /tmp:exec")}
)

// Anew returns the commands that start a container or a pod again with the property that it lacks.
// It returns nil for other kinds of containers.
func Anew(container string, lack Lack) []fix.Command {
	switch {
	case isEngine(container):
		return []fix.Command{fix.Note("start the container of {nodes} again with %s run %s", fix.Name(container), lack.option)}
	case container == "kubernetes":
		return slices.Clone(lack.spec)
	}
	return nil
}

func isEngine(container string) bool {
	return slices.ContainsFunc(engines, func(e engine) bool { return e.name == container })
}

// WritableTmp returns the commands that give a container a directory from which programs can run.
// It returns nil for a machine.
func WritableTmp(node *facts.Node) []fix.Command {
	switch container := ranks.ContainerOf(node); container {
	case "apptainer", "singularity":
		return []fix.Command{fix.Note("use %s exec --writable-tmpfs in --in, and to start the ranks", fix.Name(container))}
	case "enroot":
		return []fix.Command{fix.Note("start the container of {nodes} again with enroot start --rw")}
	default:
		return Anew(container, writableTmp)
	}
}

// WithHostNetwork returns the commands that give a container the network of its machine. It returns
// nil if the container already has that network.
//
// A container that preflight entered from its machine has the machine's network if it has the
// machine's address. A pod that preflight reached at its own address has the machine's network
// unless that address is on a veth.
func WithHostNetwork(node *facts.Node) []fix.Command {
	if node == nil || node.SSH == nil || node.Address == "" || node.Net == nil {
		return nil
	}
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(address string) bool {
			return strings.HasPrefix(address, node.Address+"/")
		})
	})
	container := ranks.ContainerOf(node)
	isApart := node.SSH.Inside != nil && at < 0
	if container == "kubernetes" && node.SSH.Inside == nil {
		isApart = at >= 0 && node.Net.Interfaces[at].Kind == "veth"
	}
	if !isApart {
		return nil
	}
	return Anew(container, hostNetwork)
}
