// SPDX-License-Identifier: Apache-2.0

// Package host checks the machine itself: its names, clock, memory, /dev/shm, disks and limits.
//
// It does not check the software on the machine.
package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
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
	findings := append(table.of(looksUp, true).judge(), table.of(looksUp, true).wrongFirst()...)
	for _, f := range table.of(looksUp, false).judge() {
		f.Verdict, f.WouldSee = checks.Warn, "nothing: no rank of this launch resolves the name"
		findings = append(findings, f)
	}
	for _, node := range view.Nodes {
		findings = append(findings, table.unanswered(view, node, looksUp)...)
		findings = append(findings, slow(node)...)
		findings = append(findings, slowInReverse(node)...)
		findings = append(findings, names.Own(view, node)...)
	}
	return findings
}

// slow warns about a node on which a name resolves only after seconds. Every rank looks up several
// names, one after the other.
func slow(node *facts.Node) []checks.Finding {
	var slowest facts.Lookup
	for _, lookup := range node.Names.Lookups {
		if len(lookup.Addresses) > 0 && lookup.Seconds > slowest.Seconds {
			slowest = lookup
		}
	}
	if slowest.Seconds == 0 {
		return nil
	}
	name := hostfile.Bare(slowest.Name)
	f := checks.Finding{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("name lookups take %.0f s or more: a name server does not answer in time", slowest.Seconds),
		Got:      fmt.Sprintf("the lookup of %s took %.1f s", name, slowest.Seconds),
		Want:     "an answer within 2 s",
		WouldSee: "a launch that starts minutes late, or RendezvousTimeoutError",
		Remedy:   []fix.Command{fix.On("time getent ahosts %s; cat /etc/resolv.conf", fix.Host(name)).As(fix.Look)},
	}
	names.ReadHosts(node, true, name, &f)
	return []checks.Finding{f}
}

// slowInReverse warns about a node on which looking up the name of another node's address takes
// seconds. torch uses these names only in its log. If all lookups are slow, [slow] reports that.
func slowInReverse(node *facts.Node) []checks.Finding {
	torch := ""
	if node.Python != nil && node.Python.Torch != nil {
		torch = node.Python.Torch.Version
	}
	reverse := node.Names.Reverse
	if reverse == nil || torch == "" || !hostfile.Before(torch, "2.9") || slow(node) != nil {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Summary:  "reverse lookups are slow, and torch before 2.9 makes one per connection",
		Got:      fmt.Sprintf("the lookup of the name of %s took %.1f s; torch is %s", reverse.Name, reverse.Seconds, torch),
		Want:     "an answer within 2 s",
		WouldSee: "The hostname of the client socket cannot be retrieved. err=-3",
		Remedy: []fix.Command{
			fix.On("time getent hosts %s; cat /etc/resolv.conf", fix.Word(reverse.Name)).As(fix.Look),
			fix.Note("repair the name server, or list the addresses of all nodes in /etc/hosts on {node}"),
		},
	}}
}

// unanswered returns the findings for lookups that got no answer on a node. If the launch needs one
// of the names, the finding is unknown. Otherwise the finding only says that the name service is
// slow or down, and only if another node resolves a name: see lacking.
func (t nameTable) unanswered(view checks.View, node *facts.Node, looksUp func(string) bool) []checks.Finding {
	var late []string
	why := ""
	for _, lookup := range node.Names.Lookups {
		name := hostfile.Bare(lookup.Name)
		switch {
		case !lookup.Unanswered, name == view.Launch.CallBack(view.Head).Name: // launcher-callback checks the second kind of name
		case looksUp(name), name == node.Names.Own && names.LooksUpOwn(view, node), lookup.Error == facts.OutOfTime:
			return names.Unanswered(node)
		case slices.ContainsFunc(t.answers[lookup.Name], answer.resolves):
			late, why = append(late, name), cmp.Or(why, lookup.Error)
		}
	}
	if late == nil {
		return nil
	}
	repair := []fix.Command{fix.Note("repair the name service of {nodes}")}
	if remedy.IsApart(node) { // the container lacks its machine's /etc/hosts, and name servers may not answer its network
		repair = remedy.WithHostNetwork(node)
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{node.Name},
		Summary:  "the node's name service did not answer",
		Got:      strings.TrimSuffix("no answer for "+hostfile.Fold(late)+": "+why, ": "),
		Want:     "an answer for every name",
		WouldSee: "nothing: no rank of this launch resolves these names",
		Remedy:   append([]fix.Command{fix.On("time getent ahosts %s", fix.Host(late[0])).As(fix.Look)}, repair...),
	}}
}

