package launch

import (
	"preflight/facts"
	"preflight/hostfile"
)

// Settled is the prediction once the nodes have shown what they have. Where nobody
// said which accelerator is meant and no node that was reached has one, DeepSpeed
// takes the CPU, and so does whatever torchrun starts: its ranks talk by gloo.
//
// Source: accelerator/real_accelerator.py, get_accelerator, 0.14.1 to 0.19.8.
func (p Prediction) Settled(nodes []facts.Node) Prediction {
	if !p.AcceleratorOpen || !p.Torchrun() && hostfile.Before(p.DeepSpeed, cpuFallback) {
		return p
	}
	seen := false
	for i := range nodes {
		if !nodes[i].Reached {
			continue
		}
		count, known := Accelerators(&nodes[i])
		if !known || count > 0 {
			return p
		}
		seen = true
	}
	if seen {
		p.Accelerator = "cpu"
	}
	return p
}
