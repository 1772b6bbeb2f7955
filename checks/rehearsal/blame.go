// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// blame returns the finding for a rehearsal that failed. The order of the rules is the order in
// which evidence counts: what a node reports about itself comes before what others report about
// it. A launch that only was not ready at the time limit may be slow: a rank that waits in vain
// reports an error before that.
func (s attempt) blame() checks.Finding {
	for _, rule := range []func(attempt) *checks.Finding{
		attempt.launcherFirst, attempt.beforeMeeting, attempt.endedFirst, attempt.neverBegan, attempt.unanswered, attempt.failedLater, attempt.launcherLater,
	} {
		if f := rule(s); f != nil {
			return *f
		}
	}
	f := checks.Finding{Verdict: checks.Unknown, Summary: "the time ended before the ranks finished", Got: s.stages(), Want: "every rank finishes", Remedy: []fix.Command{moreTime, inReport}}
	if s.finished() {
		f.Summary, f.Want = "all ranks finished, but the launcher had not ended at the time limit", "the launcher ends"
	}
	if p := s.view.Head.Rehearsed.Program; p != nil && complains.MatchString(telling(p.Output)) {
		f.Got += "; the launcher says: " + telling(p.Output)
	}
	return f
}

// aheadBy is by how many seconds one node must fail before all others to be blamed for their
// failures. Of processes that vanish, those after half a second may have been killed by mpirun.
const (
	aheadBy       = 2.0
	vanishAheadBy = 0.5
)

// launcherFirst blames nodes whose launcher failed without starting a rank, before the launchers
// of the others.
func (s attempt) launcherFirst() *checks.Finding {
	f := s.firstLauncher(func(p program) bool { return p.node != nil && len(s.ranks[p.node]) == 0 })
	if f != nil {
		f.Summary, f.Want = "the launcher fails before it starts a rank", "the launcher starts its ranks"
	}
	return f
}

// firstLauncher returns the finding for the launchers that fail first, among those that a rule
// accepts. preflight itself ends the others later.
func (s attempt) firstLauncher(accepts func(program) bool) *checks.Finding {
	bad := slices.DeleteFunc(s.programs(), func(p program) bool { return p.ExitCode == 0 || p.Problem == "still running" || !accepts(p) })
	if len(bad) == 0 {
		return nil
	}
	slices.SortStableFunc(bad, func(a, b program) int { return cmp.Compare(a.Seconds, b.Seconds) })
	f := &checks.Finding{Got: bad[0].complaint(), Remedy: []fix.Command{inReport}}
	for _, p := range bad {
		if p.node != nil && p.Seconds <= bad[0].Seconds+aheadBy {
			f.Nodes = append(f.Nodes, p.node.Name)
		}
	}
	return f
}

// inReport is the step for a failure whose reason only its output can show.
var inReport = fix.Note("The whole output of the launchers and the stacks of the ranks are in the HTML report: add -o report.html")

// kernelLog is the step for a process that ended and did not say why.
var kernelLog = fix.On("sudo dmesg -T | tail -n 30").Remark("shows whether the kernel ended them").As(fix.Look)

// complaint returns how a launcher ended, and the last line of its output.
func (p program) complaint() string {
	how := cmp.Or(p.Problem, fmt.Sprintf("exit code %d", p.ExitCode))
	if line := telling(p.Output); line != "" {
		how += ": " + line
	}
	return how
}

// complains matches a line that says what went wrong. It does not match the lines of torchrun's
// summary that only say where an error would be found.
var complains = regexp.MustCompile(`(?i)error([^s_]|$)|fatal|cannot|can't|failed|invalid|no such|denied|killed|exitcode`)

// onlyEnds matches a line with which a launcher only says that a process ended: srun, Slurm's own
// message about the step, DeepSpeed's launch.py, pdsh, and torchrun's list of failed ranks.
var onlyEnds = regexp.MustCompile(`^srun: (error: .*(Exited with exit code \d+|Terminated|Killed)$|Terminating )|^slurmstepd: error: \*\*\* STEP .* CANCELLED|exits with return code = [1-9]|ssh exited with exit code|ChildFailedError|failed \(exitcode|exitcode +:`)

