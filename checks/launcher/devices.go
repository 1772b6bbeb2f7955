package launcher

import (
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// moreSlots judges slots that the hostfile does not give. A rank without a
// device of its own ends the launch; where every host shows as many accelerators
// as were asked for, only the hostfile is out of date.
func moreSlots(commands func(checks.View, hostfile.Note) []fix.Command) func(checks.View, hostfile.Note) []checks.Finding {
	return func(view checks.View, note hostfile.Note) []checks.Finding {
		f := trap{
			fatal:    view.Launch.Accelerator != "cpu" && !enoughDevices(view),
			fix:      commands,
			wouldSee: "RuntimeError: CUDA error: invalid device ordinal",
		}.finding(view, note)
		if f.Verdict == checks.Warn {
			f.WouldSee = "more ranks than the hostfile says"
		}
		return []checks.Finding{f}
	}
}

// enoughDevices is whether every host was seen to have an accelerator for each
// of its slots.
func enoughDevices(view checks.View) bool {
	for _, host := range view.Launch.Hosts {
		if len(host.Slots) > 0 && !hasDevices(view, host.Name, slices.Max(host.Slots)+1) {
			return false
		}
	}
	return true
}

func hasDevices(view checks.View, host string, needed int) bool {
	devices, seen := devicesOf(view, host)
	return seen && devices >= needed
}

func devicesOf(view checks.View, host string) (count int, seen bool) {
	i := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == host })
	if i < 0 {
		return 0, false
	}
	return launch.Accelerators(&view.All[i])
}

// fewestDevices is a --num_gpus that every host has the accelerators for.
func fewestDevices(view checks.View, _ hostfile.Note) []fix.Command {
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
func slotsGiven(_ checks.View, note hostfile.Note) []fix.Command {
	return []fix.Command{fix.Here("deepspeed --include 'NAME:0,1,…' …   # only slots that line %s of the hostfile gives; they count from 0", fix.Number(note.Line))}
}

// zeroSlots: a host that runs nothing is only odd, unless it is the first one:
// rank 0 serves on another then, and all look for it on the first.
func zeroSlots(view checks.View, note hostfile.Note) []checks.Finding {
	p := view.Launch
	first := p.Hosts[0]
	fatal := first.Line == note.Line && len(first.Slots) == 0 && p.WorldSize() > 0 && p.MasterAddr == "" && !p.Torchrun()
	t := trap{fatal: fatal, fix: lineCommand(fix.Code("d"))}
	if fatal {
		t.wouldSee = "The client socket has timed out after 600000ms while trying to connect to the first host, where no rank runs"
	}
	return []checks.Finding{t.finding(view, note)}
}
