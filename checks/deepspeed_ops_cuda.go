package checks

import (
	"fmt"
	"strings"

	"preflight/launch"
)

// toolkit is what ops of the GPU take besides.
func (t opTools) toolkit() []Finding {
	ops := needsCUDA(t.view, t.ops)
	if len(ops) == 0 || t.node.Python != nil && t.node.Python.Torch != nil && t.node.Python.Torch.CUDA == "" {
		return nil // a torch for ROCm or the CPU is another matter
	}
	if t.NVCC == "" {
		f := t.lacks("there is no CUDA toolkit", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root., or "+
			"MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
			exportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda").Remark("once a toolkit is installed there"))
		f.Want = "what compiles " + strings.Join(ops, ", ")
		if t.CUDAHome != "" {
			f.Got = fmt.Sprintf("%s (by %s) has no bin/nvcc", t.CUDAHome, t.CUDAFrom)
		}
		return []Finding{f}
	}
	if t.node.Python == nil || t.node.Python.Torch == nil || t.CUDA == "" {
		return nil
	}
	return t.mismatch(ops, release(t.node.Python.Torch.CUDA, 2))
}

// mismatch compares the toolkit with torch. Releases of one major version go
// together; DeepSpeed itself looked up to 0.12.2 and has gone on since.
//
// Source: deepspeed/op_builder/builder.py, assert_no_cuda_mismatch and jit_load,
// 0.7.7 to 0.19.8.
func (t opTools) mismatch(ops []string, torch string) []Finding {
	skipped := rankEnv(t.view, t.node)["DS_SKIP_CUDA_CHECK"].Value == "1"
	if release(t.CUDA, 1) == release(torch, 1) || skipped {
		return nil
	}
	f := t.lacks("the CUDA toolkit is of another version than torch was built with",
		fmt.Sprintf("Installed CUDA version %s does not match the version torch was compiled with %s, unable to compile cuda/cpp extensions without a matching cuda version.", t.CUDA, torch),
		exportLine(t.view.Launch, "CUDA_HOME", "/usr/local/cuda-"+torch))
	f.Got = fmt.Sprintf("CUDA %s in %s (by %s), torch for CUDA %s", t.CUDA, t.CUDAHome, t.CUDAFrom, torch)
	f.Want = fmt.Sprintf("a toolkit of CUDA %s, for %s", release(torch, 1), strings.Join(ops, ", "))
	if !launch.Before(t.view.Launch.DeepSpeed, "0.12.3") {
		f.Verdict = Warn
		f.WouldSee = fmt.Sprintf("RuntimeError: Error building extension '%s', or ImportError: undefined symbol when it is loaded", ops[0])
	}
	return []Finding{f}
}
