// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"

	"preflight/hostfile"
)

// CommOp is what DeepSpeed's own collectives need on the CPU accelerator: whatever the
// script calls of DeepSpeed's first, init_distributed loads it or dies
// (deepspeed/comm/torch.py, build_shm_op, since v0.14.2).
const CommOp = "deepspeed_shm_comm"

// Ops are the extensions that DeepSpeed compiles on first use, by its names: what
// the configuration needs, and on the CPU accelerator what its collectives do.
func (p Prediction) Ops() []string {
	var ops []string
	if p.Config != nil {
		ops = slices.Clone(p.Config.Ops)
	}
	isScript := p.Script != "" && (!p.Torchrun() || p.Config != nil) // of DeepSpeed's, as far as anybody can tell
	if p.Accelerator == "cpu" && isScript && !hostfile.Before(p.DeepSpeed, "0.14.2") {
		ops = append(ops, CommOp)
	}
	return ops
}
