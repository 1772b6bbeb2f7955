package checks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// Baseline is an earlier look at the fleet, which it is held against.
type Baseline struct {
	File  string // as the user named it, for the command that writes it anew
	Nodes []facts.Node
}

var drift = Check{
	ID:       "drift",
	Title:    "nothing has changed since the baseline",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionHost},
	Doc: "With --baseline golden.json what a node shows now is compared with what the same node showed when that file was written, fact by fact; " +
		"preflight diff lists the same changes. What belongs together, as all that one upgrade brings, is one finding. A change is an error where it " +
		"breaks launches: another NVIDIA driver, torch, NCCL or protobuf, another MTU, a network interface that has gone or has another name, " +
		"a GPU that has gone, a smaller /dev/shm, and a node that the hostfile has lost. Every other change is a warning, a new node and another machine " +
		"under a known name among them. Nodes that --include, --exclude or --num_nodes leave out, or that a Slurm job or -w does not name, are not missed. The files of " +
		"the launch, name resolution and what the nodes tried of each other are not compared: script-same, host-names and the drills judge these. " +
		"A section that the baseline has not seen is not compared either, and memory or a /dev/shm that differ by less than a hundredth are the same.",
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
	was := byName(baseline.Nodes)
	var findings []Finding
	for _, node := range view.Nodes {
		before, known := was[node.Name]
		switch {
		case !known:
			findings = append(findings, baseline.added(node))
		case !before.Reached:
			findings = append(findings, unknown(node, "the baseline has not seen this node: it was not reached then"))
		default:
			findings = append(findings, unseen(before, node)...)
			findings = append(findings, baseline.changed(view, before, node)...)
		}
	}
	return append(findings, baseline.lost(view)...)
}

func (b *Baseline) added(node *facts.Node) Finding {
	return Finding{
		Verdict: Warn, Nodes: []string{node.Name}, Summary: "new since the baseline",
		Got: "in the fleet", Want: "not in the baseline", Fix: []string{b.anew()},
	}
}

// lost are the nodes of the baseline that this launch should have and has not. Where no
// hostfile says who belongs to the fleet, as in a Slurm job, nobody is missed.
func (b *Baseline) lost(view View) (findings []Finding) {
	if view.Launch.HostsFile == "" {
		return nil
	}
	now := byName(view.All)
	var names []string
	for i := range b.Nodes {
		if now[b.Nodes[i].Name] == nil {
			names = append(names, b.Nodes[i].Name)
		}
	}
	if names == nil {
		return nil
	}
	return []Finding{{
		Nodes: names, Summary: "in the baseline, and in the hostfile no more",
		Got: "not in the hostfile", Want: "in the baseline",
		Fix: []string{"$EDITOR {hostfile}   # add again: " + hostfile.Fold(names), b.anew()},
	}}
}

// anew is the way out where the change was meant.
func (b *Baseline) anew() string {
	return "preflight snapshot -H {hostfile} --normalize -o " + ShellWord(b.File) + "   # if this was meant"
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
		return slices.Contains(notDrifting, sectionOf(c.Fact)) || negligible(c)
	})
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := changeFinding(node, changes)
		f.Summary = "another machine than the baseline's, under the same name"
		f.Fix = []string{"{ssh} hostnamectl   # is it the machine that should be there?", b.anew()}
		return []Finding{f}
	}
	for _, t := range topics {
		var own []Change
		own, changes = parted(changes, t.facts.MatchString)
		if own == nil {
			continue
		}
		f := changeFinding(node, own)
		f.Summary = t.what + " changed since the baseline"
		if t.back != nil {
			f.Fix = t.back(view, node, own)
		}
		f.Fix = append(f.Fix, b.anew())
		findings = append(findings, f)
	}
	return findings
}

// isAnotherMachine tells by the machine id, where both looks saw one.
func isAnotherMachine(c Change) bool { return c.Fact == machineID && !c.came() && !c.gone() }

// parted takes those changes out whose fact belongs to a topic.
func parted(changes []Change, belongs func(string) bool) (own, rest []Change) {
	for _, c := range changes {
		if belongs(c.Fact) {
			own = append(own, c)
		} else {
			rest = append(rest, c)
		}
	}
	return own, rest
}

// mostToldChanges is how many facts of one cause are told.
const mostToldChanges = 8

// changeFinding is one with the facts before and after, and with the weight of the worst.
// Facts told apart by a number alone that changed alike are told once.
func changeFinding(node *facts.Node, changes []Change) Finding {
	f := Finding{Verdict: Warn, Nodes: []string{node.Name}}
	var got, want []string
	alike := map[string]int{} // a change without its numbers → its place in got
	count := map[int]int{}
	for _, c := range changes {
		if breaks(node, c) {
			f.Verdict = Fail
		}
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
		parts = append(slices.Clone(parts[:mostToldChanges]), fmt.Sprintf("and %d facts more: preflight diff lists them", more))
	}
	return strings.Join(parts, ", ")
}
