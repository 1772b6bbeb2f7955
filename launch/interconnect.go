package launch

import "preflight/facts"

// Transport is the way in which ranks talk to each other, and why it is that one.
type Transport struct {
	// Name is NVLink, PCIe, shared memory, InfiniBand, RoCE, sockets or a network
	// plugin's own; "" where there is nobody to talk to or nothing was seen.
	Name string `json:"name"`
	// Detail is what of it: "NV18 between all 8 GPUs", "mlx5_0 to mlx5_7, 400 Gbit/s each, GPUDirect".
	Detail string `json:"detail,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Inside is what NCCL will use between the GPUs of a node.
func (p Prediction) Inside(node *facts.Node) Transport { return Transport{} }

// Between is what NCCL will use from a node to the others.
func (p Prediction) Between(node *facts.Node) Transport { return Transport{} }