func (t nameTable) judge() []checks.Finding { return append(t.unresolved(), t.elsewhere()...) }

// unresolved returns the findings for names that do not resolve. A name that most nodes cannot
// resolve gets one finding for all these nodes. Any other name is reported under each node that
// cannot resolve it. Each finding names what must be repaired.
func (t nameTable) unresolved() (findings []checks.Finding) {
	widely, here := t.lacking()
	if widely.names != nil {
		findings = append(findings, checks.Finding{
			Nodes:   widely.askers,
			Summary: "most nodes cannot resolve " + hostfile.Fold(bareNames(widely.names)),
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
			f := checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "cannot resolve names that other nodes resolve",
				Got:     hostfile.Fold(bareNames(lacks)) + ": " + reason,
				Want:    "an address for every name",
				Remedy:  hostsFix(lacks),
			}
			names.ReadHosts(node, false, hostfile.Bare(lacks[0].Name), &f)
			findings = append(findings, f)
		}
	}
	return findings
}

type unresolvable struct {
	names  []*facts.Node
	askers []string
}

// lacking sorts names that do not resolve everywhere into two kinds. widely holds names that most
// nodes cannot resolve. here maps each node to the names that only this node and few others cannot
// resolve.
//
// It leaves out names that no rank needs and that no other node resolves. Such a name may stand only
// in ~/.ssh/config of the launching machine, and only the ssh there looks it up.
func (t nameTable) lacking() (widely unresolvable, here map[string][]*facts.Node) {
	here = map[string][]*facts.Node{}
	for _, target := range t.targets {
		asked := t.answers[target.Name]
		if len(asked) == 0 || target.SSH != nil && target.SSH.Cause == "name-unknown" {
			continue // no node got an answer, or ssh-reach already reports the name
		}
		var askers []string
		for _, answer := range asked {
			if len(answer.Addresses) == 0 && !answer.isOwn {
				askers = append(askers, answer.observer)
			}
		}
		switch {
		case !t.lookedUp && !slices.ContainsFunc(asked, answer.resolves):
		case 2*len(askers) > len(asked):
			widely.names, widely.askers = append(widely.names, target), append(widely.askers, askers...)
		default:
			for _, observer := range askers {
				here[observer] = append(here[observer], target)
			}
		}
	}
	return widely, here
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
			WouldSee: "a hang in rendezvous, or Connection refused: this node connects to the wrong machine",
		}
		if slices.ContainsFunc(wrong[node.Name], func(w wrongName) bool { return names.IsLoopback(w.got[0]) }) {
			f.Summary = "resolves another node's name to a loopback address"
		}
		var got, want []string
		for _, w := range wrong[node.Name] {
			got = append(got, w.name+" "+strings.Join(w.got, " "))
			want = append(want, w.name+" "+cmp.Or(strings.Join(w.right, " "), "an address of that node"))
		}
		f.Got, f.Want = strings.Join(got, ", "), strings.Join(want, ", ")
		f.Remedy = correctNames(wrong[node.Name])
		names.ReadHosts(node, true, wrong[node.Name][0].name, &f)
		findings = append(findings, f)
	}
	return findings
}

// wrongFirst returns the warnings for names with several addresses of which the first leads to
// another machine. torch tries the addresses in this order. It goes on at once after a refusal, and
// after the kernel's time limit of two minutes if the address drops packets (seen with torch 2.15).
func (t nameTable) wrongFirst() (findings []checks.Finding) {
	for _, target := range t.targets {
		name := hostfile.Bare(target.Name)
		f := checks.Finding{
			Verdict:  checks.Warn,
			Want:     "an address of that node first",
			WouldSee: "a delay at every connection to " + name + ": two minutes if the first address drops packets",
		}
		for _, a := range t.answers[target.Name] {
			if target.Net == nil || a.isOwn || len(a.Addresses) < 2 || names.LeadsTo(a.Addresses[:1], target) || !names.LeadsTo(a.Addresses, target) {
				continue
			}
			if f.Nodes = append(f.Nodes, a.observer); f.Got == "" {
				f.Got = name + " " + strings.Join(a.Addresses, " ")
				f.Summary = fmt.Sprintf("%s has %d addresses, and the first is not an address of that node", name, len(a.Addresses))
				f.Remedy = []fix.Command{
					names.LookUp(name).As(fix.Look),
					fix.On(`hosts=$(sed -E "/^%s[[:space:]]/s/[[:space:]]%s([[:space:]]|$)/ /" /etc/hosts); echo "$hosts" | sudo tee /etc/hosts; getent ahosts %s`, fix.Pattern(a.Addresses[0]), fix.Pattern(name), fix.Host(name)),
				}
			}
		}
		if f.Nodes != nil {
			findings = append(findings, f)
		}
	}
	return findings
}

