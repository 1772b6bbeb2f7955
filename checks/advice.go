package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// advise is what would make the launch work, as far as this run has proven it:
// settings in the form that .deepspeed_env takes, and arguments. Of a fleet in
// which any node was not seen, or any call on the addresses in question failed,
// nothing is proven.
func advise(view View) Advice {
	advice := Advice{Env: []AdvisedEnv{}, Args: []string{}}
	view.Nodes = view.Everywhere()
	if len(view.Nodes) < 2 || !all(view.Nodes, func(n *facts.Node) bool { return n.Reached && n.Net != nil }) {
		return advice
	}
	advice.Env = append(advice.Env, adviseInterfaces(view)...)
	advice.Seen = adviseAdapters(view)
	if advice.Args = append(advice.Args, adviseMaster(view)...); len(advice.Args) > 0 {
		advice.Program = program(view)
	}
	return advice
}

// adviseInterfaces names the interfaces on which all nodes reached each other:
// those the ranks take by themselves where these will do, else those that lead
// to the peers.
func adviseInterfaces(view View) []AdvisedEnv {
	mesh := rankMesh
	pairs, proven := meshProof(view.Nodes, mesh)
	if !proven {
		mesh = peerMesh
		pairs, proven = meshProof(view.Nodes, mesh)
	}
	if !proven {
		return nil
	}
	wanted := func(node *facts.Node) string { return mesh(node).Interface }
	var advised []AdvisedEnv
	for _, candidate := range []struct {
		name, value string
		choose      func(launch.Prediction, *facts.Node) launch.Choice
		isRead      bool
	}{
		{"NCCL_SOCKET_IFNAME", launch.IfnameFor(view.Nodes, wanted), launch.Bootstrap, view.Launch.Accelerator != "cpu"},
		{"GLOO_SOCKET_IFNAME", commonName(view.Nodes, wanted), launch.Gloo, true},
	} {
		told := told(view.Launch, candidate.name, candidate.value)
		leads := func(node *facts.Node) bool { return candidate.choose(told, node).Address == mesh(node).Address }
		if !candidate.isRead || !fix.IsPlain(candidate.value) || !all(view.Nodes, leads) {
			continue // it would lead to an address that nobody called
		}
		advised = append(advised, AdvisedEnv{Name: candidate.name, Value: candidate.value, Why: fmt.Sprintf("%s on %s", pairs, spellInterfaces(view.Nodes, wanted))})
	}
	return advised
}

// told is the launch with one more variable exported to every node.
func told(prediction launch.Prediction, name, value string) launch.Prediction {
	exports := slices.DeleteFunc(slices.Clone(prediction.Exports), func(s facts.Setting) bool { return s.Name == name })
	prediction.Exports = append(exports, facts.Setting{Name: name, Value: value, Source: ".deepspeed_env"})
	return prediction
}

func all(nodes []*facts.Node, is func(*facts.Node) bool) bool {
	return !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !is(n) })
}

// commonName is the one name that is wanted on every node, "" when there are
// several.
func commonName(nodes []*facts.Node, wanted func(*facts.Node) string) string {
	if len(nodes) == 0 {
		return ""
	}
	first := wanted(nodes[0])
	if slices.ContainsFunc(nodes, func(n *facts.Node) bool { return wanted(n) != first }) {
		return ""
	}
	return first
}

func spellInterfaces(nodes []*facts.Node, wanted func(*facts.Node) string) string {
	if name := commonName(nodes, wanted); name != "" {
		return name
	}
	groups := groupBy(nodes, wanted)
	return fmt.Sprintf("%s and %d other names of it", groups[0].Value, len(groups)-1)
}

// adviseMaster is the address at which all nodes met, where they did not at the
// one that the launcher picks by itself.
func adviseMaster(view View) []string {
	first, _ := nodeZero(view)
	if first == nil || attended(view.All, rendezvousOf).together() || !attended(view.All, peerRendezvous).proven() {
		return nil
	}
	endpoint := first.PeerRendezvous.Endpoint
	host, port := splitEndpoint(endpoint)
	moved, argument := view.Launch, "--master_addr="+host
	moved.MasterAddr, moved.RdzvEndpoint = host, ""
	if view.Launch.Rendezvous == launch.RendezvousC10d || view.Launch.RdzvEndpoint != "" {
		moved.RdzvEndpoint, argument = endpoint, "--rdzv_endpoint="+endpoint
	}
	meeting := moved.Meeting(first)
	servesAsTried := func(node *facts.Node) bool {
		serves, _ := moved.Serves(meeting, node, first)
		return serves == node.PeerRendezvous.Serves
	}
	if !fix.IsPlain(host) || !fix.IsPlain(port) || moved.MeetingHost() != host || fmt.Sprint(meeting.Port) != port || !all(view.Nodes, servesAsTried) {
		return nil // the launcher would do something else than was tried
	}
	return []string{argument}
}
