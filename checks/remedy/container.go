// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// StartWithGPUs returns the commands that start a container with the GPUs and the driver of its
// machine. The container must be started again, because a running container cannot get them.
func StartWithGPUs(container string) []fix.Command {
	for _, e := range engines {
		if e.name == container {
			return StartAgain(container, Lack{option: e.gpus})
		}
	}
	switch container {
	case "kubernetes":
		return []fix.Command{
			fix.Note("set resources: {limits: {nvidia.com/gpu: 8}} in the pod's spec, with as many GPUs as slots"),
			fix.Here("kubectl get pods{cluster} -n gpu-operator   # shows whether the device plugin runs").As(fix.Look),
		}
	case "apptainer":
		return []fix.Command{fix.Note("start the container of {nodes} again with apptainer exec --nv")}
	case "enroot":
		return []fix.Command{fix.Note("start the container of {nodes} again with NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility in the environment of enroot start")}
	}
	return []fix.Command{fix.Note("start the container of {nodes} again with the GPUs and the driver's libraries of its machine")}
}

// StartWithAMD returns the same commands as StartWithGPUs, but for AMD GPUs.
//
// Source: ROCm 6.2, Running ROCm Docker containers; ROCm/k8s-device-plugin, README.md; Apptainer
// 1.3, GPU Support.
func StartWithAMD(container string) []fix.Command {
	switch {
	case isEngine(container), container == "kubernetes":
		return StartAgain(container, amdGPUs)
	case container == "apptainer":
		return []fix.Command{fix.Note("start the container of {nodes} again with apptainer exec --rocm")}
	}
	return []fix.Command{fix.Note("start the container of {nodes} again with its machine's /dev/kfd and /dev/dri")}
}

// RestartContainer returns the commands that restart a container with the same options.
func RestartContainer(container string, why fix.Arg) []fix.Command {
	switch {
	case isEngine(container):
		return []fix.Command{fix.Note("restart the container with %s restart, on the machine that runs {nodes}: %s", fix.Name(container), why)}
	case container == "kubernetes":
		return []fix.Command{fix.Note("delete the pod of {nodes}, so that its controller creates it again: %s", why)}
	}
	return []fix.Command{fix.Note("stop the container of {nodes} and start it again: %s", why)}
}

// OnMachine returns a command that an administrator must run on the machine itself. It only changes
// the command if preflight checked a container on the machine.
func OnMachine(node *facts.Node, command fix.Command) fix.Command {
	if node.SSH != nil && node.SSH.Inside != nil {
		return command.Outside()
	}
	if ranks.ContainerOf(node) == "" || !command.UsesSudo() {
		return command
	}
	return command.Remark("on the machine itself, not in this container")
}

// EnlargeSHM returns the commands that make /dev/shm at least need bytes large. The size is rounded
// up to whole GiB.
func EnlargeSHM(node *facts.Node, need int64) []fix.Command {
	return SizeSHM(node, max(1, (need+1<<30-1)>>30), "G")
}

// SizeSHM returns the commands that set the size of /dev/shm on the machine or container that
// mounts it. unit is "G" for GiB or "" for bytes.
func SizeSHM(node *facts.Node, amount int64, unit string) []fix.Command {
	size := fmt.Sprintf("%d%s", amount, unit)
	container := ranks.ContainerOf(node)
	if commands := StartAgain(container, Lack{option: fix.Code("--shm-size=%s", fix.Name(strings.ToLower(size)))}); commands != nil {
		commands[0] = commands[0].Remark(", or with --ipc=host")
		return commands
	}
	switch container {
	case "kubernetes":
		limit := strings.Replace(size, "G", "Gi", 1)
		return []fix.Command{fix.Note("set volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: %s}}] and volumeMounts: [{name: shm, mountPath: /dev/shm}] in the pod's spec", fix.Name(limit))}
	case "lxc":
		return []fix.Command{fix.Note("add lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,size=%s,create=dir 0 0 to the container's configuration", fix.Name(size))}
	}
	mount := fix.On("sudo mount -o remount,size=%s /dev/shm", fix.Name(size))
	if !node.SHM.Mounted || node.SHM.FSType != "tmpfs" {
		mount = fix.On("sudo mkdir -p /dev/shm && sudo mount -t tmpfs -o nosuid,nodev,mode=1777,size=%s tmpfs /dev/shm", fix.Name(size))
	}
	return []fix.Command{
		OnMachine(node, mount),
		OnMachine(node, fix.On("echo tmpfs /dev/shm tmpfs nosuid,nodev,size=%s 0 0 | sudo tee -a /etc/fstab   # keeps the size after a reboot", fix.Name(size))).As(fix.Then),
	}
}

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

// StartAgain returns the commands that start a container or a pod again with the property that it lacks.
// It returns nil for other kinds of containers.
func StartAgain(container string, lack Lack) []fix.Command {
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
		return StartAgain(container, writableTmp)
	}
}

// WithHostNetwork returns the commands that give a container the network of its machine. It returns
// nil if the container already has that network.
//
// A pod that preflight reached at its own address has the machine's network unless that address is
// on a veth.
func WithHostNetwork(node *facts.Node) []fix.Command {
	isApart := IsApart(node)
	if !isApart && node != nil && node.SSH != nil && ranks.ContainerOf(node) == "kubernetes" {
		reached := reachedAt(node)
		isApart = reached != nil && node.SSH.Inside == nil && reached.Kind == "veth" || reached == nil && node.SSH.Inside != nil && node.Address != "" && node.Net != nil
	}
	if !isApart {
		return nil
	}
	return StartAgain(ranks.ContainerOf(node), hostNetwork)
}

// IsApart reports whether a node is a container of an engine with a network of its own. A container
// that preflight reached through its machine has the machine's network if it has the machine's
// address.
func IsApart(node *facts.Node) bool {
	return node != nil && node.Address != "" && node.Net != nil && isEngine(ranks.ContainerOf(node)) && reachedAt(node) == nil
}

// reachedAt returns the interface with the address at which preflight reached a node, or nil if
// none has that address.
func reachedAt(node *facts.Node) *facts.Interface {
	if node.Net == nil {
		return nil
	}
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(address string) bool {
			return strings.HasPrefix(address, node.Address+"/")
		})
	})
	if at < 0 {
		return nil
	}
	return &node.Net.Interfaces[at]
}
