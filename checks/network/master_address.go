// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

var MasterAddress = checks.Check{
	ID:       "master-address",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeMasterAddress,
}

func judgeMasterAddress(view checks.View) []checks.Finding {
	first, findings := names.NodeZero(view)
	if first == nil {
		return findings
	}
	meeting := view.Launch.Endpoint(first)
	m := masterPlace{view, first, meeting}
	address, err := netip.ParseAddr(meeting.Host)
	original, refused := view.Launch.AddressRefused(first)
	switch {
	case original != "":
		return []checks.Finding{m.refusesTyped(original, refused)}
	case view.Launch.HasExternalRendezvous():
		return checks.Skipped("the ranks use an external rendezvous service: " + view.Launch.Rendezvous)
	case isNoise(view, first):
		return checks.Skipped("DeepSpeed will use what the login of node 0 prints as the address: see ssh-shell")
	case meeting.Error != "":
		return []checks.Finding{m.finding("the launch has no master address", meeting.Error)}
	case len(view.All) == 1:
		return nil
	case err != nil && meeting.Host != "localhost":
		return m.judgeName()
	case err != nil || address.IsLoopback():
		return []checks.Finding{m.finding(fmt.Sprintf("ranks will meet at %s, where each node reaches only itself", meeting.Host), "")}
	}
	return m.judgeAddress(address.Unmap())
}

// refusesTyped returns the finding for a command that DeepSpeed runs on node 0 and that failed there.
// Such a command is missing, or comes from inetutils or BusyBox, whose hostname has no -I.
func (m masterPlace) refusesTyped(original string, result facts.AddressAnswer) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{m.first.Name},
		Summary:  fmt.Sprintf("`%s` fails on node 0, where DeepSpeed runs it over ssh", result.Command),
		Got:      fmt.Sprintf("exit status %d: %s", result.Exit, result.Problem),
		Want:     "exit status 0, and with -I the addresses of node 0",
		WouldSee: original,
	}
	if result.Exit == launch.NotFound {
		f.Remedy = fix.Install(fix.On, remedy.SystemOf(m.first), "hostname", "hostname")
		return f
	}
	f.Remedy = []fix.Command{fix.On("command -V hostname; hostname; hostname -I").As(fix.Look)}
	if _, commands := m.remedy(); m.view.Launch.MasterAddr == "" {
		f.Remedy = append(f.Remedy, commands...)
	} else {
		f.Remedy = append(f.Remedy, fix.Here("deepspeed --no_ssh_check …").Remark("does not run hostname on node 0").As(fix.Or))
	}
	return f
}

// isNoise reports whether the master address is a word that a start-up file prints.
func isNoise(view checks.View, first *facts.Node) bool {
	if first.SSH == nil {
		return false
	}
	words := strings.Fields(strings.Join(first.SSH.Noise, " "))
	return len(words) > 0 && view.Launch.EndpointHost() == "" && view.Launch.Endpoint(first).Host == words[0]
}

// masterPlace is the endpoint of the ranks' rendezvous, together with node 0.
type masterPlace struct {
	view  checks.View
	first *facts.Node // node 0
	launch.Endpoint
}

func (m masterPlace) judgeAddress(address netip.Addr) []checks.Finding {
	shared := launch.SharedAddresses(m.view.Everywhere())[address] > 1
	holder := m.holder(address)
	planned := proof.Attended(m.view.All, proof.RendezvousOf)
	switch {
	case shared:
		f := m.finding(fmt.Sprintf("ranks will meet at %s, %s", m.place(holder), alsoHeld(m.view, address.String(), []string{m.first.Name})), "each of these nodes calls itself there")
		if nccl.PeerAddress(m.first).Address == m.Host {
			f.Nodes = twins(m.view, m.Host, f.Nodes)
			for _, command := range takeAway(m.view, m.Host) {
				f.Remedy = append(f.Remedy, command.As(fix.Or))
			}
		}
		return []checks.Finding{f}
	case holder != nil && holder != m.first && m.view.Launch.Rendezvous != launch.RendezvousC10d: // with c10d, any node may serve the store
		return []checks.Finding{m.anothers(m.Host, holder)}
	case planned.Together():
		return nil
	}
	switch cutOff, witnesses := m.cutOff(holder, address); {
	case cutOff != "" && (holder != nil || cutOff != noneReaches):
		f := m.finding(fmt.Sprintf("ranks will meet at %s, which %s", m.place(holder), cutOff), "")
		f.Nodes = append(f.Nodes, witnesses...)
		return []checks.Finding{f}
	case holder == nil && (planned.Took > 1 || cutOff == noneReaches):
		node := "node"
		if len(m.view.Nodes) < len(m.view.All) {
			node = "reached node"
		}
		return []checks.Finding{m.finding(fmt.Sprintf("ranks will meet at %s, which is not an address of any %s", m.Host, node), "")}
	case planned.Took > 1, holder != nil && m.isNear(holder, address):
		return nil // other checks report any other cause that separates the nodes
	}
	return []checks.Finding{m.untried()}
}

