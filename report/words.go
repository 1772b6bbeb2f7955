// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Words is what every format says of one report in the same words: the verdict as a
// sentence, whom a finding is about, and why a check is unknown.
type Words struct {
	report checks.Report
	fleet  int             // how many nodes there are, to say "all 4 nodes"; two are named
	gone   map[string]bool // nodes that findings name and the fleet has not
}

// WordsOf are the words for a report.
func WordsOf(r checks.Report) Words {
	w := Words{report: r, fleet: len(r.Nodes), gone: map[string]bool{}}
	here := map[string]bool{}
	for i := range r.Nodes {
		here[r.Nodes[i].Name] = true
	}
	findings := slices.Clone(r.Findings)
	for _, waived := range r.Waived {
		findings = append(findings, waived.Finding)
	}
	for _, f := range findings {
		for _, name := range f.Nodes {
			if !here[name] {
				w.gone[name] = true
			}
		}
	}
	return w
}

// verdicts are the words for them, each in capitals, so that logs can be searched.
var verdicts = map[checks.Verdict]string{
	checks.Fail: "FAIL", checks.Warn: "WARN", checks.Unknown: "UNKNOWN", checks.Pass: "PASS", checks.Skip: "SKIP",
}

// Word is a verdict in capitals: "FAIL".
func Word(v checks.Verdict) string { return verdicts[v] }

// Nodes folds a node set for a heading.
func (w Words) Nodes(names []string) string {
	switch {
	case len(names) == 0:
		return "the launching machine"
	case len(names) == w.fleet && w.fleet > 2 && !slices.ContainsFunc(names, func(name string) bool { return w.gone[name] }):
		return fmt.Sprintf("all %d nodes", w.fleet)
	}
	return text.Escape(hostfile.Fold(names))
}

// Share is how many of the fleet's nodes some are, "3 of 8 nodes", and "" of one and of all,
// where their names say it.
func (w Words) Share(names []string) string {
	if len(names) < 2 || len(names) == w.fleet {
		return ""
	}
	return fmt.Sprintf("%d of %s", len(names), text.Plural(w.fleet, "node"))
}

// Whom a finding is about: its nodes, or the line of the policy that it is about.
func (w Words) Whom(f checks.Finding) string {
	if len(f.Nodes) == 0 && f.At != "" {
		return text.Escape(f.At)
	}
	return w.Nodes(f.Nodes)
}

// longestWhom is how many characters of a node set stand in a conclusion.
const longestWhom = 60

// briefly is Nodes, or how many they are where their names would drown the sentence.
func (w Words) briefly(names []string) string {
	text := w.Nodes(names)
	if len(text) <= longestWhom {
		return text
	}
	return cmp.Or(w.Share(names), text)
}

// Conclusion is the verdict as a sentence, and whom it is about.
func (w Words) Conclusion() string {
	r := w.report
	count := w.Counted()
	var breaking, disagreeing []checks.Finding
	for _, f := range r.Findings {
		if w.countsElsewhere(f) || f.Verdict != checks.Fail {
			continue
		}
		if check, _ := catalogue.Lookup(f.Check); check.Agreed {
			disagreeing = append(disagreeing, f)
		} else {
			breaking = append(breaking, f)
		}
	}
	var line string
	switch {
	case r.Verdict == checks.Fail && count[checks.Fail] == 0:
		line = text.Plural(count[checks.Warn], "warning") + ", and --strict makes warnings fail"
	case r.Verdict == checks.Fail && breaking == nil:
		line = "not as agreed: " + w.problems(disagreeing)
	case r.Verdict == checks.Fail:
		line = "this launch will not work: " + w.problems(breaking)
		if disagreeing != nil {
			line += "; not as agreed: " + w.problems(disagreeing)
		}
	case r.Verdict == checks.Unknown:
		line = "cannot tell whether this launch will work"
	default:
		line = "ready to launch"
		if r.Verdict == checks.Warn {
			line += ", with " + text.Plural(count[checks.Warn], "warning")
		}
	}
	if len(r.StoodStill) == 1 {
		line += fmt.Sprintf(" (the launching machine stood still for %s meanwhile: this is of a second look)", text.Duration(r.StoodStill[0]))
	}
	if r.Behind > 0 {
		line += fmt.Sprintf(" (the launching machine is busy: it came late to its own work by %s in all, and what only did not answer in time is unknown)", text.Duration(r.Behind))
	}
	if r.Interrupted {
		line += " (interrupted: this is what is known so far)"
	}
	return line
}

