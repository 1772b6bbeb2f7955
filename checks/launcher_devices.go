package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// moreSlots judges slots that the hostfile does not give. A rank without a
// device of its own ends the launch; where every host shows as many accelerators
// as were asked for, only the hostfile is out of date.
func moreSlots(commands func(View, hostfile.Note) []fix.Command) func(View, hostfile.Note) []Finding {
	return func(view View, note hostfile.Note) []Finding {
		f := trap{
			fatal:    view.Launch.Accelerator != "cpu" && !enoughDevices(view),
			fix:      commands,
			wouldSee: "RuntimeError: CUDA error: invalid device ordinal",
		}.finding(view, note)
		if f.Verdict == Warn {
			f.WouldSee = "more ranks than the hostfile says"
		}
		return []Finding{f}
	}
}

// enoughDevices is whether every host was seen to have an accelerator for each
// of its slots.
func enoughDevices(view View) bool {
	for _, host := range view.Launch.Hosts {
		if len(host.Slots) > 0 && !hasDevices(view, host.Name, slices.Max(host.Slots)+1) {
			return false
		}
	}
	return true
}

func hasDevices(view View, host string, needed int) bool {
	devices, seen := devicesOf(view, host)
	return seen && devices >= needed
}

func devicesOf(view View, host string) (count int, seen bool) {
	i := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == host })
	if i < 0 {
		return 0, false
	}
	return launch.Accelerators(&view.All[i])
}

// fewestDevices is a --num_gpus that every host has the accelerators for.
func fewestDevices(view View, _ hostfile.Note) []fix.Command {
	fewest := 0
	for _, host := range view.Launch.Hosts {
		if devices, seen := devicesOf(view, host.Name); seen && (fewest == 0 || devices < fewest) {
			fewest = devices
		}
	}
	if fewest == 0 {
		return []fix.Command{fix.Here("deepspeed --num_gpus N …   # at most the slots of the host that has the fewest")}
	}
	return []fix.Command{fix.Here("deepspeed --num_gpus %s …   # what the host with the fewest accelerators has", fix.Number(fewest))}
}

// slotsGiven names the slots that the hostfile has for the host of a note.
func slotsGiven(_ View, note hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --include 'NAME:0,1,…' …   # only slots that line %s of the hostfile gives; they count from 0", fix.Number(note.Line))}
}
