package checks

import (
	"preflight/checks/fix"
	"preflight/hostfile"
)

// zeroSlots: a host that runs nothing is only odd, unless it is the first one:
// rank 0 serves on another then, and all look for it on the first.
func zeroSlots(view View, note hostfile.Note) []Finding {
	p := view.Launch
	first := p.Hosts[0]
	fatal := first.Line == note.Line && len(first.Slots) == 0 && p.WorldSize() > 0 && p.MasterAddr == "" && !p.Torchrun()
	t := trap{fatal: fatal, fix: lineCommand(fix.Code("d"))}
	if fatal {
		t.wouldSee = "The client socket has timed out after 600000ms while trying to connect to the first host, where no rank runs"
	}
	return []Finding{t.finding(view, note)}
}