// Counted is how many findings there are of each verdict, one cause counted once.
func (w Words) Counted() map[checks.Verdict]int {
	count := map[checks.Verdict]int{}
	for _, f := range w.report.Findings {
		if !w.countsElsewhere(f) {
			count[f.Verdict]++
		}
	}
	return count
}

// countsElsewhere is whether another finding tells of the cause of one, and is as grave.
func (w Words) countsElsewhere(f checks.Finding) bool {
	return f.SharesCause != "" && slices.ContainsFunc(w.report.Findings, func(other checks.Finding) bool {
		return other.Check == f.SharesCause && checks.Gravity(other.Verdict) <= checks.Gravity(f.Verdict)
	})
}

// problems says how many there are, and on which of the fleet's nodes.
func (w Words) problems(found []checks.Finding) string {
	var names []string
	for _, node := range w.report.Nodes {
		if slices.ContainsFunc(found, func(f checks.Finding) bool { return slices.Contains(f.Nodes, node.Name) }) {
			names = append(names, node.Name)
		}
	}
	text := text.Plural(len(found), "problem")
	if len(names) > 0 {
		text += " on " + w.briefly(names)
	}
	return text
}

// Summary counts nodes, checks and what is waived, and says how long the run took and
// when it was.
func (w Words) Summary() string {
	var counts []string
	for _, v := range Counted {
		if n := len(Outcomes(w.report, v.Verdict)); n > 0 {
			counts = append(counts, text.Plural(n, "check")+" "+v.Word)
		}
	}
	if n := len(SwitchedOff(w.report)); n > 0 {
		counts = append(counts, fmt.Sprintf("%d switched off", n))
	}
	return w.summary(counts...)
}

// launched is what a summary says of the launch that was judged.
func (w Words) launched() (parts []string) {
	p := NewPrediction(w.report.Launch, nil)
	if p.WorldSize > 0 {
		parts = append(parts, text.Plural(p.WorldSize, "rank"))
	}
	if p.Program != "" {
		parts = append(parts, strings.TrimSpace(p.program()+" "+w.report.Launch.Script)+" "+p.started())
	}
	return parts
}

// summary says what this build of preflight cannot see, counts the nodes and says what is
// given besides.
func (w Words) summary(more ...string) string {
	r := w.report
	blind := ""
	if r.CannotSee != "" {
		blind = r.CannotSee + "; "
	}
	parts := []string{text.Plural(len(r.Nodes), "node")}
	if by := carriedBy(r.Nodes); by != "" {
		parts = append(parts, "looked at by "+by)
	}
	if reached := Reached(r); reached < len(r.Nodes) {
		parts = append(parts, fmt.Sprintf("%d reached", reached))
	}
	parts = append(parts, more...)
	parts = append(parts, w.inside()...)
	if n := len(r.Waived); n > 0 {
		parts = append(parts, text.Plural(n, "finding")+" waived")
	}
	if n := r.LeftOut.Differences; n > 0 {
		parts = append(parts, "no room for "+text.Plural(n, "difference")+" between nodes")
	}
	if r.Seconds > 0 {
		parts = append(parts, text.Duration(r.Seconds))
	}
	if when := began(r); when != "" {
		parts = append(parts, when)
	}
	if r.Policy != "" { // in every text: a file that was not found leaves no other trace
		parts = append(parts, "policy "+r.Policy)
	}
	return blind + strings.Join(parts, ", ")
}

