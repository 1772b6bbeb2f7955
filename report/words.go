// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

// Words has the sentences that every format uses for one report: the verdict, the nodes of a
// finding, and why a check is unknown.
type Words struct {
	report checks.Report
	fleet  int             // number of nodes, for texts such as "all 4 nodes"; two nodes are named instead
	gone   map[string]bool // nodes that findings name and that are not in the fleet
	// joined maps the index of a finding to the indexes of the findings of drift and expectation
	// that it explains. leader maps each of these to the finding that shows it.
	joined map[int][]int
	leader map[int]int
}

// WordsOf returns the words for a report.
func WordsOf(r checks.Report) Words {
	w := Words{report: r, fleet: len(r.Nodes), gone: map[string]bool{}, joined: map[int][]int{}, leader: map[int]int{}}
	here := map[string]bool{}
	for i := range r.Nodes {
		here[r.Nodes[i].Name] = true
	}
	for _, f := range w.allFindings() {
		for _, name := range f.Nodes {
			if !here[name] {
				w.gone[name] = true
			}
		}
	}
	w.join()
	return w
}

// join finds the findings of drift and expectation that the report shows as part of the finding
// about their cause, so that each fact is one problem. The nodes of the cause must include theirs.
// If only some nodes of a mild cause have a graver finding, the two stay separate.
func (w *Words) join() {
	findings := w.report.Findings
	for _, id := range []string{agreement.Expectation.ID, agreement.Drift.ID} { // a change may break an expectation, which is then its cause
		for i, f := range findings {
			if f.Check != id || len(f.Nodes) == 0 || f.Verdict == checks.Unknown {
				continue
			}
			for _, cause := range w.causesOf(f) {
				at := slices.IndexFunc(findings, func(c checks.Finding) bool {
					mild := checks.Gravity(c.Verdict) > checks.Gravity(f.Verdict)
					return c.Check == cause && c.Verdict != checks.Unknown && includes(c.Nodes, f.Nodes) && !(mild && !includes(f.Nodes, c.Nodes))
				})
				if at < 0 {
					continue
				}
				if leader, under := w.leader[at]; under {
					at = leader
				}
				w.joined[at], w.leader[i] = append(w.joined[at], i), at
				break
			}
		}
	}
}

func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(all, name) })
}

// Shown returns the i-th finding as the report shows it: with what the findings that it explains
// want, and with their commands. It has the gravest of their verdicts. If the finding itself breaks
// the launch, it leaves out their alternatives, such as to change the policy.
func (w Words) Shown(i int) checks.Finding {
	f := w.report.Findings[i]
	check, _ := catalogue.Lookup(f.Check)
	optional := check.Agreed || f.Verdict != checks.Fail
	steps := Steps(f)
	for _, j := range w.joined[i] {
		other := w.report.Findings[j]
		source := "the policy wants"
		if HasChanges(other) {
			source = "the baseline has"
		}
		about := ""
		if len(other.Nodes) < len(f.Nodes) {
			about = " for " + w.briefly(other.Nodes)
		}
		f.Want = strings.TrimPrefix(fmt.Sprintf("%s\n%s%s: %s", f.Want, source, about, other.Want), "\n")
		f.At = cmp.Or(f.At, other.At)
		if checks.Gravity(other.Verdict) < checks.Gravity(f.Verdict) {
			f.Verdict = other.Verdict
		}
		for _, step := range Steps(other) {
			if optional || step.Role != fix.Or {
				steps = union(steps, []Step{step})
			}
		}
	}
	setSteps(&f, steps)
	return f
}

// ShownAt returns the index of the finding that shows the i-th finding, which is i itself unless
// another finding explains it.
func (w Words) ShownAt(i int) int {
	if leader, under := w.leader[i]; under {
		return leader
	}
	return i
}

// allFindings returns the findings of the report, including the waived ones.
func (w Words) allFindings() []checks.Finding {
	waived := text.Map(w.report.Waived, func(one checks.Waived) checks.Finding { return one.Finding })
	return slices.Concat(w.report.Findings, waived)
}

// Nodes returns a set of nodes in folded form: "w[1-3]", or "all 4 nodes".
func (w Words) Nodes(names []string) string {
	switch {
	case len(names) == 0:
		return "the launching machine"
	case len(names) == w.fleet && w.fleet > 2 && !slices.ContainsFunc(names, func(name string) bool { return w.gone[name] }):
		return fmt.Sprintf("all %d nodes", w.fleet)
	}
	return text.Escape(hostfile.Fold(names))
}