type nameTable struct {
	observers []*facts.Node
	targets   []*facts.Node       // hostfile entries that are names and not addresses
	answers   map[string][]answer // the answers for each hostfile entry; nodes that resolved only a sample have no answer for the other entries
	lookedUp  bool                // whether the launch resolves the targets
	byGloo    bool                // whether ranks communicate over gloo only
}

type answer struct {
	observer string // the hostfile entry of the node that resolved the name
	isOwn    bool   // whether the name is the node's own hostname, which names.Own checks
	*facts.Lookup
}

// resolves reports whether a node has an address for the name of another node.
func (a answer) resolves() bool { return !a.isOwn && len(a.Addresses) > 0 }

func newNameTable(view checks.View) nameTable {
	t := nameTable{observers: view.Nodes, answers: map[string][]answer{}, byGloo: !ranks.UsesNCCL(view)}
	t.targets = compare.Without(view.Everywhere(), func(node *facts.Node) bool { return names.IsAddress(hostfile.Bare(node.Name)) })
	for _, node := range view.Nodes {
		for i := range node.Names.Lookups {
			if lookup := &node.Names.Lookups[i]; !lookup.Unanswered {
				t.answers[lookup.Name] = append(t.answers[lookup.Name], answer{node.Name, hostfile.Bare(lookup.Name) == node.Names.Own, lookup})
			}
		}
	}
	return t
}

// of returns a table that contains only names that the launch resolves, or only names that it does
// not resolve.
func (t nameTable) of(looksUp func(name string) bool, lookedUp bool) nameTable {
	t.lookedUp = lookedUp
	t.targets = compare.Without(t.targets, func(target *facts.Node) bool { return looksUp(hostfile.Bare(target.Name)) != lookedUp })
	return t
}

// rightAddresses returns the addresses to which a name should resolve. If an answer contains the
// address at which preflight reached the node, that answer is right. Otherwise the answer of most
// nodes is right. The result is nil if there is neither. groups holds all answers except loopback
// addresses.
func (t nameTable) rightAddresses(target *facts.Node) (right []string, groups []compare.Group) {
	useful := compare.Without(t.answers[target.Name], func(a answer) bool { return len(a.Addresses) == 0 || names.IsLoopback(a.Addresses[0]) })
	for _, g := range text.GroupBy(useful, func(a answer) string { return strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ") }) {
		groups = append(groups, compare.Group{Value: g.Key, Nodes: text.Map(g.All, func(a answer) string { return a.observer })})
	}
	for _, g := range groups {
		addresses := strings.Fields(g.Value)
		if 2*len(g.Nodes) > len(useful) && right == nil {
			right = addresses
		}
		if slices.Contains(addresses, target.Address) {
			return addresses, groups
		}
	}
	if right == nil && len(groups) == 0 && target.Address != "" {
		right = []string{target.Address} // all answers were loopback addresses
	}
	return right, groups
}

func bareNames(nodes []*facts.Node) []string {
	return text.Map(nodes, func(node *facts.Node) string { return hostfile.Bare(node.Name) })
}

// correctNames returns commands that correct names in /etc/hosts. If the right address is unknown,
// it returns a command that shows where the wrong answer comes from.
func correctNames(wrong []wrongName) []fix.Command {
	return fix.Steps(text.Map(wrong[:min(3, len(wrong))], func(w wrongName) fix.Command { return names.Correct(w.name, w.writeDown) })...)
}

type wrongName struct {
	name       string
	got, right []string // addresses; right is empty if only the node itself has an answer
	writeDown  string   // the right address for /etc/hosts, preferably the address at which preflight reached the node
}

func (t nameTable) wrongNames() (wrong map[string][]wrongName, split []checks.Finding) {
	wrong = map[string][]wrongName{} // wrong names by observer
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
				continue // nic-choice checks how gloo uses a node's own name
			}
			if answer.observer != answer.Name || !names.IsLoopback(answer.Addresses[0]) { // names.Own checks a node's own name
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
			commands = append(commands, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(target.Address), fix.Host(hostfile.Bare(target.Name))))
		}
	}
	if len(commands) < len(targets) {
		commands = append(commands, fix.Note("add a line for every other name to /etc/hosts of {nodes}"))
	}
	return fix.Steps(commands...)
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
			if f, isHeldTwice := heldTwice(v, g.Nodes); isHeldTwice {
				findings = append(findings, f)
				continue
			}
			if f, isLed := ledElsewhere(v, g.Nodes); isLed {
				findings = append(findings, f)
				continue
			}
			f := checks.Finding{
				Nodes:   g.Nodes,
				Summary: fmt.Sprintf("%d hostfile entries are the same machine", len(g.Nodes)),
				Got:     "the same boot ID, machine ID and network namespace on " + hostfile.Fold(g.Nodes),
				Want:    "a different machine for every entry",
				Remedy:  duplicateLines(g.Nodes, v),
			}
			if !ranks.UsesNCCL(v) {
				f.Verdict, f.WouldSee = checks.Warn, "no message, but slow steps: the ranks share the CPUs of one machine"
			}
			findings = append(findings, f)
		}
		return findings
	},
}

