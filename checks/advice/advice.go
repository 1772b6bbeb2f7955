// SPDX-License-Identifier: Apache-2.0

// Package advice returns the environment variables and arguments that this run has proven to work,
// and the transport that the ranks will use.
//
// It only advises settings that a test of this run has tried. It keeps conclusions from facts alone
// separate.
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

// Advise returns settings and arguments that make the launch work, as far as this run has proven
// it. Settings have the form that .deepspeed_env accepts. Nothing is proven if a node was not seen,
// or if a connection to the tested addresses failed.
func Advise(view checks.View) checks.Advice {
	advice := checks.Advice{Env: []checks.AdvisedEnv{}, Args: []string{}}
	view.Nodes = view.Everywhere()
	if len(view.Nodes) < 2 || !all(view.Nodes, func(n *facts.Node) bool { return n.Reached && n.Net != nil }) {
		return advice
	}
	for _, env := range slices.Concat(adviseRails(view), adviseInterfaces(view), adviseCaches(view)) {
		if slices.ContainsFunc(advice.Env, func(given checks.AdvisedEnv) bool { return given.Name == env.Name }) {
			continue // the interfaces of the rails include the interfaces of the ranks
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

// adviseRails returns settings for rails. If only some rails answered, NCCL must use those. If no
// rail answers another rail, NCCL must keep each ring on one rail.
func adviseRails(view checks.View) (advised []checks.AdvisedEnv) {
	if !all(view.Nodes, func(n *facts.Node) bool { return n.Rails != nil }) {
		return nil
	}
	answered := proof.RailsAnswered(view.Nodes)
	on := fmt.Sprintf("all %d nodes answer each other on %s", len(view.Nodes), strings.Join(answered, ", "))
	switch taking := ranks.TakingRails(view, answered); {
	case taking.Value == "":
	case len(answered) < len(proof.RailNames(view.Nodes)):
		advised = append(advised, checks.AdvisedEnv{Name: taking.Name, Value: taking.Value, Why: on + ", but not on every other rail"})
	case taking.Name == "NCCL_SOCKET_IFNAME":
		advised = append(advised, checks.AdvisedEnv{Name: taking.Name, Value: taking.Value, Why: on})
	}
	isFree := func(node *facts.Node) bool { return ranks.Env(view, node).Get("NCCL_CROSS_NIC").Value != "0" }
	if proof.RailsApart(view.Nodes) && len(answered) > 0 && all(view.Nodes, isFree) {
		advised = append(advised, checks.AdvisedEnv{Name: "NCCL_CROSS_NIC", Value: "0", Why: fmt.Sprintf(
			"no rail of the %d nodes answers another rail, but NCCL may lead rings from one rail to another", len(view.Nodes))})
	}
	return advised
}

// adviseInterfaces returns the variables that name the interfaces on which all nodes reached each
// other. If the interfaces that the ranks use by default work, it names those. Otherwise it names
// the interfaces that lead to the peers.
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
			continue // the variable would lead to an address that was not tested
		}
		advised = append(advised, checks.AdvisedEnv{Name: candidate.name, Value: candidate.value, Why: fmt.Sprintf("%s on %s", pairs, spellInterfaces(view.Nodes, wanted))})
	}
	return advised
}

// adviseCaches returns the variables that move a compile cache off NFS if several nodes share it.
// The new directory is on a local disk of each of these nodes.
func adviseCaches(view checks.View) (advised []checks.AdvisedEnv) {
	for _, crowd := range ranks.CrowdedCaches(view) {
		isAdvised := slices.ContainsFunc(advised, func(env checks.AdvisedEnv) bool { return env.Name == crowd.Variable })
		if dir := crowd.Elsewhere(); dir != "" && !isAdvised {
			advised = append(advised, checks.AdvisedEnv{Name: crowd.Variable, Value: dir, Why: fmt.Sprintf(
				"%d nodes would compile into %s, which they share over NFS; this directory is on a local disk of each node", len(crowd.Nodes), crowd.Path)})
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
	return fmt.Sprintf("%s (%d other names on other nodes)", groups[0].Value, len(groups)-1)
}

// adviseMaster returns the argument for the address at which all nodes connected. It returns nil if
// they connected at the launcher's default address.
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
		return nil // with this argument, the launcher would do something other than what was tested
	}
	return []string{argument}
}

// adviseAdapters returns two settings. The first makes NCCL ignore ports that cannot connect to the
// other ports. The second makes NCCL use the RoCE address that newer releases of NCCL find without a
// setting. adviseAdapters returns a setting only if the adapters of all nodes are equal and NCCL's
// default differs from the setting.
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
		return nil // all ports are InfiniBand, so no advice is needed
	}
	if advised := adviseHCA(view, names); advised != nil {
		return advised // no Ethernet port remains, so no index is needed
	}
	return adviseGID(view)
}

// activePorts returns the active ports of a node. It leaves out ports that manage NVSwitches,
// because ib-links reports these.
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

// adviseHCA returns the setting that selects the InfiniBand ports if there are Ethernet ports too.
// Ports of different link layers cannot connect, and NCCL uses both by default.
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
		"these InfiniBand ports are active on all %d nodes; %s is Ethernet, which cannot connect to them, but NCCL would use it too",
		len(view.Nodes), strings.Join(others, ", "))}}
}

// adviseGID returns the GID index that NCCL 2.21 and later finds on every RoCE port of every node.
// It returns this index only if the ranks have an older release, which uses index 0.
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
			"every active port of all %d nodes has its RoCE v2 address at this index, but this NCCL release uses index 0 by default", len(view.Nodes))}}
	}
	return nil
}

// Interconnects groups the nodes by the transports that NCCL will use, the largest group first.
// Groups of equal size keep hostfile order. A node that did not report enough facts is in no group.
func Interconnects(nodes []facts.Node, prediction launch.Prediction) []checks.Interconnect {
	if prediction.Accelerator == "cpu" {
		return nil // gloo has only one transport
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