// Counted are the verdicts whose checks are counted, in their order.
var Counted = []struct {
	Verdict checks.Verdict
	Word    string
}{{checks.Pass, "passed"}, {checks.Fail, "failed"}, {checks.Warn, "warned"}, {checks.Unknown, "unknown"}}

// Reached is how many nodes were.
func Reached(r checks.Report) (reached int) {
	for _, node := range r.Nodes {
		if node.Reached {
			reached++
		}
	}
	return reached
}

// began is when the run began, in UTC wherever it is read: the reader of a saved run may
// live in another zone than its nodes. "" where nobody kept it.
func began(r checks.Report) string {
	at, err := time.Parse(time.RFC3339, r.Began)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
}

// Launched says which launch it was that was judged, and where it is typed; "" where none
// was predicted.
func Launched(r checks.Report) string {
	if len(r.Launch.Hosts) == 0 {
		return ""
	}
	text := NewPrediction(r.Launch, nil).headline()
	if r.Launch.Script != "" {
		text += ": " + r.Launch.Script
	}
	switch {
	case r.LaunchedFrom != "":
		text += "; typed on " + r.LaunchedFrom + ", one of the nodes"
	case r.Head != nil && r.Head.Host != nil && !r.Launch.Local:
		text += "; typed on " + r.Head.Host.Hostname + ", none of the nodes"
	}
	return text
}

// Promise is how long a finding is waived, by whom and why.
func Promise(w checks.Waived) string {
	text := "until " + w.Until
	if w.Owner != "" {
		text += ", by " + w.Owner
	}
	return text + ": " + w.Reason
}

// carriedBy is what took us to all nodes in place of ssh, and into which of the containers that a
// pod has; "" for ssh.
func carriedBy(nodes []facts.Node) string {
	by, containers := "", []string{}
	for i := range nodes {
		ssh := nodes[i].SSH
		if ssh == nil || ssh.Carrier == "" {
			return ""
		}
		by = ssh.Carrier
		for _, option := range ssh.Options {
			if name, is := strings.CutPrefix(option, "--container="); is && !slices.Contains(containers, name) {
				containers = append(containers, name)
			}
		}
	}
	if len(containers) > 0 {
		by += " in container " + text.Escape(strings.Join(containers, ", "))
	}
	return by
}

// inside says of what the facts are where the ranks run in something on the nodes, none where
// they are the nodes' own. What is said of ssh is the nodes' own all the same.
func (w Words) inside() (parts []string) {
	var ways []alike
	apart := false // a login is the node's own
	for i := range w.report.Nodes {
		node := &w.report.Nodes[i]
		way := wayInside(node)
		if way != "" {
			apart = apart || node.SSH.Inside != nil
			ways = add(ways, way, node.Name)
		}
	}
	for _, way := range ways {
		part := "seen inside " + way.text
		if len(way.nodes) < w.fleet {
			part += " on " + w.briefly(way.nodes)
		}
		parts = append(parts, part)
	}
	if apart {
		parts[len(parts)-1] += " (but for what is said of ssh)"
	}
	return parts
}

// wayInside is the command that enters what the ranks of a node run in, as all nodes have
// it that are named in it; "" where there is none. What pyxis begins, srun's own options say.
func wayInside(node *facts.Node) string {
	if node.SSH == nil {
		return ""
	}
	bare := hostfile.Bare(node.Name)
	var words []string
	for _, option := range node.SSH.Options {
		if node.SSH.Carrier == "srun" && strings.HasPrefix(option, "--container-") {
			words = append(words, text.Quote(option))
		}
	}
	if words != nil {
		words = append([]string{"srun"}, words...)
	}
	for _, word := range node.SSH.Inside {
		words = append(words, text.Quote(strings.ReplaceAll(word, bare, "{node}")))
	}
	return strings.Join(words, " ")
}