// srunEnds matches the line with which srun says that tasks ended, with their nodes.
var srunEnds = regexp.MustCompile(`(?m)^srun: error: (\S+): tasks? [\d,-]+: Exited with exit code`)

// tells returns how much a line says about the cause of a failure.
func tells(line string) int {
	switch {
	case !complains.MatchString(line):
		return 0
	case onlyEnds.MatchString(line):
		return 1
	}
	return 2
}

// isSource matches a line of a program in the traceback of its error.
var isSource = regexp.MustCompile(`^([^\s:]+:)?\s{4,}\S`)

// telling returns the last line of an output that says what went wrong. If no line does, it returns
// the last line that says that a process ended, or else the last line.
//
// Behind srun, it is a line before the first task ended: the other tasks fail later, because they
// wait for that one.
func telling(output string) (line string) {
	if at := srunEnds.FindStringIndex(output); at != nil && tells(telling(output[:at[0]])) > 1 {
		output = output[:at[0]]
	}
	for each := range strings.Lines(output) {
		if isSource.MatchString(each) && line != "" {
			continue
		}
		each = strings.TrimSpace(each)
		_, behind, isLabelled := strings.Cut(each+" ", ": ") // pdsh puts the node's name before each line
		if isEmpty := each == "" || isLabelled && strings.TrimSpace(behind) == ""; !isEmpty && tells(each) >= tells(line) {
			line = each
		}
	}
	if len(line) > 200 {
		line = strings.ToValidUTF8(line[:200], "") + "…"
	}
	return line
}

// beforeMeeting blames nodes whose ranks failed by themselves before they met the others.
func (s attempt) beforeMeeting() *checks.Finding {
	return s.first(func(rank facts.RehearsedRank) bool {
		return failedAlone(rank) || rank.End == facts.EndVanished && isEarly(rank)
	})
}

func failedAlone(rank facts.RehearsedRank) bool { return rank.End == facts.EndFailed && isEarly(rank) }

// isEarly reports whether a rank is in a stage before the ranks meet.
func isEarly(rank facts.RehearsedRank) bool {
	return slices.Contains([]string{"start", facts.StageImport, "device"}, rank.Stage)
}

// first returns the finding for the ranks that fail like the first rank that a rule accepts: in the
// same stage and with the same kind of error.
func (s attempt) first(accepts func(facts.RehearsedRank) bool) *checks.Finding {
	var first *facts.RehearsedRank
	for _, node := range s.view.Nodes {
		for i, rank := range s.ranks[node] {
			if accepts(rank) && (first == nil || rank.At < first.At) {
				first = &s.ranks[node][i]
			}
		}
	}
	if first == nil {
		return nil
	}
	ahead := aheadBy
	if first.End == facts.EndVanished {
		ahead = vanishAheadBy
	}
	f := &checks.Finding{Summary: "a rank fails in the stage " + first.Stage, Got: cmp.Or(first.Error, first.End) + placeOf(first), Want: "every rank finishes", WouldSee: first.Error, Remedy: []fix.Command{inReport}}
	startsWorkers := func(node *facts.Node) bool { return ranks.Workers(s.view, node) > 0 }
	if first.Stage == facts.StageLoader && first.End == facts.EndFailed && !slices.ContainsFunc(s.view.Nodes, startsWorkers) {
		f.Verdict, f.WouldSee = checks.Warn, ranks.OnlyWorkers+first.Error
	}
	if first.End == facts.EndVanished {
		f.Summary, f.Got = "a rank ends without an error message in the stage "+first.Stage, vanished
		f.Remedy = append([]fix.Command{kernelLog}, f.Remedy...)
	}
	for _, node := range s.view.Nodes {
		if slices.ContainsFunc(s.ranks[node], func(rank facts.RehearsedRank) bool {
			return accepts(rank) && rank.Stage == first.Stage && rank.Error == first.Error && rank.At < first.At+ahead
		}) {
			f.Nodes = append(f.Nodes, node.Name)
		}
	}
	if first.End == facts.EndVanished {
		f.Got += s.crash(f.Nodes[0])
	}
	return f
}

