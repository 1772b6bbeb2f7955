package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/facts"
)

// Baseline is an earlier look at the fleet, which it is held against.
type Baseline struct {
	File  string // as the user named it, for the command that writes it anew
	Head  *facts.Node
	Nodes []facts.Node
	// Unlisted is whether nobody can tell which of Nodes this launch leaves out and which
	// the hostfile has lost: it lies on another machine.
	Unlisted bool
}

var drift = Check{
	ID:       "drift",
	Title:    "nothing has changed since the baseline",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionHost},
	Doc: "With --baseline golden.json what a node shows now is compared with what the same node showed when that file was written, fact by fact; " +
		"preflight diff lists the same changes. What belongs together, as all that one upgrade brings, is one finding. A change is an error where launches " +
		"may break by it: another NVIDIA driver, torch, NCCL or protobuf, another MTU, a network interface that has gone, has another name or lost its address, " +
		"a GPU that has gone, a smaller /dev/shm, and a node that the hostfile has lost. Every other change is a warning, a new node, one with another name and another machine " +
		"under a known name among them. A waiver names a finding by its first fact. Nodes that --include, --exclude or --num_nodes leave out, or that a Slurm job or -w does not name, are not missed. " +
		"Of the launching machine pdsh, ssh, the other launchers and .deepspeed_env are compared, where it is the same machine. The files of " +
		"the launch, its working directory, name resolution and what the nodes tried of each other are not compared: script-same, workdir-present, host-names and the drills judge these. " +
		"A section that the baseline has not seen is not compared either, and sizes and limits that follow the memory are the same where they differ by less than a hundredth.",
	WouldSee: "a job that ran here last week hangs or fails: something in between has changed, and nobody said so",
	Run:      drifted,
}

// notDrifting are the sections that are not compared: the files of the launch are the
// user's work and rightly change, names are asked for as the hostfile has them, and the
// others are what the nodes tried of each other at that moment.
var notDrifting = []facts.Section{
	facts.SectionFiles, facts.SectionNames, facts.SectionClock, facts.SectionMesh, facts.SectionPeerMesh,
	facts.SectionRendezvous, facts.SectionPeerRendezvous, facts.SectionLogins, facts.SectionThroughput, facts.SectionRehearsal,
}

func drifted(view View) []Finding {
	baseline := view.Policy.Baseline
	if baseline == nil {
		return skip("only with --baseline")
	}
	var findings []Finding
	was := earlier(baseline.Nodes, view.All)
	if len(was) == 0 {
		for _, node := range view.Nodes {
			findings = append(findings, unknown(node, "the baseline knows no node of this launch: is it that of another fleet?"))
		}
		return findings
	}
	for _, node := range view.Nodes {
		before := was[node.Name]
		switch {
		case before == nil:
			findings = append(findings, baseline.added(view, node))
		case !before.Reached:
			findings = append(findings, unknown(node, "the baseline has not seen this node: it was not reached then"))
		default:
			findings = append(findings, unseen(before, node)...)
			findings = append(findings, baseline.changed(view, before, node)...)
		}
	}
	return slices.Concat(findings, baseline.renamed(view, was), baseline.lost(view, was), baseline.headChanged(view))
}

// unseen are the sections that the baseline has and that could not be looked at now, in
// the words of every other check that misses them.
func unseen(before, node *facts.Node) (findings []Finding) {
	for _, section := range slices.Sorted(maps.Keys(node.Missing)) {
		if before.Has(section) && !node.Has(section) && !slices.Contains(notDrifting, section) {
			findings = append(findings, unknown(node, fmt.Sprintf("%s: %s", section, node.Missing[section])))
		}
	}
	return findings
}

// changed is one finding for each thing that changed on a node, however many facts tell
// of it. When the machine is another one, that is the cause of everything.
func (b *Baseline) changed(view View, before, node *facts.Node) (findings []Finding) {
	changes := slices.DeleteFunc(changesOf(before, node), func(c Change) bool {
		return slices.Contains(notDrifting, sectionOf(c.Fact))
	})
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := changeFinding(node, changes)
		f.Summary = "another machine than the baseline's, under the same name"
		if former := b.who(idOf(node)); former != "" {
			f.Summary = "the machine that was " + former + " in the baseline is under this name"
		}
		f.Fix = []string{"{ssh} hostnamectl   # is it the machine that should be there?", b.anew(view)}
		return []Finding{f}
	}
	for _, t := range topicsOf(node) {
		var own []Change
		own, changes = parted(changes, func(c Change) bool { return t.facts.MatchString(c.Fact) })
		if own == nil {
			continue
		}
		f := changeFinding(node, own)
		f.Summary = t.what + " changed since the baseline"
		if t.back != nil {
			f.Fix = t.back(view, node, own)
		}
		f.Fix = append(f.Fix, b.anew(view))
		findings = append(findings, f)
	}
	return findings
}

// headChanged is what the launching machine launches with, where it is the same machine.
func (b *Baseline) headChanged(view View) []Finding {
	changes := headChanges(b.Head, view.Head)
	if changes == nil {
		return nil
	}
	f := changeFinding(view.Head, changes)
	f.Nodes, f.Summary, f.Fix = nil, "the launching machine changed since the baseline", []string{b.anew(view)}
	return []Finding{f}
}

// isAnotherMachine tells by the machine id, where both looks saw one.
func isAnotherMachine(c Change) bool { return c.Fact == machineID && !c.came() && !c.gone() }

// parted takes those changes out that belong together.
func parted(changes []Change, belongs func(Change) bool) (own, rest []Change) {
	for _, c := range changes {
		if belongs(c) {
			own = append(own, c)
		} else {
			rest = append(rest, c)
		}
	}
	return own, rest
}

// mostToldChanges is how many facts of one cause are told.
const mostToldChanges = 8

// changeFinding is one with the facts before and after, the worst first and with its
// weight; that the machine is another one comes before all. A waiver names the finding by that fact. Facts told apart by a number alone that changed
// alike are told once.
func changeFinding(node *facts.Node, changes []Change) Finding {
	bad, harmless := parted(changes, func(c Change) bool { return breaks(node, c) })
	f := Finding{Verdict: Warn, Nodes: []string{node.Name}}
	if bad != nil {
		f.Verdict = Fail
	}
	machine, harmless := parted(harmless, isAnotherMachine)
	changes = slices.Concat(machine, bad, harmless)
	f.Fact = changes[0].Fact
	var got, want []string
	alike := map[string]int{} // a change without its numbers → its place in got
	count := map[int]int{}
	for _, c := range changes {
		key := digits.ReplaceAllString(c.Fact, "0") + "\x00" + string(c.Before) + "\x00" + string(c.After)
		if at, seen := alike[key]; seen {
			count[at]++
			continue
		}
		alike[key] = len(got)
		now, then := inWords(c)
		got, want = append(got, c.Fact+" "+now), append(want, c.Fact+" "+then)
	}
	for at, more := range count {
		got[at] += fmt.Sprintf(" (and %d alike)", more)
		want[at] += fmt.Sprintf(" (and %d alike)", more)
	}
	f.Got, f.Want = shortList(got), shortList(want)
	return f
}

func shortList(parts []string) string {
	if more := len(parts) - mostToldChanges; more > 0 {
		parts = append(slices.Clone(parts[:mostToldChanges]), fmt.Sprintf("and %d more: preflight diff lists them", more))
	}
	return strings.Join(parts, ", ")
}