// Unknown is checks that could not look at the same nodes for one and the same reason:
// one block of a report, not one a check.
type Unknown struct {
	Reason     string
	Nodes      string // folded
	Checks     []string
	Fix, Notes []string
}

// Unknowns are the findings of checks that could not look, those alike in one.
func (w Words) Unknowns() (all []Unknown) {
	unknown := slices.DeleteFunc(slices.Clone(w.report.Findings), func(f checks.Finding) bool { return f.Verdict != checks.Unknown })
	for _, alike := range text.GroupBy(unknown, func(f checks.Finding) [2]string { return [2]string{f.Summary, w.Nodes(f.Nodes)} }) {
		one := Unknown{Reason: alike.Key[0], Nodes: alike.Key[1]}
		for _, f := range alike.All {
			one.Checks = append(one.Checks, f.Check)
			one.Fix, one.Notes = union(one.Fix, f.Fix), union(one.Notes, f.Notes)
		}
		all = append(all, one)
	}
	return all
}

// union adds those that are not there.
func union(all, more []string) []string {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Reason is why some checks came to one verdict.
type Reason struct {
	Verdict checks.Verdict
	Text    string
	Checks  []string
}

// Label is what a reason's verdict is called in a list.
func (r Reason) Label() string { return labels[r.Verdict] }

var labels = map[checks.Verdict]string{checks.Pass: "passed", checks.Unknown: "unknown", checks.Skip: "skipped"}

// Reasons are why checks came to a verdict, leaving out those whose findings are shown.
func (w Words) Reasons(v checks.Verdict) (all []Reason) {
	shown := map[string]bool{}
	for _, f := range w.report.Findings {
		shown[f.Check] = true
	}
	others := slices.DeleteFunc(slices.Clone(w.report.Checks), func(o checks.Outcome) bool { return o.Verdict != v || shown[o.Check] })
	for _, alike := range text.GroupBy(others, func(o checks.Outcome) string { return o.Reason }) {
		all = append(all, Reason{v, alike.Key, idsOf(alike.All)})
	}
	return all
}

// Others are the checks that nothing is shown of: those that passed, are unknown and did
// not apply. What is waived is shown.
func (w Words) Others() (all []Reason) {
	for _, v := range []checks.Verdict{checks.Pass, checks.Unknown, checks.Skip} {
		all = append(all, w.Reasons(v)...)
	}
	return slices.DeleteFunc(all, func(one Reason) bool { return one.Text == checks.AllWaived })
}

// Undecided are the reasons why checks are unknown that no finding tells, and where
// nothing was judged at all why that is.
func (w Words) Undecided() []Reason {
	all := w.Reasons(checks.Unknown)
	judged := func(o checks.Outcome) bool { return o.Verdict != checks.Skip }
	if slices.ContainsFunc(w.report.Checks, judged) {
		return all
	}
	all = append(all, w.Reasons(checks.Skip)...)
	switchedOff := func(one Reason) bool { return one.Text == checks.SwitchedOff }
	if asked := slices.DeleteFunc(slices.Clone(all), switchedOff); len(asked) > 0 {
		return asked
	}
	return all
}

// Unfinished is why the verdict is unknown, a line a reason.
func (w Words) Unfinished() string {
	lines := text.Map(w.Undecided(), func(one Reason) string { return one.Label() + ": " + strings.Join(one.Checks, ", ") + ": " + one.Text })
	return strings.Join(lines, "\n")
}

// SwitchedOff are the checks that the user wanted not to run.
func SwitchedOff(r checks.Report) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Reason != checks.SwitchedOff }))
}

func Outcomes(r checks.Report, v checks.Verdict) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Verdict != v }))
}

func idsOf(outcomes []checks.Outcome) []string {
	return text.Map(outcomes, func(o checks.Outcome) string { return o.Check })
}

// NotCovered is what can end the launch and nobody looked at, "" for nothing.
func (w Words) NotCovered() string { return catalogue.NotCovered(w.report.Checks) }
