// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

type baseline struct{ *checks.Baseline }

var Drift = checks.Check{
	ID:        checks.DriftID,
	Severity:  checks.Error,
	Agreed:    true,
	Needs:     []facts.Section{facts.SectionHost},
	DependsOn: sharers(),
	Run:       drifted,
}

// Drifted returns the changes that the check drift reports and that a baseline can accept. It
// leaves out nodes that are no longer reached. If no hostfile lists the fleet, it also leaves out
// missing nodes.
func Drifted(b checks.Baseline, fleet facts.Fleet, launch launch.Prediction) []checks.Change {
	everybody := launch.HostsFile != "" && !b.Unlisted
	reached := map[string]bool{}
	for i := range fleet.Nodes {
		reached[fleet.Nodes[i].Name] = fleet.Nodes[i].Reached
	}
	return slices.DeleteFunc(Changes(facts.Fleet{Head: b.Head, Nodes: b.Nodes}, fleet), func(c checks.Change) bool {
		gone := c.Fact == "" && c.After == nil
		return gone && !everybody || !gone && c.Fact == "" && !reached[c.Node] || slices.Contains(facts.Momentary, compare.SectionOf(c.Fact))
	})
}

func drifted(view checks.View) []checks.Finding {
	if view.Policy.Baseline == nil {
		return checks.Skipped("runs only with --baseline")
	}
	baseline := baseline{view.Policy.Baseline}
	var findings []checks.Finding
	was := earlier(baseline.Nodes, view.All)
	if len(was) == 0 {
		for _, node := range view.Nodes {
			findings = append(findings, checks.UnknownFor(node, "the baseline has no node of this launch: does it belong to another fleet?"))
		}
		return findings
	}
	var left uncompared
	for _, node := range view.Nodes {
		before := was[node.Name]
		switch {
		case before == nil:
			findings = append(findings, nodeFinding(view, checks.Finding{
				Nodes: []string{node.Name}, Summary: "new since the baseline", Changes: []checks.Change{newNode(node.Name)},
				Got: "in the fleet", Want: "in the baseline", Remedy: []fix.Command{baseline.newBaseline(view)},
			})...)
		case !before.Reached:
			findings = append(findings, checks.UnknownFor(node, "the baseline has no facts of this node, which was not reached at that time"))
		default:
			findings = append(findings, left.add(unseenOf(before, node, baseline.NotTried, view.NotTried), "", []string{node.Name})...)
			findings = append(findings, baseline.changed(view, before, node, &left)...)
		}
	}
	findings = slices.Concat(findings, baseline.renamed(view, was), baseline.lost(view, was), baseline.headChanged(view, &left))
	baseline.accept(view, findings)
	return append(findings, left.finding()...)
}

// changed returns one finding for each topic that changed on a node, and one for each cause that
// another check reports. If the node is another machine now, that is the only finding.
func (b baseline) changed(view checks.View, before, node *facts.Node, left *uncompared) (findings []checks.Finding) {
	changes := b.judged(view, changesOf(before, node), left)
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := b.finding(view, node, changes)
		f.Changes = f.Changes[:1]
		f.Summary = "another machine than in the baseline, under the same name"
		if former := b.who(idOf(node)); former != "" {
			f.Summary = "this is the machine that the baseline calls " + former
		}
		f.Remedy = slices.Concat([]fix.Command{fix.On("hostnamectl   # is this the right machine?").As(fix.Look)}, f.Remedy, []fix.Command{b.newBaseline(view)})
		return []checks.Finding{f}
	}
	for _, t := range topicsOf(node) {
		var own []checks.Change
		own, changes = compare.Split(changes, func(c checks.Change) bool { return t.facts.MatchString(c.Fact) })
		for own != nil {
			var alike []checks.Change
			cause := sharer(view, own[0])
			alike, own = compare.Split(own, func(c checks.Change) bool { return sharer(view, c) == cause })
			findings = append(findings, b.ofTopic(topicChange{view, before, node, alike}, t, cause))
		}
	}
	return findings
}

// judged returns the changes that drift must report. It leaves out changes that other checks
// report, and changes that the policy switches off.
func (b baseline) judged(view checks.View, changes []checks.Change, left *uncompared) []checks.Change {
	return slices.DeleteFunc(changes, func(c checks.Change) bool {
		if severityOf(view, c) == checks.Off {
			left.note(c.Fact + " (off in the policy)")
			return true
		}
		return slices.Contains(facts.Momentary, compare.SectionOf(c.Fact))
	})
}

