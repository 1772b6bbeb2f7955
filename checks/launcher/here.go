package launcher

import (
	"fmt"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/hostfile"
	"preflight/launch"
)

// startsHere judges that DeepSpeed starts the ranks of a single host where it is
// typed: nothing is wrong with that on the host itself.
func startsHere(view checks.View, note hostfile.Note) []checks.Finding {
	if _, isNode := ranks.HeadNode(view); isNode {
		return nil
	}
	f := checks.Finding{
		Nodes: []string{view.Head.Name}, Summary: note.Message,
		Remedy:   []fix.Command{fix.Here("deepspeed --force_multi …   # or type the launch on that host")},
		WouldSee: "The client socket has timed out after 600000ms while trying to connect to the master address, where no rank runs",
	}
	host := view.All[0]
	_, here := launch.Machine(view.Head)
	_, there := launch.Machine(&host)
	switch {
	case meetsHere(view):
		f.Verdict = checks.Warn
		f.WouldSee = "training on the launching machine, while the host of the hostfile idles"
	case !host.Reached: // the way in is a finding of its own
		f.Verdict = checks.Warn
	case !here || !there:
		return []checks.Finding{{Verdict: checks.Unknown, Nodes: f.Nodes, Summary: fmt.Sprintf(
			"%s is the only host, and DeepSpeed starts its ranks on the launching machine; whether the two are one could not be told", host.Name)}}
	default:
		f.Verdict = checks.Fail
	}
	return []checks.Finding{f}
}

// meetsHere is whether the master address given is the launching machine's own.
func meetsHere(view checks.View) bool {
	address, err := netip.ParseAddr(view.Launch.MasterAddr)
	switch {
	case view.Launch.MasterAddr == "localhost":
		return true
	case err != nil:
		return false
	case address.IsLoopback():
		return true
	}
	return view.Head.Net != nil && slices.Contains(names.AddressesOf(view.Head), address)
}