// Share returns how many nodes of the fleet a set has, "3 of 8 nodes". It returns "" for one node
// and for all nodes.
func (w Words) Share(names []string) string {
	if len(names) < 2 || len(names) == w.fleet {
		return ""
	}
	return fmt.Sprintf("%d of %s", len(names), text.Plural(w.fleet, "node"))
}

// Whom returns the nodes of a finding, or the line of the policy that it is about.
func (w Words) Whom(f checks.Finding) string {
	if len(f.Nodes) == 0 && f.At != "" {
		return text.Escape(f.At)
	}
	return w.Nodes(f.Nodes)
}

// longestWhom is the maximum number of characters of a node set that a conclusion shows.
const longestWhom = 60

// briefly returns the result of Nodes, or the number of nodes if their names are too long for a
// sentence.
func (w Words) briefly(names []string) string {
	text := w.Nodes(names)
	if len(text) <= longestWhom {
		return text
	}
	return cmp.Or(w.Share(names), text)
}

// shortWhom returns the result of Whom, or the number of nodes if their names are too long for a
// column of a table.
func (w Words) shortWhom(f checks.Finding) string {
	whom := w.Whom(f)
	if len(whom) > longestWhom/2 {
		whom = cmp.Or(w.Share(f.Nodes), whom)
	}
	return whom
}

