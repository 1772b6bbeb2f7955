// SPDX-License-Identifier: Apache-2.0

// Package advice says which environment and arguments this run has proven to work, and what
// the ranks will talk by.
//
// It refuses to advise what no drill has tried; what merely follows from the facts is kept
// apart from that.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

// Advise is what would make the launch work, as far as this run has proven it:
// settings in the form that .deepspeed_env takes, and arguments. Of a fleet in
// which any node was not seen, or any call on the addresses in question failed,
// nothing is proven.
func Advise(view checks.View) checks.Advice {
	advice := checks.Advice{Env: []checks.AdvisedEnv{}, Args: []string{}}
	view.Nodes = view.Everywhere()
	if len(view.Nodes) < 2 || !all(view.Nodes, func(n *facts.Node) bool { return n.Reached && n.Net != nil }) {
		return advice
	}
	for _, env := range slices.Concat(adviseRails(view), adviseInterfaces(view), adviseCaches(view)) {
		if slices.ContainsFunc(advice.Env, func(given checks.AdvisedEnv) bool { return given.Name == env.Name }) {
			continue // the rails' interfaces hold the ranks' too
		}
		if ranks.Exportable(env.Name, env.Value) {
			advice.Env = append(advice.Env, env)
		} else {
			advice.Refused = append(advice.Refused, checks.AdvisedEnv{Name: env.Name, Value: env.Value, Why: ranks.NotExported(env.Name)})
		}
	}
	advice.Seen = adviseAdapters(view)
	if advice.Args = append(advice.Args, adviseMaster(view)...); len(advice.Args) > 0 {
		advice.Program = remedy.Program(view)
	}
	return advice
}

// adviseRails has NCCL take the rails that answered where others did not, and keep its rings on their rails where
// no rail answers another.
func adviseRails(view checks.View) (advised []checks.AdvisedEnv) {
	if !all(view.Nodes, func(n *facts.Node) bool { return n.Rails != nil }) {
		return nil
	}
	answered := proof.RailsAnswered(view.Nodes)
	on := fmt.Sprintf("all %d nodes answer each other on %s", len(view.Nodes), strings.Join(answered, ", "))
	switch taking := ranks.TakingRails(view, answered); {
	case taking.Value == "":
	case len(answered) < len(proof.RailNames(view.Nodes)):
		advised = append(advised, checks.AdvisedEnv{Name: taking.Name, Value: taking.Value, Why: on + ", and not on every other rail"})
	case taking.Name == "NCCL_SOCKET_IFNAME":
		advised = append(advised, checks.AdvisedEnv{Name: taking.Name, Value: taking.Value, Why: on})
	}
	isFree := func(node *facts.Node) bool { return ranks.Env(view, node).Get("NCCL_CROSS_NIC").Value != "0" }
	if proof.RailsApart(view.Nodes) && len(answered) > 0 && all(view.Nodes, isFree) {
		advised = append(advised, checks.AdvisedEnv{Name: "NCCL_CROSS_NIC", Value: "0", Why: fmt.Sprintf(
			"no rail of the %d nodes answers another one, and NCCL may lead rings from one to another", len(view.Nodes))})
	}
	return advised
}

// adviseInterfaces names the interfaces on which all nodes reached each other:
// those the ranks take by themselves where these will do, else those that lead
// to the peers.
func adviseInterfaces(view checks.View) []checks.AdvisedEnv {
	mesh := proof.RankMesh
	pairs, proven := proof.MeshProof(view.Nodes, mesh)
	if !proven {
		mesh = proof.PeerMesh
		pairs, proven = proof.MeshProof(view.Nodes, mesh)
	}
	if !proven {
		return nil
	}
	wanted := func(node *facts.Node) string { return mesh(node).Interface }
	var advised []checks.AdvisedEnv
	for _, candidate := range []struct {
		name, value string
		choose      func(launch.Prediction, *facts.Node) nccl.Choice
		isRead      bool
	}{
		{"NCCL_SOCKET_IFNAME", nccl.IfnameFor(view.Nodes, wanted), nccl.Bootstrap, view.Launch.Accelerator != "cpu"},
		{"GLOO_SOCKET_IFNAME", proof.Common(view.Nodes, wanted), nccl.Gloo, true},
	} {
		exporting := ranks.Exporting(view.Launch, candidate.name, candidate.value)
		leads := func(node *facts.Node) bool { return candidate.choose(exporting, node).Address == mesh(node).Address }
		if !candidate.isRead || candidate.value == "" || !all(view.Nodes, leads) {
			continue // it would lead to an address that nobody called
		}
		advised = append(advised, checks.AdvisedEnv{Name: candidate.name, Value: candidate.value, Why: fmt.Sprintf("%s on %s", pairs, spellInterfaces(view.Nodes, wanted))})
	}
	return advised
}

