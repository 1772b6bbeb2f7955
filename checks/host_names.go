package checks

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

var hostNames = Check{
	ID:       "host-names",
	Title:    "every node resolves every hostfile name to one address, and its own name to no loopback",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNames},
	Doc: "Launchers, torchrun and elastic launches hand names around that every node must resolve alike; the address a node was reached at counts for more " +
		"than the majority. A node whose own name is a loopback address (Debian's 127.0.1.1 line) advertises that to gloo's peers: it is warned of, and fails " +
		"where ranks use gloo (cpu) without GLOO_SOCKET_IFNAME. Names that are addresses need no resolver.",
	WouldSee: "The IPv6 network addresses of (HOST, PORT) cannot be retrieved (gai error: -2 - Name or service not known), or a hang in rendezvous",
	Run:      judgeNames,
}

func judgeNames(view View) []Finding {
	table := newNameTable(view)
	var findings []Finding
	findings = append(findings, table.unresolved(view)...)
	findings = append(findings, table.elsewhere()...)
	for _, node := range view.Nodes {
		findings = append(findings, unanswered(node)...)
		findings = append(findings, ownName(view, node)...)
	}
	return findings
}

// unanswered says which names a node got no answer for in time: they may well
// resolve, so nothing is judged by them.
func unanswered(node *facts.Node) []Finding {
	var names []string
	for _, lookup := range node.Names.Lookups {
		if lookup.Unanswered {
			names = append(names, hostfile.Bare(lookup.Name))
		}
	}
	if names == nil {
		return nil
	}
	return []Finding{unknown(node, "names: no answer for "+hostfile.Fold(names)+" in time")}
}

// unresolved says on which node many names do not resolve, and which names
// resolve on few nodes: the side that needs mending gets the line.
func (t nameTable) unresolved(view View) (findings []Finding) {
	nowhere, widely, here := t.lacking(view)
	if nowhere.names != nil {
		findings = append(findings, Finding{
			Verdict:  Warn,
			Nodes:    nowhere.askers,
			Summary:  hostfile.Fold(bareNames(nowhere.names)) + " resolves on no node: a name of ~/.ssh/config here, which is enough for pdsh and for nothing else",
			Want:     "the name in DNS, or in /etc/hosts of every node, once torchrun or an MPI launcher hands it around",
			Remedy:   hostsFix(nowhere.names),
			WouldSee: "nothing under pdsh, which hands around addresses",
		})
	}
	if widely.names != nil {
		findings = append(findings, Finding{
			Nodes:   widely.askers,
			Summary: hostfile.Fold(bareNames(widely.names)) + " cannot be resolved on most nodes",
			Want:    "the name in DNS, or in /etc/hosts of every node",
			Remedy:  hostsFix(widely.names),
		})
	}
	for _, node := range t.observers {
		if lacks := here[node.Name]; lacks != nil {
			findings = append(findings, Finding{
				Nodes:   []string{node.Name},
				Summary: "cannot resolve names that other nodes can",
				Got:     hostfile.Fold(bareNames(lacks)) + ": " + t.errorOf(node.Name, lacks[0].Name),
				Remedy:  hostsFix(lacks),
			})
		}
	}
	return findings
}

// unresolvable is names that do not resolve, and the nodes on which they do not.
type unresolvable struct {
	names  []*facts.Node
	askers []string
}

// lacking parts the names that do not resolve somewhere: those that resolve nowhere and
// hurt nobody, those that most nodes lack, and by node those that it lacks beside few.
func (t nameTable) lacking(view View) (nowhere, widely unresolvable, here map[string][]*facts.Node) {
	here = map[string][]*facts.Node{}
	for _, target := range t.targets {
		asked := t.answers[target.Name]
		if len(asked) == 0 || target.SSH != nil && target.SSH.Cause == "name-unknown" {
			continue // nobody was answered, or ssh-reach says that it is no name at all
		}
		var askers []string
		for _, answer := range asked {
			if len(answer.Addresses) == 0 {
				askers = append(askers, answer.observer)
			}
		}
		switch {
		case len(askers) == len(asked) && isAlias(view, target):
			nowhere.names, nowhere.askers = append(nowhere.names, target), append(nowhere.askers, askers...)
		case 2*len(askers) > len(asked):
			widely.names, widely.askers = append(widely.names, target), append(widely.askers, askers...)
		default:
			for _, observer := range askers {
				here[observer] = append(here[observer], target)
			}
		}
	}
	return nowhere, widely, here
}

// isAlias reports whether a name that no node resolves hurts nobody: its node
// was reached all the same, by a name of the ssh configuration, calls itself
// otherwise, and neither the launcher nor the ranks will hand it around.
func isAlias(view View, target *facts.Node) bool {
	ownName := target.Names != nil && target.Names.Own == hostfile.Bare(target.Name)
	return target.Reached && !ownName && !view.Launch.StartedBy().HandsNames && view.Launch.MasterAddr != hostfile.Bare(target.Name)
}

// elsewhere finds names that lead to another address than for the other nodes.
func (t nameTable) elsewhere() []Finding {
	wrong, findings := t.wrongNames()
	for _, node := range t.observers {
		if wrong[node.Name] == nil {
			continue
		}
		f := Finding{
			Nodes:    []string{node.Name},
			Summary:  "resolves hostfile names to wrong addresses",
			WouldSee: "a hang in rendezvous, or Connection refused: this node calls another machine than it means",
		}
		if slices.ContainsFunc(wrong[node.Name], func(w wrongName) bool { return isLoopback(w.got[0]) }) {
			f.Summary = "takes another node's name for its own loopback"
		}
		var got, want []string
		for _, w := range wrong[node.Name] {
			got = append(got, w.name+" "+strings.Join(w.got, " "))
			want = append(want, w.name+" "+cmp.Or(strings.Join(w.right, " "), "an address of its own"))
		}
		f.Got, f.Want = strings.Join(got, ", "), strings.Join(want, ", ")
		f.Remedy = correctNames(wrong[node.Name])
		findings = append(findings, f)
	}
	return findings
}

func isLoopback(address string) bool {
	first, _, _ := strings.Cut(address, " ")
	ip, err := netip.ParseAddr(first)
	return err == nil && ip.IsLoopback()
}
