// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"

	"preflight/hostfile"
)

// CommOp is the extension that DeepSpeed's own collectives need on the CPU accelerator.
// init_distributed always loads CommOp and fails without it (deepspeed/comm/torch.py, build_shm_op,
// since v0.14.2).
const CommOp = "deepspeed_shm_comm"

// Ops returns the extensions that DeepSpeed compiles on first use, with DeepSpeed's names for them.
// These are the extensions that the configuration needs. On the CPU accelerator, they include the
// extension for DeepSpeed's collectives.
func (p Prediction) Ops() []string {
	var ops []string
	if p.Config != nil {
		ops = slices.Clone(p.Config.Ops)
	}
	isScript := p.Script != "" && (!p.Torchrun() || p.Config != nil) // as far as is known, the script uses DeepSpeed
	if p.Accelerator == "cpu" && isScript && !hostfile.Before(p.DeepSpeed, "0.14.2") {
		ops = append(ops, CommOp)
	}
	return ops
}
