package checks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var masterAddress = Check{
	ID:       "master-address",
	Title:    "the address the ranks will meet at is node 0's alone and leads there from every node",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Predicts the address that the launcher hands out: --master_addr, else the first word of `hostname -I` on node 0, which is docker0's " +
		"172.17.0.1 where docker came before the network card; torchrun's endpoint where that launches. It has to be an address of the node that serves " +
		"and of no other, no loopback, and to lead there from the peers: the rendezvous drill proves that, the network it is on stands in for it. " +
		"A name has to lead to that node on all nodes.",
	WouldSee: "The client socket has timed out after … while trying to connect to (ADDRESS, PORT), or 1/N clients joined",
	Run:      judgeMasterAddress,
}

func judgeMasterAddress(view View) []Finding {
	first, findings := nodeZero(view)
	if first == nil {
		return findings
	}
	meeting := view.Launch.Meeting(first)
	m := masterPlace{view, first, meeting}
	address, err := netip.ParseAddr(meeting.Host)
	switch {
	case view.Launch.MeetsElsewhere():
		return skip("the ranks meet at a service of their own: " + view.Launch.Rendezvous)
	case isNoise(view, first):
		return skip("what the login of node 0 prints is taken for the address: see ssh-shell")
	case meeting.Error != "":
		return []Finding{m.finding("there is no address for the ranks to meet at", meeting.Error)}
	case len(view.All) == 1:
		return nil
	case err != nil && meeting.Host != "localhost":
		return m.judgeName()
	case err != nil || address.IsLoopback():
		return []Finding{m.finding(fmt.Sprintf("the ranks will meet at %s, where every node finds only itself", meeting.Host), "")}
	}
	return m.judgeAddress(address.Unmap())
}

// isNoise is whether the address is a word that a start-up file prints.
func isNoise(view View, first *facts.Node) bool {
	if first.SSH == nil || len(first.SSH.Noise) == 0 {
		return false
	}
	words := strings.Fields(strings.Join(first.SSH.Noise, " "))
	return len(words) > 0 && view.Launch.MeetingHost() == "" && view.Launch.Meeting(first).Host == words[0]
}

// masterPlace is where the ranks will meet, and who is there.
type masterPlace struct {
	view  View
	first *facts.Node // node 0
	launch.Meeting
}

func (m masterPlace) judgeAddress(address netip.Addr) []Finding {
	shared := launch.SharedAddresses(m.view.Everywhere())[address] > 1
	holder := m.holder(address)
	planned := attended(m.view.All, rendezvousOf)
	switch {
	case shared:
		return []Finding{m.finding(fmt.Sprintf("the ranks will meet at %s, an address that other nodes hold too", m.place(holder)), "each node calls itself there")}
	case holder != nil && !m.mayServe(holder):
		return []Finding{m.anothers(m.Host, holder)}
	case planned.together():
		return nil
	}
	switch cutOff := m.cutOff(holder, address); {
	case cutOff != "":
		return []Finding{m.finding(fmt.Sprintf("the ranks will meet at %s, where %s", m.place(holder), cutOff), "")}
	case holder == nil && planned.took > 1:
		return []Finding{m.finding(fmt.Sprintf("the ranks will meet at %s, which no node %s", m.Host, m.holds()), "")}
	case planned.took > 1, holder != nil && m.isNear(holder, address):
		return nil // what else keeps the nodes apart there has a check of its own
	}
	return []Finding{m.untried()}
}

// mayServe is whether the store may be served on a node: under c10d on any.
func (m masterPlace) mayServe(node *facts.Node) bool {
	return m.view.Launch.Rendezvous == launch.RendezvousC10d || node == m.first
}

// holder is the node that holds an address, nil when none does.
func (m masterPlace) holder(address netip.Addr) *facts.Node {
	for _, node := range append([]*facts.Node{m.first}, m.view.Nodes...) {
		if slices.Contains(addressesOf(node), address) {
			return node
		}
	}
	return nil
}
