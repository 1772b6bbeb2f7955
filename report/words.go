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

// Map is what each of some values is turned into.
func Map[V, T any](values []V, into func(V) T) (all []T) {
	for _, value := range values {
		all = append(all, into(value))
	}
	return all
}

// Group is values that have one key.
type Group[K comparable, V any] struct {
	Key K
	All []V
}

// GroupBy puts values that have one key together, in the order in which the keys come.
func GroupBy[K comparable, V any](values []V, key func(V) K) (groups []Group[K, V]) {
	at := map[K]int{}
	for _, value := range values {
		k := key(value)
		i, met := at[k]
		if !met {
			i = len(groups)
			at[k] = i
			groups = append(groups, Group[K, V]{Key: k})
		}
		groups[i].All = append(groups[i].All, value)
	}
	return groups
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