// Conclusion returns the verdict as a sentence, with the nodes that it concerns.
func (w Words) Conclusion() string {
	r := w.report
	count := w.Counted()
	var breaking, disagreeing []checks.Finding
	for i, itself := range r.Findings {
		f := w.Shown(i)
		if w.ShownAt(i) != i || w.countsElsewhere(itself) || f.Verdict != checks.Fail {
			continue
		}
		if check, _ := catalogue.Lookup(f.Check); check.Agreed || itself.Verdict != checks.Fail {
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
		line = "does not match the policy or the baseline: " + w.problems(disagreeing)
	case r.Verdict == checks.Fail:
		line = "this launch will not work: " + w.problems(breaking)
		if disagreeing != nil {
			line += "; does not match the policy or the baseline: " + w.problems(disagreeing)
		}
	case r.Verdict == checks.Unknown:
		line = "cannot tell whether this launch will work"
	default:
		line = "ready to launch"
		if r.Verdict == checks.Warn {
			line += ", with " + text.Plural(count[checks.Warn], "warning")
		}
	}
	if r.Interrupted {
		line += " (interrupted: this is what is known so far)"
	}
	return line
}

// Remarks returns what a reader must know about the run itself: what this build of preflight cannot
// see, and whether the launching machine stopped or was too busy during the run.
func (w Words) Remarks() (all []string) {
	r := w.report
	if r.CannotSee != "" {
		all = append(all, r.CannotSee)
	}
	if len(r.StoodStill) == 1 {
		all = append(all, fmt.Sprintf("The launching machine stood still for %s during the run, so preflight looked at all nodes a second time. This is the second result.", text.Duration(r.StoodStill[0])))
	}
	if r.Behind > 0 {
		all = append(all, fmt.Sprintf("The launching machine was busy: preflight's own work was %s late in total. Checks that only timed out are unknown.", text.Duration(r.Behind)))
	}
	return all
}

// Counted returns how many findings have each verdict. Findings with the same cause count once.
func (w Words) Counted() map[checks.Verdict]int {
	count := map[checks.Verdict]int{}
	for i, f := range w.report.Findings {
		if w.ShownAt(i) == i && !w.countsElsewhere(f) {
			count[w.Shown(i).Verdict]++
		}
	}
	return count
}

// countsElsewhere reports whether another finding causes this finding and is at least as grave.
func (w Words) countsElsewhere(f checks.Finding) bool {
	causes := w.causesOf(f)
	return causes != nil && slices.ContainsFunc(w.report.Findings, func(other checks.Finding) bool {
		return slices.Contains(causes, other.Check) && checks.Gravity(other.Verdict) <= checks.Gravity(f.Verdict)
	})
}

// causeOf returns the first of causesOf, "" for none.
func (w Words) causeOf(f checks.Finding) string {
	return append(w.causesOf(f), "")[0]
}

// causesOf returns the checks that find the cause of a finding. If a change since a baseline breaks
// an expectation of the policy, that expectation is a cause.
func (w Words) causesOf(f checks.Finding) (ids []string) {
	weighs := func(c checks.Change) bool { return f.Facts == nil || slices.Contains(f.Facts, c.Fact) }
	counts := func(c checks.Change) bool { return weighs(c) && !w.breaksPolicy(c) }
	if f.SharesCause != "" {
		ids = append(ids, f.SharesCause)
	}
	if slices.ContainsFunc(f.Changes, weighs) && !slices.ContainsFunc(f.Changes, counts) {
		ids = append(ids, agreement.Expectation.ID)
	}
	return ids
}

// breaksPolicy reports whether a finding says that a changed fact no longer has the value that the
// policy states.
func (w Words) breaksPolicy(c checks.Change) bool {
	return c.Fact != "" && slices.ContainsFunc(w.report.Findings, func(f checks.Finding) bool {
		return f.Check == agreement.Expectation.ID && slices.Contains(f.Nodes, c.Node) && (f.Fact == c.Fact || slices.Contains(f.Facts, c.Fact))
	})
}

func (w Words) countsItself(f checks.Finding) bool { return !w.countsElsewhere(f) }

// problems returns how many problems there are, and on which nodes.
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

// Summary describes the run in one line: nodes, checks by their outcome, waived findings, how long
// the run took and when it began. The line begins with what this build of preflight cannot see.
func (w Words) Summary() string {
	return strings.TrimPrefix(w.report.CannotSee+"; ", "; ") + w.Overview()
}

// Overview returns the Summary without what this build cannot see. [Words.Remarks] returns that
// part.
func (w Words) Overview() string {
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

// launched returns the parts of a summary about the launch.
func (w Words) launched() (parts []string) {
	p := NewPrediction(w.report.Launch, nil)
	if p.WorldSize > 0 {
		parts = append(parts, text.Plural(p.WorldSize, "rank"))
	}
	if ProgramInSight(w.report) {
		parts = append(parts, strings.TrimSpace(p.program()+" "+w.report.Launch.Script)+" "+p.started())
	}
	return parts
}

// ProgramInSight reports whether anything shows which program starts the launch. Without a launch
// command preflight assumes DeepSpeed. A report for a reader who does not use DeepSpeed should not
// name it.
func ProgramInSight(r checks.Report) bool {
	p := r.Launch
	switch {
	case p.Program != launch.ProgramDeepSpeed:
		return p.Program != ""
	case p.Script != "", p.DeepSpeed != "", p.Config != nil, p.NoSSH:
		return true
	case r.Head != nil && r.Head.Launcher != nil && r.Head.Launcher.DeepSpeed != "":
		return true
	}
	has := func(node facts.Node) bool { return node.Python != nil && node.Python.Packages["deepspeed"] != "" }
	return r.Head != nil && has(*r.Head) || slices.ContainsFunc(r.Nodes, has)
}

// summary returns the number of nodes, the given parts, and what is known about the run.
func (w Words) summary(more ...string) string {
	r := w.report
	parts := []string{text.Plural(len(r.Nodes), "node")}
	if reached := Reached(r); reached < len(r.Nodes) {
		parts = append(parts, fmt.Sprintf("%d reached", reached))
	}
	if carrier := carriedBy(r.Nodes); carrier != "" {
		parts = append(parts, "over "+carrier)
	}
	parts = append(parts, more...)
	parts = append(parts, w.inside()...)
	if n := len(r.Waived); n > 0 {
		parts = append(parts, text.Plural(n, "finding")+" waived")
	}
	if n := r.LeftOut.Differences; n > 0 {
		parts = append(parts, text.Plural(n, "difference")+" between nodes left out")
	}
	if r.Seconds > 0 {
		parts = append(parts, text.Duration(r.Seconds))
	}
	if when := began(r); when != "" {
		parts = append(parts, when)
	}
	if r.Policy != "" { // always, because nothing else shows that a policy file was not found
		parts = append(parts, "policy "+r.Policy)
	}
	return strings.Join(parts, ", ")
}

// tally counts the checks by their outcome: "7 failed, 38 passed, 29 do not apply".
func (w Words) tally() string {
	var counts []string
	count := func(n int, words string) {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, words))
		}
	}
	for _, v := range []checks.Verdict{checks.Fail, checks.Warn, checks.Pass, checks.Unknown} {
		for _, counted := range Counted {
			if counted.Verdict == v {
				count(len(Outcomes(w.report, v)), counted.Word)
			}
		}
	}
	off, waived := len(SwitchedOff(w.report)), 0
	for _, o := range w.report.Checks {
		if o.Verdict == checks.Skip && o.Reason == checks.AllWaived {
			waived++
		}
	}
	idle := len(Outcomes(w.report, checks.Skip)) - off - waived
	count(idle, map[bool]string{true: "does not apply", false: "do not apply"}[idle == 1])
	count(off, checks.SwitchedOff)
	count(waived, "waived")
	return strings.Join(counts, ", ")
}