// holder returns the node that has an address, or nil if no node has it.
func (m masterPlace) holder(address netip.Addr) *facts.Node {
	return names.First(append([]*facts.Node{m.first}, m.view.Nodes...), func(node *facts.Node) bool {
		return slices.Contains(names.AddressesOf(node), address)
	})
}

// remedy returns a better address with the reason for it. It also returns the command that makes
// the ranks use this address.
func (m masterPlace) remedy() (want string, commands []fix.Command) {
	address := nccl.PeerAddress(m.first).Address
	if seen := m.first.PeerRendezvous; seen != nil {
		address, _ = names.SplitEndpoint(seen.Endpoint)
	}
	if apart := remedy.WithHostNetwork(m.first); apart != nil {
		return "an address of node 0 that the other nodes can reach", apart
	}
	if address == "" || address == m.Host {
		return "an address of node 0 that the other nodes can reach", []fix.Command{fix.On("ip -br addr").As(fix.Look), meetAt(m.view, "ADDRESS", m.port()).As(fix.Or)}
	}
	command := meetAt(m.view, address, m.port())
	if m.view.Launch.RdzvEndpoint == launch.StandaloneEndpoint {
		command = command.Remark("replaces --standalone")
	}
	switch tried := proof.Attended(m.view.All, proof.PeerRendezvous); {
	case tried.Proven():
		return fmt.Sprintf("%s: %d of %d nodes met there", address, tried.Met, tried.All), []fix.Command{command}
	case tried.Counted > 1:
		return fmt.Sprintf("%s: %d of %d nodes reached node 0 there", address, tried.Counted, tried.All), []fix.Command{command}
	}
	return address + ": preflight reached node 0 there", []fix.Command{command.Remark("not tested from the other nodes")}
}

// port returns the port of the endpoint, or torch's default port if the endpoint has no port or
// port 0.
func (m masterPlace) port() int {
	if m.view.Launch.Rendezvous == launch.RendezvousC10d {
		return cmp.Or(m.Port, launch.DefaultC10dPort)
	}
	return cmp.Or(m.Port, launch.DefaultMasterPort)
}

// meetAt returns the command that makes the ranks use an address for the rendezvous. If the
// launcher does not pass an address on to the ranks, the command uses another launcher.
func meetAt(view checks.View, address string, port int) fix.Command {
	switch view.Launch.Rendezvous {
	case launch.RendezvousC10d:
		return fix.Here("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s …", fix.Word(text.HostPort(address, port)))
	case launch.RendezvousStatic:
		return fix.Here("torchrun --master_addr=%s --master_port=%s …", fix.Host(address), fix.Number(port))
	}
	changed := view.Launch
	changed.MasterAddr = address
	if changed.EndpointHost() != address {
		return fix.Here("deepspeed --launcher %s --master_addr=%s …   # --launcher %s does not pass an address on", fix.Name(launch.DefaultLauncher), fix.Host(address), fix.Text(changed.Launcher))
	}
	return fix.Here("deepspeed --master_addr=%s …", fix.Host(address))
}

// noneReaches is what cutOff returns if every other node fails.
const noneReaches = "no other node can reach"

// cutOff names the nodes that cannot reach the store because of its address: they reach node 0 only
// at the address that leads to its peers. If that address was not tested, cutOff names all nodes if
// the master address is on a network that only node 0 has. It returns "" for none.
//
// If the named nodes are not the majority, the fault may be theirs. cutOff then returns them as
// witnesses.
func (m masterPlace) cutOff(holder *facts.Node, address netip.Addr) (cutOff string, witnesses []string) {
	others, barred := 0, 0
	var elsewhere []string // nodes that cannot reach this address but reach the other address
	for _, node := range m.view.Everywhere() {
		if node.Rendezvous == nil || node == holder || node == m.first {
			continue
		}
		others++
		if !slices.Contains([]facts.Hop{facts.HopConnect, facts.HopValidate, facts.HopJoin}, node.Rendezvous.Failed) {
			continue
		}
		barred++
		if proof.IsCounted(node.PeerRendezvous) {
			elsewhere = append(elsewhere, node.Name)
		}
	}
	switch {
	case others > 0 && barred == others && (elsewhere != nil || m.leadsNowhere(holder, address)):
		return noneReaches, nil
	case elsewhere == nil:
		return "", nil
	case 2*len(elsewhere) <= others:
		witnesses = elsewhere
	}
	return hostfile.Fold(elsewhere) + " cannot reach", witnesses
}