// ofTopic returns the finding for the changes of a topic. If another check reports the cause, the
// finding has the fix of that check.
func (b baseline) ofTopic(d topicChange, t topic, cause string) checks.Finding {
	f := b.finding(d.view, d.node, d.changes)
	f.Summary, f.SharesCause = t.what+" changed since the baseline", cause
	switch {
	case cause != "":
		found, _ := d.view.Reported(cause, d.node.Name)
		see := fix.Note("repair %s in this report first: a new baseline would record the fault as the normal state", fix.Text(cause))
		f.Remedy = slices.Concat([]fix.Command{see}, found.Remedy, f.Remedy)
	case t.undo != nil:
		f.Remedy = append(t.undo(d), f.Remedy...)
	}
	return f
}

// headChanged returns the finding for the launchers of the launching machine: they changed, or one
// run did not see them. It returns nothing if the two runs used different launching machines.
func (b baseline) headChanged(view checks.View, left *uncompared) []checks.Finding {
	if changes := b.judged(view, headChanges(b.Head, view.Head), left); len(changes) > 0 {
		f := b.finding(view, view.Head, changes)
		f.Nodes, f.Summary = nil, "the launching machine changed since the baseline"
		return []checks.Finding{f}
	}
	return left.add(unseenOnHead(b.Head, view.Head), "launching machine: ", nil)
}

// isAnotherMachine reports whether a change means that the node is another machine: both runs saw a
// machine ID, and the IDs differ.
func isAnotherMachine(c checks.Change) bool { return c.Fact == machineID && !c.Came() && !c.Gone() }

// renamed returns one finding for all nodes whose machines have another name in the baseline. One
// finding is enough because fleets are renamed as a whole.
func (b baseline) renamed(view checks.View, was map[string]*facts.Node) []checks.Finding {
	var names, now, then []string
	var changes []checks.Change
	for _, node := range view.Nodes {
		if before := was[node.Name]; before != nil && before.Name != node.Name {
			names = append(names, node.Name)
			now, then = append(now, node.Name), append(then, before.Name)
			changes = append(changes, otherName(before.Name, node.Name))
		}
	}
	if names == nil {
		return nil
	}
	return nodeFinding(view, checks.Finding{
		Nodes: names, Summary: "the baseline has the same machine under another name", Changes: changes,
		Got: text.List(now), Want: text.List(then), Remedy: []fix.Command{b.newBaseline(view)},
	})
}

// lost returns the finding for nodes of the baseline that the hostfile of this launch lacks. The
// finding is a warning: a launch on fewer nodes works, and the hostfile may leave out broken nodes
// on purpose. Without a hostfile, as in a Slurm job, no node is missing.
func (b baseline) lost(view checks.View, was map[string]*facts.Node) []checks.Finding {
	if view.Launch.HostsFile == "" {
		return nil
	}
	names := gone(b.Nodes, was)
	switch {
	case names == nil:
		return nil
	case b.Unlisted:
		return []checks.Finding{{
			Verdict: checks.Unknown, Nodes: names,
			Summary: "in the baseline but not in this run; whether you excluded it is unknown, because the hostfile cannot be read",
		}}
	}
	return nodeFinding(view, checks.Finding{
		Nodes: names, Summary: "in the baseline, but no longer in the hostfile", Changes: text.Map(names, goneNode),
		Got: "not in the hostfile", Want: "in the hostfile, as in the baseline",
		Remedy: []fix.Command{
			fix.Note("if you removed it on purpose (as --good-hosts does), do nothing, or use the whole hostfile with --exclude %s", fix.Word(strings.Join(names, "@"))),
			fix.Here("$EDITOR {hostfile}   # if it is missing by mistake: add %s", fix.Text(hostfile.Fold(names))).As(fix.Or),
			b.newBaseline(view),
		},
	})
}

// nodeFinding returns a finding for nodes that were added, removed or renamed, with the policy's
// severity. It returns nil if the policy switches the finding off.
func nodeFinding(view checks.View, f checks.Finding) []checks.Finding {
	f.Verdict, f.Weighed = checks.Warn, true
	switch severityOf(view, f.Changes[0]) {
	case checks.Off:
		return nil
	case checks.Error:
		f.Verdict = checks.Fail
	}
	return []checks.Finding{f}
}

