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

// Drifted are the changes that drift finds and that a baseline can take: not that a node is not
// reached any more, nor that one is missing where nobody says who belongs to the fleet.
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
				Got: "in the fleet", Want: "in the baseline", Remedy: []fix.Command{baseline.anew(view)},
			})...)
		case !before.Reached:
			findings = append(findings, checks.UnknownFor(node, "the baseline has no facts of this node, which was not reached at that time"))
		default:
			findings = append(findings, left.add(unseenOf(before, node, baseline.NotTried, view.NotTried), node)...)
			findings = append(findings, baseline.changed(view, before, node, &left)...)
		}
	}
	findings = slices.Concat(findings, baseline.renamed(view, was), baseline.lost(view, was), baseline.headChanged(view, &left))
	baseline.accept(view, findings)
	return append(findings, left.finding()...)
}

// changed is one finding for each thing that changed on a node, however many facts tell
// of it, and for each cause that another check has found. When the machine is another one,
// that is the cause of everything.
func (b baseline) changed(view checks.View, before, node *facts.Node, left *uncompared) (findings []checks.Finding) {
	changes := b.judged(view, changesOf(before, node), left)
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := b.finding(view, node, changes)
		f.Changes = f.Changes[:1]
		f.Summary = "another machine than in the baseline, under the same name"
		if former := b.who(idOf(node)); former != "" {
			f.Summary = "this is the machine that the baseline calls " + former
		}
		f.Remedy = slices.Concat([]fix.Command{fix.On("hostnamectl   # is this the right machine?").As(fix.Look)}, f.Remedy, []fix.Command{b.anew(view)})
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

// judged leaves out what is compared elsewhere and what the policy does not want to know.
func (b baseline) judged(view checks.View, changes []checks.Change, left *uncompared) []checks.Change {
	return slices.DeleteFunc(changes, func(c checks.Change) bool {
		if severityOf(view, c) == checks.Off {
			left.note(c.Fact + " (off in the policy)")
			return true
		}
		return slices.Contains(facts.Momentary, compare.SectionOf(c.Fact))
	})
}

// ofTopic is what changed together. Where another check has found why, its fix is the way
// back.
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

// headChanged is what the launching machine launches with, where it is the same machine:
// one section, which changed or was not seen.
func (b baseline) headChanged(view checks.View, left *uncompared) []checks.Finding {
	if changes := b.judged(view, headChanges(b.Head, view.Head), left); len(changes) > 0 {
		f := b.finding(view, view.Head, changes)
		f.Nodes, f.Summary = nil, "the launching machine changed since the baseline"
		return []checks.Finding{f}
	}
	for _, u := range unseenOnHead(b.Head, view.Head) {
		if u.ByChoice {
			left.note(fmt.Sprintf("launching machine: %s (%s)", u.Section, u.Reason))
			continue
		}
		summary := fmt.Sprintf("launching machine: %s: %s", u.Section, u.Reason)
		if u.Earlier {
			summary = "not recorded in the baseline: " + summary
		}
		return []checks.Finding{{Verdict: checks.Unknown, Summary: summary}}
	}
	return nil
}

// isAnotherMachine tells by the machine id, where both looks saw one.
func isAnotherMachine(c checks.Change) bool { return c.Fact == machineID && !c.Came() && !c.Gone() }

// renamed are the nodes whose machines the baseline knows by other names: one finding, for
// a fleet is renamed as a whole.
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
		Got: text.List(now), Want: text.List(then), Remedy: []fix.Command{b.anew(view)},
	})
}

// lost are the nodes of the baseline that the hostfile of this launch has not. A launch on
// fewer nodes works, and the hostfile may be one that leaves out the broken ones. Where no
// hostfile says who belongs to the fleet, as in a Slurm job, nobody is missed.
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
			b.anew(view),
		},
	})
}

// nodeFinding is a finding of nodes that came, went or have another name, as the policy weighs
// that: none where it is off.
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

// accept gives the findings of single changes the way out where these were meant: with the name
// of what changed where that is one fact, for a report of several is read by one such line.
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
	if len(changed) == 1 && !strings.ContainsAny(changed[0], "[*,") { // by which --accept means several
		way = fix.Here("preflight snapshot %s%s --accept %s -o %s   # if you changed it on purpose", b.hosts(view), remedy.Again(view), fix.Word(changed[0]), fix.Path(b.File)).As(fix.Or)
	}
	for i := range findings {
		if isOfFacts(findings[i]) {
			findings[i].Remedy = append(findings[i].Remedy, way)
		}
	}
}

// anew is the way out where all of it was meant: it writes the baseline again.
func (b baseline) anew(view checks.View) fix.Command {
	return fix.Here("preflight snapshot %s%s --normalize -o %s   # if you changed it on purpose: records a new baseline", b.hosts(view), remedy.Again(view), fix.Path(b.File)).As(fix.Or)
}

// hosts are the options that name the same nodes.
func (b baseline) hosts(view checks.View) fix.Arg {
	if view.Launch.HostsFile != "" {
		return fix.Code("-H {hostfile}")
	}
	return fix.Code("-w %s", fix.Word(hostfile.Fold(checks.NamesOf(view.Everywhere()))))
}

// who is the machine of the baseline that had an id, "" where none or several had it.
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

// uncompared is what drift did not compare because nobody was to look at it, each once.
type uncompared []string

// add splits what was not seen on a node: what is a gap becomes findings, the rest is left
// out. A section that is missing now is reported in the words of every other check that misses it.
func (l *uncompared) add(unseen []NotCompared, node *facts.Node) (findings []checks.Finding) {
	for _, u := range unseen {
		reason := fmt.Sprintf("%s: %s", u.Section, u.Reason)
		switch {
		case u.ByChoice:
			l.note(fmt.Sprintf("%s (%s)", u.Section, u.Reason))
			continue
		case u.Earlier:
			reason = "not recorded in the baseline: " + reason
		}
		findings = append(findings, checks.UnknownFor(node, reason))
	}
	return findings
}

func (l *uncompared) note(what string) {
	if !slices.Contains(*l, what) {
		*l = append(*l, what)
	}
}

// finding is what a pass does not hold for, none where all was compared.
func (l uncompared) finding() []checks.Finding {
	if l == nil {
		return nil
	}
	return []checks.Finding{{Verdict: checks.Pass, Summary: "not compared: " + strings.Join(l, ", ")}}
}
