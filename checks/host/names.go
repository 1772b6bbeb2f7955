// SPDX-License-Identifier: Apache-2.0

// Package host judges the machine itself: its names, clock, memory, /dev/shm, disks and limits.
//
// It refuses to judge what runs on it.
package host

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var Names = checks.Check{
	ID:       "host-names",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNames},
	Run:      judgeNames,
}

func judgeNames(view checks.View) []checks.Finding {
	looksUp := view.Launch.LooksUp(view.Everywhere())
	table := newNameTable(view)
	findings := table.of(looksUp, true).judge()
	for _, f := range table.of(looksUp, false).judge() {
		f.Verdict, f.WouldSee = checks.Warn, "nothing: no rank of this launch looks the name up"
		findings = append(findings, f)
	}
	for _, node := range view.Nodes {
		findings = append(findings, unanswered(view, node, looksUp)...)
		findings = append(findings, names.Own(view, node)...)
	}
	return findings
}

// unanswered is what a node got no answer for: not known where the launch looks
// it up, and else no more than a name service that is slow or down.
func unanswered(view checks.View, node *facts.Node, looksUp func(string) bool) []checks.Finding {
	var late []string
	why := ""
	for _, lookup := range node.Names.Lookups {
		name := hostfile.Bare(lookup.Name)
		switch {
		case !lookup.Unanswered, name == view.Launch.CallBack(view.Head).Name: // which launcher-callback judges
		case looksUp(name), name == node.Names.Own && names.LooksUpOwn(view, node), lookup.Error == facts.OutOfTime:
			return names.Unanswered(node)
		default:
			late, why = append(late, name), cmp.Or(why, lookup.Error)
		}
	}
	if late == nil {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Summary:  "its name service gave no answer",
		Got:      strings.TrimSuffix("none for "+hostfile.Fold(late)+": "+why, ": "),
		WouldSee: "nothing: no rank of this launch looks these names up",
		Remedy:   []fix.Command{fix.On("time getent ahosts %s", fix.Host(late[0]))},
	}}
}

func (t nameTable) judge() []checks.Finding { return append(t.unresolved(), t.elsewhere()...) }

// unresolved says on which node many names do not resolve, and which names
// resolve on few nodes: the side to repair gets the line.
func (t nameTable) unresolved() (findings []checks.Finding) {
	nowhere, widely, here := t.lacking()
	if nowhere.names != nil {
		findings = append(findings, checks.Finding{
			Nodes:   nowhere.askers,
			Summary: hostfile.Fold(bareNames(nowhere.names)) + " resolves on no node: a name of ~/.ssh/config here, which is enough for pdsh and for nothing else",
			Want:    "the name in DNS, or in /etc/hosts of every node, once torchrun or an MPI launcher hands it around",
			Remedy:  hostsFix(nowhere.names),
		})
	}
	if widely.names != nil {
		findings = append(findings, checks.Finding{
			Nodes:   widely.askers,
			Summary: hostfile.Fold(bareNames(widely.names)) + " cannot be resolved on most nodes",
			Want:    "the name in DNS, or in /etc/hosts of every node",
			Remedy:  hostsFix(widely.names),
		})
	}
	for _, node := range t.observers {
		if lacks := here[node.Name]; lacks != nil {
			reason := "does not resolve"
			for _, a := range t.answers[lacks[0].Name] {
				if a.observer == node.Name {
					reason = cmp.Or(a.Error, reason)
				}
			}
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "cannot resolve names that other nodes can",
				Got:     hostfile.Fold(bareNames(lacks)) + ": " + reason,
				Remedy:  hostsFix(lacks),
			})
		}
	}
	return findings
}

type unresolvable struct {
	names  []*facts.Node
	askers []string
}

