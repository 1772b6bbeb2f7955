package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// recoveryChanged is the Xid by which drivers since 555 say what a GPU needs now:
// "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)". A GPU
// that the module finds anew begins without a word: of a reset that cured it the
// log says nothing, and what the driver tells when it is asked goes before.
//
// Source: NVIDIA/open-gpu-kernel-modules 570, gpu.c, gpuPostConstruct.
const recoveryChanged = 154

// recoveryWords are what the driver may want done about a GPU.
//
// Source: NVML 12.8, nvmlDeviceGpuRecoveryAction_t.
var recoveryWords = map[string]string{
	"reset":           "GPU reset required",
	"reboot":          "node reboot required",
	"drain":           "traffic with other GPUs is to be stopped",
	"drain-and-reset": "GPU reset required once its work is done",
	"other":           "an action that this preflight does not know",
}

// recoveryRules judge GPUs by what the driver says when it is asked. One that is to
// be reset once its work is done computes until then.
var recoveryRules = []cardRule{{Finding{
	Summary:  "the driver says that a GPU needs recovery",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), resetGPU, withoutNode},
	WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
}, recoveryOf("reset", "drain")}, {Finding{
	Summary:  "the driver says that a GPU needs its machine rebooted",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), rebootNode, withoutNode},
	WouldSee: "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
}, recoveryOf("reboot")}, {Finding{
	Verdict:  Warn,
	Summary:  "the driver wants a GPU reset before long",
	Want:     "no recovery action open",
	Remedy:   []fix.Command{fix.On("sudo dmesg -T | grep -i xid"), fix.On("nvidia-smi -q -i {gpus}   # GPU Recovery Action"), resetGPU},
	WouldSee: "nothing as a rule, until what is broken in it is needed",
}, recoveryOf("drain-and-reset", "other")}}

func recoveryOf(actions ...string) func(*facts.Card) string {
	return func(card *facts.Card) string {
		if !slices.Contains(actions, card.Recovery) {
			return ""
		}
		return recoveryWords[card.Recovery]
	}
}
