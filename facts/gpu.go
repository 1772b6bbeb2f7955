package facts

// GPU is the accelerators of a node as far as devices show them.
type GPU struct {
	// Devices are NVIDIA's device nodes, one a GPU: /dev/nvidia0, … In a
	// container these are the GPUs it was given.
	Devices []string `json:"devices"`
	// Driver lists the GPUs the kernel driver holds, by PCI address, nil when no
	// driver is loaded. A container sees those of the whole machine.
	Driver []string `json:"driver" fact:"own"`
	// Others are accelerators of other makers by device node (/dev/kfd and render
	// nodes, /dev/accel/accel0, /dev/davinci0), to tell "no accelerator" from "not NVIDIA's".
	Others []string `json:"others,omitempty"`
}