// leadsNowhere reports whether only the address can be the cause. For that, the address must be on
// a separate network. If the rendezvous at node 0's other address failed too, the network must also
// exist only inside the machine. Otherwise the port may be the cause.
func (m masterPlace) leadsNowhere(holder *facts.Node, address netip.Addr) bool {
	if holder == nil || m.isNear(holder, address) {
		return false
	}
	held, _, known := names.HolderOf(holder, address.String())
	return m.first.PeerRendezvous == nil || known && isInside(*held)
}

// isNear reports whether an address leads to the holder's peers, or shares a network with an
// address of another node.
func (m masterPlace) isNear(holder *facts.Node, address netip.Addr) bool {
	if remedy.IsApart(holder) {
		return false // the bridges of other machines often have addresses in the same network
	}
	if nccl.PeerAddress(holder).Address == m.Host {
		return true
	}
	network, known := names.NetworkOf(holder, address.String())
	return known && slices.ContainsFunc(m.view.Nodes, func(node *facts.Node) bool {
		return node != holder && slices.ContainsFunc(names.AddressesOf(node), network.Contains)
	})
}

// judgeName checks a master address that is a name, using the addresses to which every node
// resolves the name. A loopback address is harmless on the serving node, because the store listens
// on all addresses.
//
// If the name leads all nodes to an address that no node has, that address may be translated or
// belong to a load balancer. Only a rendezvous shows whether such an address leads to node 0.
func (m masterPlace) judgeName() []checks.Finding {
	planned := proof.Attended(m.view.All, proof.RendezvousOf)
	if planned.Proven() {
		return nil
	}
	home := m.home()
	if home == nil {
		return nil // rendezvous reports that no node serves, or that several nodes do
	}
	resolved := func(node *facts.Node) []string {
		lookup, _ := names.LookupOf(node, m.Host)
		return lookup.Addresses
	}
	place := names.MostlyLedTo(m.view.Nodes, resolved)
	holder := names.First(m.view.Nodes, func(node *facts.Node) bool { return names.LeadsTo(place, node) })
	switch {
	case planned.Together() || place == nil || names.LeadsTo(place, home) || m.isNameOf(home):
		return m.misled(home)
	case holder != nil:
		return []checks.Finding{m.anothers(fmt.Sprintf("%s (%s)", m.Host, strings.Join(place, " ")), holder)}
	case planned.Took > 1:
		return nil
	}
	return []checks.Finding{m.untried()}
}

// misled returns findings for nodes that did not reach the serving node and that resolve the name
// to an address of another machine.
func (m masterPlace) misled(home *facts.Node) []checks.Finding {
	if why, is := names.UnknownTo(m.view.Nodes, m.Host); is && !m.isHostfileName() {
		_, better := m.remedy()
		return []checks.Finding{unknownName(m.view, m.Host, m.Port, why, better)}
	}
	var findings []checks.Finding
	for _, node := range m.view.Everywhere() {
		lookup, asked := names.LookupOf(node, m.Host)
		switch {
		case !asked, proof.IsCounted(node.Rendezvous):
			continue
		case lookup.Unanswered:
			findings = append(findings, names.Unanswered(node)...)
			continue
		case node == home && len(lookup.Addresses) > 0, names.LeadsTo(lookup.Addresses, home):
			continue
		}
		if m.isHostfileName() {
			return checks.Skipped(m.Host + " does not lead to node 0 everywhere: see host-names")
		}
		findings = append(findings, m.wrongName(node, lookup, home))
	}
	return findings
}

