// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// NoPolicy is the reason why the checks that compare nodes with a policy are skipped if there is no
// policy.
const NoPolicy = "no policy file requires it"

var Expectation = checks.Check{
	ID:         checks.ExpectationID,
	Severity:   checks.Error,
	FromPolicy: true,
	Agreed:     true,
	DependsOn:  sharers(),
	Run:        judgeExpectations,
}

func judgeExpectations(view checks.View) []checks.Finding {
	var findings []checks.Finding
	judged := false
	statements := heldOf(view).statements
	view.Nodes = compare.Without(view.Nodes, func(n *facts.Node) bool { return n.Python == nil }) // Python is needed only for the commands of a fix
	for i := range statements {
		s := &statements[i]
		findings = append(findings, s.findings(view)...)
		judged = judged || s.met || s.missed != nil
	}
	left := skipped(statements)
	switch {
	case statements == nil:
		return checks.Skipped(NoPolicy)
	case judged || findings != nil:
		return append(findings, left...)
	case left != nil:
		return checks.Skipped(left[0].Summary) // nothing else was compared, so this is not a pass
	}
	return checks.Skipped("the policy has no expectation for what preflight checked on these nodes")
}

func (s *statement) findings(view checks.View) []checks.Finding {
	findings := slices.Concat(s.sight.Unknown, s.unclear)
	if len(s.sight.Failed) > 0 && s.met {
		findings = append(findings, checks.Finding{Verdict: checks.Pass, Summary: hostfile.Fold(s.sight.Failed) + " not reached"})
	}
	if len(s.sight.Unreached) > 0 {
		findings = append(findings, checks.Finding{Verdict: checks.Unknown, Explained: true, Summary: hostfile.Fold(s.sight.Unreached) + " not reached"})
	}
	if s.notTried != "" && s.demanded() {
		for _, node := range view.Everywhere() {
			if s.names(node.Name) {
				findings = append(findings, checks.UnknownFor(node, "preflight did not check "+s.wanted()+": "+s.notTried))
			}
		}
	}
	for _, m := range s.missed {
		cause := sharer(view, checks.Change{Node: m.node, Fact: m.fact})
		findings = append(findings, checks.Finding{
			Verdict:     s.weight(view.Policy),
			Nodes:       []string{m.node},
			Fact:        m.fact,
			At:          s.At,
			Summary:     s.Fact + " does not meet the policy",
			Got:         m.got,
			Want:        s.wanted(),
			Remedy:      append(s.fix(view, m, cause), s.otherwise()),
			SharesCause: cause,
		})
	}
	return findings
}

func (s *statement) weight(policy checks.Policy) checks.Verdict {
	stated := checks.Fail
	if s.Severity == checks.Warning {
		stated = checks.Warn
	}
	return policy.Weigh(checks.ExpectationID, checks.Error, stated)
}

// otherwise returns the command that changes the policy. It is the right fix if the node's value is
// correct.
func (s *statement) otherwise() fix.Command {
	file, line := s.At, ""
	if at := strings.LastIndex(s.At, ":"); at >= 0 {
		file, line = s.At[:at], s.At[at:]
	}
	return fix.Here("$EDITOR %s   # if the node is right: change %s", fix.Path(file), fix.Text(file+line)).As(fix.Or)
}

// fix returns the policy's own fix if there is one. Otherwise it returns the cure of the check that
// finds the cause, commands that give the fact an allowed value, or a note that preflight knows no
// such command.
func (s *statement) fix(view checks.View, m miss, cause string) []fix.Command {
	if s.Fix != "" {
		return []fix.Command{fix.Stated(s.Fix)}
	}
	if cause != "" {
		cures := func(command fix.Command) bool { return command.Role() == fix.Fix }
		if found, _ := view.Reported(cause, m.node); slices.ContainsFunc(found.Remedy, cures) {
			return slices.Clone(found.Remedy)
		}
	}
	way := s.install(view)
	if at := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == m.node }); way == nil && at >= 0 {
		way = s.give(&view.All[at], m.fact)
	}
	if way == nil {
		return []fix.Command{fix.Note("preflight knows no command for this; add your own as fix: at %s", fix.Text(s.At))}
	}
	return way
}

// install returns the pip command that makes a package meet the expectation.
func (s *statement) install(view checks.View) []fix.Command {
	name, isPackage := strings.CutPrefix(s.Fact, compare.PackagePath(""))
	wanted := strings.ReplaceAll(s.Is[0], " ", "")
	switch {
	case !isPackage || strings.Contains(name, "*"):
		return nil
	case wanted == absentWord:
		return []fix.Command{remedy.Pip(view).Run("uninstall -y %s", fix.Package(name))}
	case !isComparison(wanted):
		wanted = "==" + wanted + s.allowed[0].bounds[0].further()
	}
	return []fix.Command{remedy.Pip(view).Run("install %s", fix.Package(name+wanted))}
}

// give returns the commands that set the fact to an allowed value. Other checks of the same defect
// print the same commands, but do not report nodes that miss an expectation.
func (s *statement) give(node *facts.Node, fact string) []fix.Command {
	amount, stated := s.nearest()
	takes := func(value int64) bool { return s.takes(strconv.FormatInt(value, 10)) }
	switch name := mtuFact.FindStringSubmatch(fact); {
	case name != nil && name[1] != "*" && stated:
		return []fix.Command{fix.On(setMTU, fix.Name(name[1]), fix.Number(amount))}
	case fact == "shm.size" && stated:
		return remedy.SizeSHM(node, amount, "")
	case strings.HasPrefix(fact, "limits.memlock.") && takes(-1):
		return remedy.RaiseMemlock(node)
	case strings.HasPrefix(fact, "limits.nofile.") && takes(remedy.ManyFiles):
		return remedy.RaiseOpenFiles(node)
	}
	return nil
}

// nearest returns an allowed number: the smallest allowed number if there is one.
func (s *statement) nearest() (amount int64, is bool) {
	low, high := s.allowed[0].span(s.about)
	for _, number := range []float64{low, high} {
		if number > leastOf(s.about) && number < math.MaxInt64 && s.takes(strconv.FormatInt(int64(number), 10)) {
			return int64(number), true
		}
	}
	return 0, false
}

// demanded reports whether the policy requires that the fact is collected. The policy requires it
// if it names the nodes, or sets the severity to error. Otherwise the expectation may concern GPUs
// although the launch uses CPUs.
func (s *statement) demanded() bool { return len(s.only) > 0 || s.Severity == checks.Error }

// skipped returns a remark about expectations for facts that this run did not collect. Expectations
// for which the policy requires the fact are unknown instead.
func skipped(statements []statement) []checks.Finding {
	left := compare.Without(statements, func(s statement) bool { return s.notTried == "" || s.demanded() })
	if len(left) == 0 {
		return nil
	}
	var parts []string
	for _, alike := range text.GroupBy(left, func(s statement) string { return s.notTried }) {
		names := text.Map(alike.All, func(s statement) string { return s.Fact })
		parts = append(parts, strings.Join(names, ", ")+" ("+alike.Key+")")
	}
	return []checks.Finding{{Verdict: checks.Pass, Summary: "skipped: " + strings.Join(parts, ", ")}}
}