// accept adds a command to findings about single facts. The command accepts the change into the
// baseline. It names the fact only if a single fact changed, because one such line serves the whole
// report.
func (b baseline) accept(view checks.View, findings []checks.Finding) {
	isOfFacts := func(f checks.Finding) bool { return f.Fact != "" && !isAnotherMachine(f.Changes[0]) }
	var changed []string
	for _, f := range findings {
		if isOfFacts(f) {
			for _, c := range WithoutEchoes(f.Changes) {
				changed = append(changed, c.Fact)
			}
		}
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	way := fix.Here("preflight snapshot %s%s --accept FACT -o %s   # for each FACT that you changed on purpose", b.hosts(view), remedy.Again(view), fix.Path(b.File)).As(fix.Or)
	if len(changed) == 1 && !strings.ContainsAny(changed[0], "[*,") { // --accept would read such a name as several facts
		way = fix.Here("preflight snapshot %s%s --accept %s -o %s   # if you changed it on purpose", b.hosts(view), remedy.Again(view), fix.Word(changed[0]), fix.Path(b.File)).As(fix.Or)
	}
	for i := range findings {
		if isOfFacts(findings[i]) {
			findings[i].Remedy = append(findings[i].Remedy, way)
		}
	}
}

// newBaseline returns the command that records a new baseline.
func (b baseline) newBaseline(view checks.View) fix.Command {
	return fix.Here("preflight snapshot %s%s --normalize -o %s   # if you changed it on purpose: records a new baseline", b.hosts(view), remedy.Again(view), fix.Path(b.File)).As(fix.Or)
}

// hosts returns the command-line options that select the same nodes as this run.
func (b baseline) hosts(view checks.View) fix.Arg {
	if view.Launch.HostsFile != "" {
		return fix.Code("-H {hostfile}")
	}
	return fix.Code("-w %s", fix.Word(hostfile.Fold(checks.NamesOf(view.Everywhere()))))
}

// who returns the name of the baseline's machine with this ID. It returns "" if no machine or
// several machines have the ID.
func (b baseline) who(id string) (name string) {
	for i := range b.Nodes {
		if idOf(&b.Nodes[i]) != id {
			continue
		}
		if name != "" {
			return ""
		}
		name = b.Nodes[i].Name
	}
	return name
}

// uncompared lists each thing that drift did not compare because a run left it out on purpose.
type uncompared []string

// add returns findings for sections that a run could not see, and records the sections that a run
// left out on purpose. A section that is missing now is reported in the same words as in every
// other check. whose is the beginning of the text about the machine.
func (l *uncompared) add(unseen []NotCompared, whose string, nodes []string) (findings []checks.Finding) {
	for _, u := range unseen {
		reason := fmt.Sprintf("%s%s: %s", whose, u.Section, u.Reason)
		switch {
		case u.ByChoice:
			l.note(fmt.Sprintf("%s%s (%s)", whose, u.Section, u.Reason))
			continue
		case u.Earlier:
			reason = "not recorded in the baseline: " + reason
		}
		findings = append(findings, checks.Finding{Verdict: checks.Unknown, Nodes: nodes, Summary: reason})
	}
	return findings
}

func (l *uncompared) note(what string) {
	if !slices.Contains(*l, what) {
		*l = append(*l, what)
	}
}

// finding returns the remark on a pass that says what was not compared. It returns nil if
// everything was compared.
func (l uncompared) finding() []checks.Finding {
	if l == nil {
		return nil
	}
	return []checks.Finding{{Verdict: checks.Pass, Summary: "not compared: " + strings.Join(l, ", ")}}
}

func undoDriver(d topicChange) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c checks.Change) bool {
		return (c.Fact == "nvml.driver" || c.Fact == "gpu.module") && unquoted(string(c.Before)) != ""
	})
	if at < 0 || d.node.NVML == nil {
		return nil
	}
	kind := ""
	if d.node.GPU != nil && d.node.GPU.OpenModule {
		kind = "open"
	}
	return []fix.Command{remedy.HowInstalled(d.node), remedy.ExactDriver(d.node, unquoted(string(d.changes[at].Before)), kind)}
}