// adviseCaches moves what several nodes compile into one directory over NFS to a disk that each
// was seen to have.
func adviseCaches(view checks.View) (advised []checks.AdvisedEnv) {
	for _, crowd := range ranks.CrowdedCaches(view) {
		isSaid := slices.ContainsFunc(advised, func(env checks.AdvisedEnv) bool { return env.Name == crowd.Variable })
		if dir := crowd.Elsewhere(); dir != "" && !isSaid {
			advised = append(advised, checks.AdvisedEnv{Name: crowd.Variable, Value: dir, Why: fmt.Sprintf(
				"%d nodes would compile into %s, which they share by NFS; this is on a disk of each node's own", len(crowd.Nodes), crowd.Path)})
		}
	}
	return advised
}

func all(nodes []*facts.Node, is func(*facts.Node) bool) bool {
	return !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !is(n) })
}

func spellInterfaces(nodes []*facts.Node, wanted func(*facts.Node) string) string {
	if name := proof.Common(nodes, wanted); name != "" {
		return name
	}
	groups := compare.GroupBy(nodes, wanted)
	return fmt.Sprintf("%s and %d other names of it", groups[0].Value, len(groups)-1)
}

// adviseMaster is the address at which all nodes met, where they did not at the
// one that the launcher picks by itself.
func adviseMaster(view checks.View) []string {
	first, _ := names.NodeZero(view)
	if first == nil || proof.Attended(view.All, proof.RendezvousOf).Together() || !proof.Attended(view.All, proof.PeerRendezvous).Proven() {
		return nil
	}
	endpoint := first.PeerRendezvous.Endpoint
	host, port := names.SplitEndpoint(endpoint)
	moved, argument := view.Launch, "--master_addr="+host
	moved.MasterAddr, moved.RdzvEndpoint = host, ""
	if view.Launch.Rendezvous == launch.RendezvousC10d || view.Launch.RdzvEndpoint != "" {
		moved.RdzvEndpoint, argument = endpoint, "--rdzv_endpoint="+endpoint
	}
	meeting := moved.Endpoint(first)
	servesAsTried := func(node *facts.Node) bool {
		serves, _ := moved.Serves(meeting, node, first)
		return serves == node.PeerRendezvous.Serves
	}
	if !text.IsPlain(host) || !text.IsPlain(port) || moved.EndpointHost() != host || fmt.Sprint(meeting.Port) != port || !all(view.Nodes, servesAsTried) {
		return nil // the launcher would do something else than was tried
	}
	return []string{argument}
}

// adviseAdapters has NCCL leave ports aside that could not connect to the
// others, and take the RoCE address it would find by itself in a newer release:
// only where the adapters of all nodes are alike, and by themselves the ranks
// would do otherwise.
func adviseAdapters(view checks.View) []checks.AdvisedEnv {
	if view.Launch.Accelerator == "cpu" || !all(view.Nodes, func(n *facts.Node) bool { return n.IB != nil && len(n.IB.Verbs) > 0 }) {
		return nil
	}
	names := proof.Common(view.Nodes, func(n *facts.Node) string { return activePorts(view, n) })
	isFree := func(node *facts.Node) bool {
		env := ranks.Env(view, node)
		return !nccl.KeptOffRDMA(env) && env.Get("NCCL_IB_HCA").Value == ""
	}
	if !strings.Contains(names, "/Ethernet") || !all(view.Nodes, isFree) {
		return nil // InfiniBand ports alone need no advice
	}
	if advised := adviseHCA(view, names); advised != nil {
		return advised // no Ethernet port is left that would need an index
	}
	return adviseGID(view)
}

