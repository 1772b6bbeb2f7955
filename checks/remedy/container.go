package remedy

import (
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// StartWithGPUs starts a container of a kind with the GPUs and the driver of its
// machine: what it was not given when it was started, it never gets.
func StartWithGPUs(container string) []fix.Command {
	const anew = "   # start the container of {nodes} anew with this"
	switch container {
	case "docker":
		return []fix.Command{fix.Here("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …" + anew)}
	case "podman":
		return []fix.Command{fix.Here("podman run --device nvidia.com/gpu=all …" + anew)}
	case "kubernetes":
		return []fix.Command{fix.Here("resources: {limits: {nvidia.com/gpu: 8}}   # in the pod's spec, with as many as there are slots"), fix.Here("kubectl get pods -n gpu-operator   # does the device plugin run?")}
	case "apptainer":
		return []fix.Command{fix.Here("apptainer exec --nv …" + anew)}
	case "enroot":
		return []fix.Command{fix.Here("NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility enroot start …" + anew)}
	}
	return []fix.Command{fix.Note("start the container of {nodes} anew with the GPUs and the driver's libraries of its machine")}
}

// RestartContainer starts a container of a kind again, as it was.
func RestartContainer(container string, why fix.Arg) []fix.Command {
	switch container {
	case "docker", "podman":
		return []fix.Command{fix.Here("%s restart CONTAINER   # on the machine that runs {nodes}: %s", fix.Name(container), why)}
	case "kubernetes":
		return []fix.Command{fix.Here("kubectl delete pod POD   # and have it made anew: %s", why)}
	}
	return []fix.Command{fix.Note("stop the container of {nodes} and start it again: %s", why)}
}

// OnMachine marks what an administrator must type on the machine, where we came
// to a container on it.
func OnMachine(node *facts.Node, command fix.Command) fix.Command {
	if ranks.ContainerOf(node) == "" || !command.UsesSudo() {
		return command
	}
	return command.Remark("on the machine itself, not in this container")
}