// undoGPUs returns the command that shows the page of gpu-healthy, for failures that no check of
// this run reports. No command undoes other changes of GPUs.
func undoGPUs(d topicChange) []fix.Command {
	failed := func(c checks.Change) bool { return failures.MatchString(c.Fact) && c.Came() }
	if !slices.ContainsFunc(d.changes, failed) {
		return nil
	}
	return []fix.Command{fix.Here("preflight checks gpu-healthy   # how to repair it; before that, a new baseline would record the fault as normal").As(fix.Look)}
}

func undoPackages(d topicChange) []fix.Command {
	var unlike compare.Difference
	for _, c := range d.changes {
		if name, is := strings.CutPrefix(c.Fact, compare.PackagePath("")); is && d.node.Python.Found {
			unlike.Deviations = append(unlike.Deviations, compare.Deviation{Name: name, Want: unquoted(string(c.Before))})
		}
	}
	if unlike.Deviations == nil {
		return nil
	}
	return remedy.PipFix(d.view, unlike)
}

const setMTU = "sudo ip link set dev %s mtu %s   # until the next boot"

// undoMTU returns the commands that set each interface's former MTU. It leaves out interfaces that
// were added or removed.
func undoMTU(d topicChange) (commands []fix.Command) {
	for _, c := range d.changes {
		if !c.Came() && !c.Gone() {
			name := mtuFact.FindStringSubmatch(c.Fact)[1]
			commands = append(commands, fix.On(setMTU, fix.Name(name), fix.Number(sizeIn(c.Before))))
		}
	}
	return commands
}

// undoSHM returns the command that sets the former size of /dev/shm. The size is in bytes, because
// a rounded size would differ from the baseline.
func undoSHM(d topicChange) []fix.Command {
	at := slices.IndexFunc(d.changes, func(c checks.Change) bool { return c.Fact == "shm.size" })
	if at < 0 || !breaks(d.node, d.changes[at]) {
		return nil
	}
	return remedy.SizeSHM(d.node, sizeIn(d.changes[at].Before), "")
}

func undoHostname(d topicChange) []fix.Command {
	return []fix.Command{fix.On("sudo hostnamectl set-hostname %s", fix.Host(unquoted(string(d.changes[0].Before))))}
}

// undoInterfaces returns the command that renames an interface to its former name, which
// NCCL_SOCKET_IFNAME and other settings may use. For a missing interface, it returns the commands
// that help to find it.
//
// Source: Linux 6.2, net/core/dev.c, dev_change_name: since then an interface that is up can be
// renamed.
func undoInterfaces(d topicChange) (commands []fix.Command) {
	renamed := false
	for _, old := range d.before.Net.Interfaces {
		if old.Internal() || interfaceNamed(d.node.Net, old.Name) {
			continue
		}
		at := slices.IndexFunc(d.node.Net.Interfaces, func(i facts.Interface) bool {
			return !interfaceNamed(d.before.Net, i.Name) && oneInterface(old, i)
		})
		if at < 0 {
			commands = append(commands, fix.On("ip -br link; lspci | grep -i net   # does %s exist under another name, and is its adapter present?", fix.Text(remedy.WordOr(old.Name, "it"))).As(fix.Look))
			continue
		}
		now := d.node.Net.Interfaces[at].Name
		commands = append(commands, fix.On("sudo ip link set dev %s name %s", fix.Name(now), fix.Name(old.Name)).Remark("until the next boot; Linux before 6.2 renames an interface only while it is down, so do not type this over an ssh connection through it"))
		renamed = true
	}
	if renamed {
		commands = append(commands, fix.Note("to make it permanent, use a udev rule, a systemd.link file or netplan's match and set-name with the MAC address, and the same name where the address is configured"))
	}
	return commands
}

func interfaceNamed(net *facts.Net, name string) bool {
	return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
}

// oneInterface reports whether two names belong to the same interface. They do if they share a MAC
// address or an IP address. Normalized baselines have no MAC addresses.
func oneInterface(a, b facts.Interface) bool {
	return a.MAC != "" && a.MAC == b.MAC || slices.ContainsFunc(a.IPv4(), func(address string) bool { return slices.Contains(b.IPv4(), address) })
}