// heldTwice returns the finding for an entry that led to the machine of another entry, because that
// machine has the addresses of both. The machine calls itself by the name of the other entry.
func heldTwice(v checks.View, same []string) (f checks.Finding, isHeldTwice bool) {
	for _, called := range v.Nodes {
		if !slices.Contains(same, called.Name) || called.Host.Hostname == hostfile.Bare(called.Name) {
			continue
		}
		holder, takeAway := names.AlsoHeld(v, called)
		if holder == nil || !slices.Contains(same, holder.Name) || called.Host.Hostname != hostfile.Bare(holder.Name) {
			continue
		}
		return checks.Finding{
			Nodes:    []string{called.Name, holder.Name},
			Summary:  fmt.Sprintf("%s also has %s, the address of %s", holder.Name, called.Address, called.Name),
			Got:      fmt.Sprintf("the machine that answers at %s calls itself %s", called.Address, called.Host.Hostname),
			Want:     "one machine for every address",
			WouldSee: "the ranks of " + called.Name + " start on " + holder.Name + ", or a hang: each machine's ARP table decides where packets go",
			Remedy:   []fix.Command{takeAway},
		}, true
	}
	return f, false
}

// ledElsewhere returns the finding for an entry that ~/.ssh/config of the launching machine leads to
// the machine of another entry: the nodes look up another address for its name. The machine of that
// address takes no part in the launch.
func ledElsewhere(v checks.View, same []string) (f checks.Finding, isLed bool) {
	for _, called := range v.Nodes {
		name := hostfile.Bare(called.Name)
		if !slices.Contains(same, called.Name) || called.Host.Hostname == name {
			continue
		}
		holder := slices.IndexFunc(v.Nodes, func(n *facts.Node) bool {
			return n != called && slices.Contains(same, n.Name) && n.Address == called.Address && hostfile.Bare(n.Name) == called.Host.Hostname
		})
		var own []string
		for _, asker := range v.Nodes {
			if asker.Names == nil {
				continue
			}
			for _, lookup := range asker.Names.Lookups {
				if hostfile.Bare(lookup.Name) == name {
					own = append(own, lookup.Addresses...)
				}
			}
		}
		if holder < 0 || own == nil || slices.Contains(own, called.Address) {
			continue
		}
		return checks.Finding{
			Nodes:    []string{called.Name},
			Summary:  fmt.Sprintf("ssh on the launching machine leads to %s instead", v.Nodes[holder].Name),
			Got:      fmt.Sprintf("ssh connects to %s, and the nodes look up %s for %s", called.Address, own[0], name),
			Want:     "one machine for every entry",
			WouldSee: "the ranks of " + called.Name + " start on " + v.Nodes[holder].Name + ", and " + called.Name + " takes no part",
			Remedy: []fix.Command{
				fix.Here("ssh -G {node} | grep -i ^hostname; grep -n -i -B5 hostname ~/.ssh/config").As(fix.Look),
				fix.Note("correct HostName of {node} in ~/.ssh/config: the nodes know it as %s", fix.Text(own[0])),
			},
		}, true
	}
	return f, false
}

// duplicateLines returns one command that deletes all entries but the first from the hostfile. It
// must be a single command because line numbers change with each deletion. Hosts that were given
// with -w have no line, so the command excludes them instead.
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
		commands = append(commands, fix.Here("sed -i '%s' {hostfile}   # removes %s: the same machine as %s", fix.Join(";", deletions...), fix.Text(hostfile.Fold(deleted)), fix.Text(names[0])))
	}
	if excluded != nil {
		commands = append(commands, fix.Note("add --exclude %s to the launch command: the same machine as %s", fix.Word(strings.Join(excluded, "@")), fix.Text(names[0])))
	}
	return commands
}