// activePorts leaves out those that manage NVSwitches, of which ib-links speaks.
func activePorts(view checks.View, node *facts.Node) string {
	var ports []string
	doors := ranks.SwitchDoors(node)
	for _, port := range nccl.HCAPorts(view.Launch, node) {
		if slices.Contains(doors, port.Adapter.Name) {
			continue
		}
		ports = append(ports, port.Name()+"/"+port.LinkLayer)
	}
	slices.Sort(ports)
	return strings.Join(ports, " ")
}

// adviseHCA parts InfiniBand from Ethernet ports: those of one layer cannot
// connect to those of the other, and NCCL takes both.
// Source: NVIDIA/nccl 2.30, transport/net_ib/connect.cc.
func adviseHCA(view checks.View, ports string) []checks.AdvisedEnv {
	var fabric, others []string
	for port := range strings.FieldsSeq(ports) {
		name, layer, _ := strings.Cut(port, "/")
		if layer == "InfiniBand" {
			fabric = append(fabric, name)
			continue
		}
		others = append(others, name)
	}
	value := "=" + strings.Join(fabric, ",")
	if fabric == nil || others == nil || !ranks.Exportable("NCCL_IB_HCA", value) {
		return nil
	}
	return []checks.AdvisedEnv{{Name: "NCCL_IB_HCA", Value: value, Why: fmt.Sprintf(
		"these InfiniBand ports are active on all %d nodes; %s is Ethernet, which cannot connect to them, and NCCL would take it too",
		len(view.Nodes), strings.Join(others, ", "))}}
}

// adviseGID is the index that NCCL 2.21 and later finds on every RoCE port of
// every node, where the ranks have an older one that takes the first.
func adviseGID(view checks.View) []checks.AdvisedEnv {
	found, differs := map[int]bool{}, false
	for _, node := range view.Nodes {
		env := launch.RankEnv(node.Env, view.Launch.Exports)
		version := nccl.Version(node)
		if version == "" {
			return nil
		}
		for _, port := range nccl.HCAPorts(view.Launch, node) {
			if port.LinkLayer != "Ethernet" {
				continue
			}
			index := nccl.GIDIndex(*port.IBPort, env, "")
			if !slices.ContainsFunc(port.GIDs, func(g facts.GID) bool { return g.Index == index && nccl.IsRoCEv2(g) }) {
				return nil
			}
			found[index] = true
			differs = differs || nccl.GIDIndex(*port.IBPort, env, version) != index
		}
	}
	if len(found) != 1 || !differs {
		return nil
	}
	for index := range found {
		return []checks.AdvisedEnv{{Name: "NCCL_IB_GID_INDEX", Value: fmt.Sprint(index), Why: fmt.Sprintf(
			"every active port of all %d nodes has its RoCE v2 address there, and this NCCL takes index 0 by itself", len(view.Nodes))}}
	}
	return nil
}

// Interconnects groups the nodes by what NCCL will use there, the largest group first
// and equal ones in hostfile order. A node that did not show enough is in none.
func Interconnects(nodes []facts.Node, prediction launch.Prediction) []checks.Interconnect {
	if prediction.Accelerator == "cpu" {
		return nil // gloo knows but one way
	}
	var groups []checks.Interconnect
	at := map[[2]nccl.Transport]int{}
	transports := nccl.NewTransports(prediction, nodes)
	for i := range nodes {
		node := &nodes[i]
		if !node.Reached {
			continue
		}
		inside, between := transports.Inside(node), transports.Between(node)
		if inside.Name == "" && between.Name == "" {
			continue
		}
		group, seen := at[[2]nccl.Transport{inside, between}]
		if !seen {
			group = len(groups)
			at[[2]nccl.Transport{inside, between}] = group
			groups = append(groups, checks.Interconnect{Inside: inside, Between: between})
		}
		groups[group].Nodes = append(groups[group].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b checks.Interconnect) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}