// unreached returns the names of the nodes that were not reached.
func (w Words) unreached() (names []string) {
	for _, node := range w.report.Nodes {
		if !node.Reached {
			names = append(names, node.Name)
		}
	}
	return names
}

// besidesUnreached returns a reason without its part about nodes that were not reached, because the
// report names those once.
func (w Words) besidesUnreached(reason string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(reason, "; "), func(part string) bool {
		nodes, isIt := strings.CutSuffix(part, " not reached")
		return isIt && nodes == hostfile.Fold(w.unreached())
	}), "; ")
}

// withoutUnreached says how many checks passed although some nodes were not reached, "" if all were
// reached.
func (w Words) withoutUnreached() string {
	names := w.unreached()
	passed := 0
	for _, o := range w.report.Checks {
		if o.Verdict == checks.Pass && w.besidesUnreached(o.Reason) != o.Reason {
			passed++
		}
	}
	if len(names) == 0 || passed == 0 {
		return ""
	}
	others := "node"
	if reached := w.fleet - len(names); reached > 1 {
		others = text.Plural(reached, "node")
	}
	return fmt.Sprintf("%s: %s passed on the other %s only", w.briefly(names), text.Plural(passed, "check"), others)
}

// Usable returns the nodes that a launch could use now, as --good-hosts lists them. If there are none, it
// names the nodes about which something is unknown. It returns "" if the verdict already says that all
// nodes are usable.
func (w Words) Usable() string {
	if w.fleet < 2 || w.report.Verdict == checks.Pass || w.report.Verdict == checks.Warn {
		return ""
	}
	nodes := catalogue.PartitionOf(w.report)
	switch {
	case nodes.Whole != nil:
		return "none, because " + strings.Join(nodes.Whole, ", ") + " fails for the whole launch"
	case nodes.Good == nil && len(nodes.Unknown) > 0:
		return "none yet (unknown: " + w.briefly(nodes.Unknown) + ")"
	case nodes.Good == nil:
		return "none"
	}
	return w.briefly(nodes.Good) + " (--good-hosts FILE writes them into a hostfile)"
}

// failingChecks returns the checks of the problems in their order.
func (w Words) failingChecks() (ids []string) {
	for _, p := range w.Problems(false) {
		if p.Verdict != checks.Unknown {
			ids = append(ids, p.Check)
		}
	}
	return ids
}

// Reached returns the number of nodes that were reached.
func Reached(r checks.Report) int { return len(r.Nodes) - len(Words{report: r}.unreached()) }

// began returns when the run began, "" if unknown. The time is always in UTC, because the reader of
// a saved run may be in another time zone than the nodes.
func began(r checks.Report) string {
	at, err := time.Parse(time.RFC3339, r.Began)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
}

// Launched describes the launch that was checked, and the machine from which the launch starts. It
// returns "" if no launch was predicted.
func Launched(r checks.Report) string {
	if len(r.Launch.Hosts) == 0 {
		return ""
	}
	line := NewPrediction(r.Launch, nil).headline()
	if !ProgramInSight(r) {
		line = text.Plural(len(r.Launch.Hosts), "node")
		if size := r.Launch.WorldSize(); size > 0 {
			line += ", " + text.Plural(size, "rank")
		}
	}
	if r.Launch.Script != "" {
		line += ": " + r.Launch.Script
	}
	switch {
	case r.LaunchedFrom != "":
		line += "; launched from " + r.LaunchedFrom + ", one of the nodes"
	case r.Head != nil && r.Head.Host != nil && !r.Launch.Local:
		line += "; launched from " + r.Head.Host.Hostname + ", which is none of the nodes"
	}
	return line
}

