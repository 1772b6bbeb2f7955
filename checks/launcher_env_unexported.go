package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// unexported warns of variables that are set where the launch is typed, matter
// to the ranks, and reach none where the launcher gets an explicit list. Nodes
// whose environment was not seen are left out.
func unexported(view View) []Finding {
	if view.Launch.StartedBy().Environment != launch.EnvironmentExported {
		return nil
	}
	var findings []Finding
	for _, setting := range view.Head.Env.Vars {
		if _, isExported := exported(view, setting.Name); isExported || setting.Value == "" || !matters(view.Launch, setting.Name) {
			continue
		}
		without := nodesWithout(view, setting)
		if without == nil {
			continue
		}
		findings = append(findings, Finding{
			Nodes:   without,
			Summary: setting.Name + " is set where the launch is typed, and the launch does not export it",
			Got:     "not set, or not to this, on " + hostfile.Fold(without),
			Want:    setting.Value,
			Remedy:  []fix.Command{exportLine(view.Launch, setting.Name, setting.Value)},
		})
	}
	return findings
}

func nodesWithout(view View, setting facts.Setting) (names []string) {
	for _, node := range view.Nodes {
		if node.Env != nil && rankEnv(view, node)[setting.Name].Value != setting.Value {
			names = append(names, node.Name)
		}
	}
	return names
}

// matters says whether ranks behave differently by a variable that DeepSpeed does
// not export, or not from every machine: NCCL's it does from one with a GPU.
func matters(p launch.Prediction, name string) bool {
	if p.Accelerator != "cpu" && strings.HasPrefix(name, "NCCL_") {
		return true
	}
	for _, prefix := range []string{"GLOO_", "TP_", "TORCH_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"LD_LIBRARY_PATH", "LD_PRELOAD", "DEEPSPEED_TIMEOUT", "DS_ACCELERATOR", "DS_SKIP_CUDA_CHECK",
		"USE_LIBUV", "OMP_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
		"TRANSFORMERS_OFFLINE", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"}, name)
}
