package checks

import (
	"fmt"
	"net/netip"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// headNode is the node that the launching machine is. It is none of them where
// boot id, machine id or network namespace differ, or were not seen on both.
func headNode(view View) (node *facts.Node, isNode bool) {
	if view.Head == nil {
		return nil, false
	}
	here, known := launch.Machine(view.Head)
	for i := range view.All {
		if there, seen := launch.Machine(&view.All[i]); known && seen && there == here {
			return &view.All[i], true
		}
	}
	return nil, false
}

// startsHere judges that DeepSpeed starts the ranks of a single host where it is
// typed: nothing is wrong with that on the host itself.
func startsHere(view View, note hostfile.Note) []Finding {
	if _, isNode := headNode(view); isNode {
		return nil
	}
	f := Finding{
		Nodes: []string{view.Head.Name}, Summary: note.Message,
		Remedy:   []fix.Command{fix.Here("deepspeed --force_multi …   # or type the launch on that host")},
		WouldSee: "The client socket has timed out after 600000ms while trying to connect to the master address, where no rank runs",
	}
	host := view.All[0]
	_, here := launch.Machine(view.Head)
	_, there := launch.Machine(&host)
	switch {
	case meetsHere(view):
		f.Verdict = Warn
		f.WouldSee = "training on the launching machine, while the host of the hostfile idles"
	case !host.Reached: // the way in is a finding of its own
		f.Verdict = Warn
	case !here || !there:
		return []Finding{{Verdict: Unknown, Nodes: f.Nodes, Summary: fmt.Sprintf(
			"%s is the only host, and DeepSpeed starts its ranks on the launching machine; whether the two are one could not be told", host.Name)}}
	default:
		f.Verdict = Fail
	}
	return []Finding{f}
}

// meetsHere is whether the master address given is the launching machine's own.
func meetsHere(view View) bool {
	address, err := netip.ParseAddr(view.Launch.MasterAddr)
	switch {
	case view.Launch.MasterAddr == "localhost":
		return true
	case err != nil:
		return false
	case address.IsLoopback():
		return true
	}
	return view.Head.Net != nil && slices.Contains(addressesOf(view.Head), address)
}