// unknownName returns the finding for a master address or endpoint that no node resolves, most
// likely a typing error. It names no node, because the launch command is wrong. better holds the
// commands with an address or name that works.
func unknownName[P int | string](view checks.View, host string, port P, why string, better []fix.Command) checks.Finding {
	f := checks.Finding{
		Summary:  fmt.Sprintf("no node can resolve %s, the host name at which the ranks will meet", host),
		Got:      why,
		Want:     "a name that every node resolves: check its spelling in the launch command",
		WouldSee: names.Unresolved(host, port),
		Remedy:   better,
	}
	first, _ := names.NodeZero(view)
	comparesNames := first != nil && (first.Python == nil || first.Python.Torch == nil || !hostfile.Before(first.Python.Torch.Version, "2.0"))
	if first == nil || view.Launch.Rendezvous == launch.RendezvousC10d && !comparesNames {
		return f // torchrun of older releases compares the name only with the hostname
	}
	if address := nccl.PeerAddress(first).Address; text.IsPlain(address) && text.IsPlain(host) {
		line := fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(address), fix.Host(host)).At(checks.NamesOf(view.Everywhere())...)
		f.Remedy = append(f.Remedy, line.Remark("if the name is right and must lead to %s; or add it to DNS", fix.Word(first.Name)).As(fix.Or))
	}
	return f
}

// home returns the only node that will serve the store, or nil if no node or several nodes will.
func (m masterPlace) home() *facts.Node {
	var home *facts.Node
	for _, node := range m.view.Nodes {
		if serves, _ := m.view.Launch.Serves(m.Endpoint, node, m.first); serves && home != nil {
			return nil
		} else if serves {
			home = node
		}
	}
	return home
}

// isNameOf reports whether the endpoint's host is the name that the hostfile gives to a node.
func (m masterPlace) isNameOf(node *facts.Node) bool { return hostfile.Bare(node.Name) == m.Host }

// isHostfileName reports whether host-names already checks the name.
func (m masterPlace) isHostfileName() bool {
	return !m.view.Policy.SwitchesOff("host-names") && slices.ContainsFunc(m.view.All, func(n facts.Node) bool {
		return m.isNameOf(&n)
	})
}

func (m masterPlace) wrongName(node *facts.Node, lookup facts.Lookup, home *facts.Node) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("the master address %s does not lead to node 0", m.Host),
		Got:      strings.Join(lookup.Addresses, " "),
		WouldSee: timedOut(m.Host, m.Port),
	}
	_, f.Remedy = m.remedy()
	if right := names.AddressesOf(home); len(right) > 0 {
		f.Want = right[0].String()
	}
	f.Remedy = append(f.Remedy, names.LookUp(m.Host).As(fix.Look))
	if len(lookup.Addresses) == 0 {
		f.Summary = fmt.Sprintf("the master address %s does not resolve", m.Host)
		f.Got = lookup.Error
		f.WouldSee = names.Unresolved(m.Host, m.Port)
	}
	return f
}

// untried warns about an address that no node has tested.
func (m masterPlace) untried() checks.Finding {
	f := m.finding(fmt.Sprintf("ranks will meet at %s, but no node has tested whether that leads to node 0", m.Host), "")
	f.Verdict = checks.Warn
	return f
}

// anothers returns the finding for a master address that belongs to a node other than the serving
// node.
func (m masterPlace) anothers(place string, holder *facts.Node) checks.Finding {
	f := m.finding(fmt.Sprintf("ranks will meet at %s, an address of %s, but rank 0 runs on %s", place, holder.Name, m.first.Name), "no store listens there")
	first := fix.Note("or put %s first in the hostfile: rank 0 runs on its first host", fix.Host(holder.Name))
	if m.view.Launch.Rendezvous == launch.RendezvousStatic {
		first = fix.Note("or start torchrun with --node_rank=0 on %s", fix.Host(holder.Name))
	}
	f.Remedy = append(f.Remedy, first)
	return f
}

// place returns the address, with the name of the interface that has it.
func (m masterPlace) place(holder *facts.Node) string {
	if holder == nil {
		return m.Host
	}
	if held, _, known := names.HolderOf(holder, m.Host); known {
		return fmt.Sprintf("%s (%s)", m.Host, held.Name)
	}
	return m.Host
}

// finding returns a finding about the master address that suggests a better address.
func (m masterPlace) finding(summary, consequence string) checks.Finding {
	f := checks.Finding{Nodes: []string{m.first.Name}, Summary: summary, Got: strings.Trim(m.Rule+"; "+consequence, "; ")}
	if m.Host != "" {
		f.WouldSee = timedOut(m.Host, m.Port)
	}
	f.Want, f.Remedy = m.remedy()
	return f
}
