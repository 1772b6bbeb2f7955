package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// unexported warns of variables that are set where the launch is typed, matter
// to the ranks, and reach none: pdsh and Open MPI get an explicit list.
func unexported(view View, all []ranks) []Finding {
	launcher := view.Launch.Launcher
	if view.Head == nil || view.Head.Env == nil || view.Launch.Local || launcher != "pdsh" && launcher != "openmpi" {
		return nil
	}
	var findings []Finding
	for _, setting := range view.Head.Env.Vars {
		if setting.Value == "" || !matters(setting.Name) {
			continue
		}
		var without []string
		for _, r := range all {
			if r.value(setting.Name) != setting.Value {
				without = append(without, r.node.Name)
			}
		}
		if _, isExported := exported(view, setting.Name); isExported || without == nil {
			continue
		}
		findings = append(findings, Finding{
			Nodes:   without,
			Summary: setting.Name + " is set where the launch is typed, and no launcher exports it",
			Got:     "not set, or not to this, on " + hostfile.Fold(without),
			Want:    setting.Value,
			Fix:     []string{exportLine(view.Launch, setting.Name, setting.Value)},
		})
	}
	return findings
}

// matters says whether ranks behave differently by a variable that DeepSpeed
// does not export: every prefix it does export is left out.
func matters(name string) bool {
	for _, prefix := range []string{"GLOO_", "TP_", "TORCH_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"LD_LIBRARY_PATH", "LD_PRELOAD", "DEEPSPEED_TIMEOUT", "USE_LIBUV", "OMP_NUM_THREADS",
		"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
		"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"}, name)
}

// ignoredMaster: DeepSpeed takes the master's address and port from its
// arguments only.
func ignoredMaster(view View) []Finding {
	if view.Head == nil || view.Head.Env == nil {
		return nil
	}
	planned := map[string]string{"MASTER_ADDR": view.Launch.MasterAddr, "MASTER_PORT": fmt.Sprint(view.Launch.MasterPort)}
	var findings []Finding
	for _, setting := range view.Head.Env.Vars {
		plan, isMaster := planned[setting.Name]
		if !isMaster || setting.Value == "" || setting.Value == plan {
			continue
		}
		argument := strings.ToLower(setting.Name)
		findings = append(findings, Finding{
			Nodes:    []string{view.Head.Name},
			Summary:  setting.Name + " is set where the launch is typed, and DeepSpeed does not read it",
			Got:      setting.Value,
			Want:     "--" + argument + " on the command line",
			WouldSee: "ranks that meet at another address or port than the one set",
			Fix:      []string{fmt.Sprintf("deepspeed --%s=%s …", argument, shellWord(setting.Value)), "unset " + setting.Name},
		})
	}
	return findings
}