// crashed matches what Python says when a signal ends it, and the innermost line of its stack.
var crashed = regexp.MustCompile(`Fatal Python error: ([^\n]+)(?s:.{0,999}?)File ("[^"\n]+", line \d+)`)

// crash returns what the output of a node says about a process that a signal ended, "" for nothing.
func (s attempt) crash(node string) string {
	for _, p := range s.programs() {
		output := p.Output
		if p.node == nil {
			output = s.linesOf(output, []string{node})
		} else if p.node.Name != node {
			continue
		}
		if found := crashed.FindStringSubmatch(output); found != nil {
			return fmt.Sprintf(": %s, in %s", found[1], found[2])
		}
	}
	return ""
}

// vanished is what was measured of a rank that said nothing.
const vanished = "its process is gone"

// placeOf returns where a rank failed: what it reports, or else the innermost line of its stack,
// without which an error such as "Operation not permitted" says nothing. It is "" if the error has
// no place.
func placeOf(rank *facts.RehearsedRank) string {
	switch known := rank.Stage == facts.StageImport || rank.Stage == "files"; {
	case known && rank.Detail != "" && !strings.Contains(rank.Error, rank.Detail):
		return ", in " + rank.Detail
	case known && rank.Detail != "", len(rank.Error) > 80:
		return ""
	}
	lines := text.Map(strings.Split(strings.TrimSpace(rank.Trace), "\n"), strings.TrimSpace)
	for i := len(lines) - 2; i >= 0; i-- {
		if file, where, isFrame := strings.Cut(strings.TrimPrefix(lines[i], "File \""), "\", line "); isFrame && strings.HasPrefix(lines[i], "File ") {
			number, _, _ := strings.Cut(where, ",")
			return fmt.Sprintf(", in %s, line %s: %s", file, number, lines[i+1])
		}
	}
	return ""
}

// endedFirst blames a node whose ranks were terminated before anything else failed, or vanished at
// about that time: the others see the end of a connection earlier than the node sees the process end.
func (s attempt) endedFirst() *checks.Finding {
	earliest := 0.0
	for _, node := range s.view.Nodes {
		for _, rank := range s.ranks[node] {
			if rank.End == facts.EndFailed && (earliest == 0 || rank.At < earliest) {
				earliest = rank.At
			}
		}
	}
	f := s.first(func(rank facts.RehearsedRank) bool {
		return (rank.End == facts.EndTerminated || rank.End == facts.EndAbandoned) && (earliest == 0 || rank.At+aheadBy < earliest) ||
			rank.End == facts.EndVanished && (earliest == 0 || rank.At < earliest+aheadBy)
	})
	switch {
	case f == nil || len(f.Nodes) == len(s.view.Nodes):
		return nil
	case strings.HasPrefix(f.Got, vanished):
		return f
	}
	f.Summary, f.Want, f.WouldSee = "something on the node ends the ranks", "the ranks run until they finish", ""
	f.Remedy = []fix.Command{
		fix.On("ps -eo pid,user,etime,args --sort=-etime | tail -n 30").Remark("shows timeouts, limits and other programs around the login").As(fix.Look),
		kernelLog,
	}
	return f
}

// neverBegan blames nodes without any rank, if other nodes have ranks.
func (s attempt) neverBegan() *checks.Finding {
	var without []string
	began := 0
	for _, node := range s.view.Nodes {
		if began += len(s.ranks[node]); len(s.ranks[node]) == 0 {
			without = append(without, node.Name)
		}
	}
	p := s.view.Head.Rehearsed.Program
	switch {
	case began == 0 && p != nil && (p.ExitCode != 0 || p.Problem != ""):
		return &checks.Finding{Summary: "the launcher fails before it starts a rank", Got: program{p, nil}.complaint(), Want: "the launcher starts its ranks", Remedy: []fix.Command{inReport}}
	case began == 0 || len(without) == 0:
		return nil
	}
	f := &checks.Finding{Nodes: without, Summary: "no rank starts", Want: "ranks start on every node", Remedy: []fix.Command{inReport}}
	if python := s.view.Launch.Interpreter; python != "" {
		f.Remedy = append([]fix.Command{fix.On("%s -c 'import torch'", fix.Path(python)).As(fix.Look)}, f.Remedy...)
	}
	if p != nil {
		f.Got = telling(s.linesOf(p.Output, without))
	}
	return f
}

