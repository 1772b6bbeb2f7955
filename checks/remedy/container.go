// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"fmt"
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
			return Anew(container, Lack{option: e.gpus})
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
		return Anew(container, amdGPUs)
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
	if commands := Anew(container, Lack{option: fix.Code("--shm-size=%s", fix.Name(strings.ToLower(size)))}); commands != nil {
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
