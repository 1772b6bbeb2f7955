package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/hostfile"
)

// ignored: DeepSpeed takes the master's address and port from its arguments, and
// the devices from the hostfile, whatever the environment says.
func ignored(view View) []Finding {
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
			Remedy:   []fix.Command{fix.Here("deepspeed --%s=%s …", fix.Name(argument), fix.Word(setting.Value)), fix.Here("unset %s", fix.Variable(setting.Name))},
		})
	}
	return append(findings, ignoredDevices(view)...)
}

// ignoredDevices: launch.py sets CUDA_VISIBLE_DEVICES to
// the slots of its node.
func ignoredDevices(view View) []Finding {
	const name = "CUDA_VISIBLE_DEVICES"
	value := headVariable(view, name)
	asSlots := func(h hostfile.Host) bool {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Slots), " ", ","), "[]") == value
	}
	if !view.Launch.StartedBy().LaunchPy || value == "" || view.Launch.Accelerator == "cpu" || !slices.ContainsFunc(view.Launch.Hosts, func(h hostfile.Host) bool { return !asSlots(h) }) {
		return nil
	}
	return []Finding{{
		Nodes:    []string{view.Head.Name},
		Summary:  name + " is set where the launch is typed, and with a hostfile DeepSpeed puts the slots of each host in its place",
		Got:      name + "=" + value,
		Want:     "the devices as slots of --include",
		WouldSee: "training on other devices than the variable names",
		Remedy:   []fix.Command{fix.Here("deepspeed --include %s …   # every host so", fix.Word("HOST:"+value)), fix.Here("unset %s", fix.Variable(name))},
	}}
}