// linesOf returns the lines of pdsh's output that begin with the name of a node.
func (s attempt) linesOf(output string, nodes []string) string {
	var found []string
	for line := range strings.Lines(output) {
		name, _, isPrefixed := strings.Cut(line, ": ")
		if isPrefixed && slices.ContainsFunc(nodes, func(node string) bool { return hostfile.Bare(node) == name }) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// unanswered blames the node that is an end of every connection without an answer.
func (s attempt) unanswered() *checks.Finding {
	type pair struct{ from, to *facts.Node }
	var pairs []pair
	var got []string
	for _, node := range s.view.Nodes {
		for _, rank := range s.ranks[node] {
			for _, socket := range rank.Stalled {
				to := s.owner(socket.Remote)
				if at := (pair{node, to}); !slices.Contains(pairs, at) {
					pairs = append(pairs, at)
					got = append(got, fmt.Sprintf("%s has no answer from %s (%s)", node.Name, socket.Remote, socket.State))
				}
			}
		}
	}
	if pairs == nil {
		return nil
	}
	f := &checks.Finding{Summary: "a connection gets no answer", Got: strings.Join(got[:min(len(got), 3)], ", "), Want: "every rank reaches every other", Remedy: []fix.Command{
		fix.On("sudo iptables -S; sudo nft list ruleset").Remark("shows rules that drop or limit connections").As(fix.Look), inReport,
	}}
	ends := map[*facts.Node]int{}
	for _, p := range pairs {
		ends[p.from]++
		if p.to != nil && p.to != p.from {
			ends[p.to]++
		}
	}
	for _, node := range s.view.Nodes {
		if ends[node] == len(pairs) {
			f.Nodes = append(f.Nodes, node.Name)
		}
	}
	if f.Nodes == nil {
		for _, node := range s.view.Nodes {
			if ends[node] > 0 {
				f.Nodes = append(f.Nodes, node.Name)
			}
		}
	}
	return f
}

// owner returns the node that has the address of an endpoint, nil for none.
func (s attempt) owner(endpoint string) *facts.Node {
	at := strings.LastIndex(endpoint, ":")
	if at < 0 {
		return nil
	}
	host := strings.Trim(endpoint[:at], "[]")
	for _, node := range s.view.Nodes {
		for _, address := range names.AddressesOf(node) {
			if address.String() == host {
				return node
			}
		}
	}
	return nil
}

// failedLater blames the ranks that failed first after they had met.
func (s attempt) failedLater() *checks.Finding {
	return s.first(func(rank facts.RehearsedRank) bool { return rank.End == facts.EndFailed })
}

// launcherLater reports a launcher that failed although all its ranks finished, or did not say why
// they ended.
func (s attempt) launcherLater() *checks.Finding {
	f := s.firstLauncher(func(program) bool { return true })
	if f != nil {
		f.Summary, f.Want = "the launcher fails", "exit code 0"
	}
	return f
}

// stages returns how far the ranks of each node came.
func (s attempt) stages() string {
	nodes := map[string][]string{}
	var order []string
	for _, node := range s.view.Nodes {
		stage := "no rank"
		for _, rank := range s.ranks[node] {
			stage = "stage " + rank.Stage
			if rank.End == facts.EndFinished {
				stage = "finished"
			}
		}
		if nodes[stage] == nil {
			order = append(order, stage)
		}
		nodes[stage] = append(nodes[stage], node.Name)
	}
	return strings.Join(text.Map(order, func(stage string) string { return hostfile.Fold(nodes[stage]) + ": " + stage }), ", ")
}
