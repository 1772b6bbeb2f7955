package checks

// startWithGPUs starts a container of a kind with the GPUs and the driver of its
// machine: what it was not given when it was started, it never gets.
func startWithGPUs(container string) []string {
	const anew = "   # start the container of {nodes} anew with this"
	switch container {
	case "docker":
		return []string{"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …" + anew}
	case "podman":
		return []string{"podman run --device nvidia.com/gpu=all …" + anew}
	case "kubernetes":
		return []string{"resources: {limits: {nvidia.com/gpu: 8}}   # in the pod's spec, with as many as there are slots", "kubectl get pods -n gpu-operator   # does the device plugin run?"}
	case "apptainer":
		return []string{"apptainer exec --nv …" + anew}
	case "enroot":
		return []string{"NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility enroot start …" + anew}
	}
	return []string{"# start the container of {nodes} anew with the GPUs and the driver's libraries of its machine"}
}

// restartContainer starts a container of a kind again, as it was.
func restartContainer(container, why string) []string {
	switch container {
	case "docker", "podman":
		return []string{container + " restart CONTAINER   # on the machine that runs {nodes}: " + why}
	case "kubernetes":
		return []string{"kubectl delete pod POD   # and have it made anew: " + why}
	}
	return []string{"# stop the container of {nodes} and start it again: " + why}
}