// lacking parts the names that do not resolve somewhere: those that resolve nowhere and
// hurt nobody, those that most nodes lack, and by node those that it lacks beside few.
func (t nameTable) lacking() (nowhere, widely unresolvable, here map[string][]*facts.Node) {
	here = map[string][]*facts.Node{}
	for _, target := range t.targets {
		asked := t.answers[target.Name]
		if len(asked) == 0 || target.SSH != nil && target.SSH.Cause == "name-unknown" {
			continue // nobody was answered, or ssh-reach says that it is no name at all
		}
		var askers []string
		for _, answer := range asked {
			if len(answer.Addresses) == 0 && !answer.isOwn {
				askers = append(askers, answer.observer)
			}
		}
		switch {
		case len(askers) == len(asked) && !t.lookedUp && isAlias(target):
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

// isAlias reports whether a name that no node resolves is one of the ssh configuration: its
// node was reached by it all the same, and calls itself otherwise.
func isAlias(target *facts.Node) bool {
	return target.Reached && (target.Names == nil || target.Names.Own != hostfile.Bare(target.Name))
}

func (t nameTable) elsewhere() []checks.Finding {
	wrong, findings := t.wrongNames()
	for _, node := range t.observers {
		if wrong[node.Name] == nil {
			continue
		}
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  "resolves hostfile names to wrong addresses",
			WouldSee: "a hang in rendezvous, or Connection refused: this node calls another machine than it means",
		}
		if slices.ContainsFunc(wrong[node.Name], func(w wrongName) bool { return names.IsLoopback(w.got[0]) }) {
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

type nameTable struct {
	observers []*facts.Node
	targets   []*facts.Node       // entries of the hostfile that are names, not addresses
	answers   map[string][]answer // by entry; nodes that took a sample did not ask for all
	lookedUp  bool                // whether the launch looks the targets up
	byGloo    bool                // whether ranks talk by gloo alone
}

type answer struct {
	observer string // the entry of the node that was asked
	isOwn    bool   // whether that is its hostname, of which names.Own speaks
	*facts.Lookup
}

func newNameTable(view checks.View) nameTable {
	t := nameTable{observers: view.Nodes, answers: map[string][]answer{}, byGloo: !ranks.UsesNCCL(view)}
	for i := range view.All {
		if _, err := netip.ParseAddr(hostfile.Bare(view.All[i].Name)); err != nil {
			t.targets = append(t.targets, &view.All[i])
		}
	}
	for _, node := range view.Nodes {
		for i := range node.Names.Lookups {
			if lookup := &node.Names.Lookups[i]; !lookup.Unanswered {
				t.answers[lookup.Name] = append(t.answers[lookup.Name], answer{node.Name, hostfile.Bare(lookup.Name) == node.Names.Own, lookup})
			}
		}
	}
	return t
}

// of is the table of the names that the launch looks up, or of the others.
func (t nameTable) of(looksUp func(name string) bool, lookedUp bool) nameTable {
	t.lookedUp = lookedUp
	t.targets = compare.Without(t.targets, func(target *facts.Node) bool { return looksUp(hostfile.Bare(target.Name)) != lookedUp })
	return t
}

// rightAddresses is where a name should lead: what most nodes say or, first,
// what some node says that agrees with the address it was reached at. nil when
// there is neither; groups are all answers, loopbacks left out.
func (t nameTable) rightAddresses(target *facts.Node) (right []string, groups []compare.Group) {
	at := map[string]int{}
	total := 0
	for _, a := range t.answers[target.Name] {
		if len(a.Addresses) == 0 || names.IsLoopback(a.Addresses[0]) {
			continue
		}
		total++
		addresses := strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ")
		i, seen := at[addresses]
		if !seen {
			i, at[addresses] = len(groups), len(groups)
			groups = append(groups, compare.Group{Value: addresses})
		}
		groups[i].Nodes = append(groups[i].Nodes, a.observer)
	}
	for _, g := range groups {
		addresses := strings.Fields(g.Value)
		if 2*len(g.Nodes) > total && right == nil {
			right = addresses
		}
		if slices.Contains(addresses, target.Address) {
			return addresses, groups
		}
	}
	if right == nil && len(groups) == 0 && target.Address != "" {
		right = []string{target.Address} // nobody answered anything but loopback
	}
	return right, groups
}

func bareNames(nodes []*facts.Node) []string {
	return text.Map(nodes, func(node *facts.Node) string { return hostfile.Bare(node.Name) })
}

// correctNames rewrites /etc/hosts so that each name leads where it should, or
// looks where the wrong answer comes from when nobody knows better. The file is
// written in place: in a container it is a mount, which sed -i cannot replace.
func correctNames(wrong []wrongName) []fix.Command {
	var commands []fix.Command
	for _, w := range wrong[:min(3, len(wrong))] {
		if !text.IsPlain(w.name) || !text.IsPlain(w.writeDown) || strings.Contains(w.name, "/") {
			commands = append(commands, names.LookUp(w.name))
			continue
		}
		commands = append(commands, fix.On(`hosts=$(sed -E "s/[[:space:]]%s([[:space:]]|$)/ /" /etc/hosts; echo %s %s); echo "$hosts" | sudo tee /etc/hosts; getent ahosts %[3]s`, fix.Pattern(w.name), fix.Host(w.writeDown), fix.Host(w.name)))
	}
	return commands
}

type wrongName struct {
	name       string
	got, right []string // addresses; right is empty when only the node itself has one
	writeDown  string   // the right address for /etc/hosts: where the node was reached, if that is one
}

func (t nameTable) wrongNames() (wrong map[string][]wrongName, split []checks.Finding) {
	wrong = map[string][]wrongName{} // by observer
	for _, target := range t.targets {
		right, groups := t.rightAddresses(target)
		if right == nil && len(groups) > 1 {
			split = append(split, names.SplitName(hostfile.Bare(target.Name), groups))
			continue
		}
		writeDown := strings.Join(right[:min(1, len(right))], "")
		if slices.Contains(right, target.Address) {
			writeDown = target.Address
		}
		for _, answer := range t.answers[target.Name] {
			if len(answer.Addresses) == 0 || names.Overlap(answer.Addresses, right) || answer.isOwn && t.byGloo && !t.lookedUp {
				continue // what gloo makes of a node's own name is nic-choice's to say
			}
			if answer.observer != answer.Name || !names.IsLoopback(answer.Addresses[0]) { // names.Own judges what a node calls itself
				wrong[answer.observer] = append(wrong[answer.observer], wrongName{hostfile.Bare(target.Name), answer.Addresses, right, writeDown})
			}
		}
	}
	return wrong, split
}

func hostsFix(targets []*facts.Node) []fix.Command {
	const lines = 4
	var commands []fix.Command
	for _, target := range targets {
		if target.Address != "" && text.IsPlain(hostfile.Bare(target.Name)) && len(commands) < lines {
			commands = append(commands, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(target.Address), fix.Host(hostfile.Bare(target.Name))).Inside())
		}
	}
	if len(commands) < len(targets) {
		commands = append(commands, fix.On("sudoedit /etc/hosts"))
	}
	return commands
}

var Distinct = checks.Check{
	ID:       "host-distinct",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHost},
	Volatile: true,
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		var known []*facts.Node
		machineOf := map[*facts.Node]string{}
		for _, node := range v.Nodes {
			if machine, isKnown := launch.Machine(node); isKnown {
				known, machineOf[node] = append(known, node), machine
			} else {
				findings = append(findings, checks.UnknownFor(node, "the machine does not report its boot id or network namespace"))
			}
		}
		for _, g := range compare.GroupBy(known, func(n *facts.Node) string { return machineOf[n] }) {
			if len(g.Nodes) < 2 {
				continue
			}
			f := checks.Finding{
				Nodes:   g.Nodes,
				Summary: fmt.Sprintf("%d entries of the hostfile are one machine", len(g.Nodes)),
				Got:     "boot id, machine id and network namespace of " + hostfile.Fold(g.Nodes) + " are the same",
				Want:    "a machine of its own for every entry",
				Remedy:  duplicateLines(g.Nodes, v),
			}
			if !ranks.UsesNCCL(v) {
				f.Verdict, f.WouldSee = checks.Warn, "nothing but slow steps: ranks on processors share those of one machine"
			}
			findings = append(findings, f)
		}
		return findings
	},
}

// duplicateLines takes out of the hostfile all entries but the first: in one
// command, for lines move up when others go. Who came by -w has no line.
func duplicateLines(names []string, v checks.View) (commands []fix.Command) {
	line := map[string]int{}
	for _, host := range v.Launch.Hosts {
		line[host.Name] = host.Line
	}
	var deletions []fix.Arg
	var deleted, excluded []string
	for _, name := range names[1:] {
		if line[name] == 0 {
			excluded = append(excluded, name)
			continue
		}
		deletions, deleted = append(deletions, fix.Code("%sd", fix.Number(line[name]))), append(deleted, name)
	}
	if deleted != nil {
		commands = append(commands, fix.Here("sed -i '%s' {hostfile}   # leaves out %s: the same as %s", fix.Join(";", deletions...), fix.Text(hostfile.Fold(deleted)), fix.Text(names[0])))
	}
	if excluded != nil {
		commands = append(commands, fix.Here("deepspeed --exclude %s …   # the same as %s", fix.Word(strings.Join(excluded, "@")), fix.Text(names[0])))
	}
	return commands
}