// Promise returns a text that says until when, by whom and why a finding is waived.
func Promise(w checks.Waived) string {
	text := "until " + w.Until
	if w.Owner != "" {
		text += ", by " + w.Owner
	}
	return text + ": " + w.Reason
}

// carriedBy returns the program that reached all nodes instead of ssh, and the container of a pod
// that the program entered. It returns "" for ssh.
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

// inside returns the commands through which preflight entered the containers of the ranks, nil if
// the facts come from the nodes themselves. Facts about ssh always come from the nodes themselves.
func (w Words) inside() (parts []string) {
	var ways []alike
	apart := false // whether logins were tried outside of the containers
	for i := range w.report.Nodes {
		node := &w.report.Nodes[i]
		way := wayInside(node)
		if way != "" {
			apart = apart || node.SSH.Inside != nil
			ways = add(ways, way, node.Name)
		}
	}
	for _, way := range ways {
		part := "facts from inside " + way.text
		if len(way.nodes) < w.fleet {
			part += " on " + w.briefly(way.nodes)
		}
		parts = append(parts, part)
	}
	if apart {
		parts[len(parts)-1] += " (except those about ssh)"
	}
	return parts
}

// wayInside returns the command that enters the container of a node's ranks. {node} replaces the
// node's name, so that the commands of different nodes can be equal. It returns "" if there is no
// such command. If pyxis starts the container, the options of srun name it.
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

// Unknown holds the checks that are unknown on the same nodes for the same reason. A report shows
// one block for them instead of one for each check. The Summary is the reason, and Fix holds the
// commands of all these checks.
type Unknown struct {
	checks.Finding
	Names  string // names of the nodes, folded
	Checks []string
	Parts  []checks.Finding
}

// Unknowns returns the unknown checks, one entry for each set of nodes and reason.
func (w Words) Unknowns() (all []Unknown) {
	unknown := slices.DeleteFunc(slices.Clone(w.report.Findings), func(f checks.Finding) bool { return f.Verdict != checks.Unknown })
	for _, same := range text.GroupBy(unknown, func(f checks.Finding) [2]string { return [2]string{f.Summary, w.Nodes(f.Nodes)} }) {
		one := Unknown{Finding: same.All[0], Names: same.Key[1], Parts: same.All}
		var steps []Step
		one.Notes = nil
		for _, f := range same.All {
			one.Checks = append(one.Checks, f.Check)
			steps, one.Notes = union(steps, Steps(f)), union(one.Notes, f.Notes)
		}
		setSteps(&one.Finding, steps)
		all = append(all, one)
	}
	return all
}

// union returns all with the entries of more that all does not contain.
func union[T comparable](all, more []T) []T {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Reason is why some checks have a verdict.
type Reason struct {
	Verdict checks.Verdict
	Text    string
	Checks  []string
}

// Label returns the name of the reason's verdict in a list.
func (r Reason) Label() string { return labels[r.Verdict] }

// Reasons returns why checks have a verdict. It leaves out checks whose findings are shown.
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

// Others returns the reasons of all checks without a finding: those that passed, are unknown or do
// not apply. It leaves out checks with waived findings, because the report shows these findings.
func (w Words) Others() (all []Reason) {
	for _, v := range []checks.Verdict{checks.Pass, checks.Unknown, checks.Skip} {
		all = append(all, w.Reasons(v)...)
	}
	return slices.DeleteFunc(all, func(one Reason) bool { return one.Text == checks.AllWaived })
}

// Undecided returns the reasons of unknown checks that no finding shows. If no check has a result,
// Undecided returns the reasons for that.
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

// Unfinished returns why the verdict is unknown, one line for each reason.
func (w Words) Unfinished() string {
	lines := text.Map(w.Undecided(), func(one Reason) string { return one.Label() + ": " + strings.Join(one.Checks, ", ") + ": " + one.Text })
	return strings.Join(lines, "\n")
}

// SwitchedOff returns the checks that the user switched off.
func SwitchedOff(r checks.Report) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Reason != checks.SwitchedOff }))
}

func Outcomes(r checks.Report, v checks.Verdict) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Verdict != v }))
}

func idsOf(outcomes []checks.Outcome) []string {
	return text.Map(outcomes, func(o checks.Outcome) string { return o.Check })
}

// NotCovered returns the problems that can end the launch and that no check tested, or "" if there
// are none.
func (w Words) NotCovered() string { return catalogue.NotCovered(w.report.Checks) }
