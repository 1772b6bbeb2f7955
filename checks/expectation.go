package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// noPolicy is why the checks of a policy skip where it has nothing for them.
const noPolicy = "no policy file asks for it"

var expectation = Check{
	ID:         ExpectationID,
	Title:      "every node is as the policy states",
	Severity:   Error,
	FromPolicy: true,
	Agreed:     true,
	Doc: "Holds the facts of every node against the expect: list of preflight.yaml: versions (\">=570.86\"), sizes (\">=16GiB\"), plain values, lists of allowed ones, or \"absent\". " +
		"A node that does not have the fact misses the expectation; one whose section was not seen is unknown. A stated expectation beats the majority: the checks that compare nodes leave " +
		"out those whose miss counts, and keep nodes apart that the policy has unlike. Each expectation says itself what it weighs and how to meet it.",
	WouldSee: "nothing for certain: what the team has ruled out takes part in the launch",
	Run:      judgeExpectations,
}

func judgeExpectations(view View) []Finding {
	var findings []Finding
	judged := false
	statements := heldOf(view).statements
	view.Nodes = slices.DeleteFunc(slices.Clone(view.Nodes), func(n *facts.Node) bool { return n.Python == nil }) // for the words of a fix alone
	for i := range statements {
		s := &statements[i]
		findings = append(findings, s.findings(view)...)
		judged = judged || s.met || s.missed != nil
	}
	left := notJudged(statements)
	switch {
	case statements == nil:
		return skip(noPolicy)
	case judged || findings != nil:
		return append(findings, left...)
	case left != nil:
		return skip(left[0].Summary) // and nothing else was judged, which is no pass
	}
	return skip("the policy states nothing of what was looked at on these nodes")
}

func (s *statement) findings(view View) []Finding {
	findings := slices.Concat(s.sight.Unknown, s.unclear)
	if len(s.sight.Unreached) > 0 {
		findings = append(findings, Finding{Verdict: Unknown, Explained: true, Summary: hostfile.Fold(s.sight.Unreached) + " not reached"})
	}
	if s.notTried != "" && s.demanded() {
		for i := range view.All {
			if node := &view.All[i]; s.names(node.Name) {
				findings = append(findings, unknown(node, "nobody was to look at "+s.wanted()+": "+s.notTried))
			}
		}
	}
	for _, m := range s.missed {
		findings = append(findings, Finding{
			Verdict: s.weight(view.Policy),
			Nodes:   []string{m.node},
			Fact:    m.fact,
			At:      s.At,
			Summary: s.Fact + " is not what the policy states",
			Got:     m.got,
			Want:    s.wanted(),
			Remedy:  []fix.Command{s.fix(view), s.otherwise()},
		})
	}
	return findings
}

// weight is what missing it comes to under a policy, which may weigh all of them anew.
func (s *statement) weight(policy Policy) Verdict {
	stated := Fail
	if s.Severity == Warning {
		stated = Warn
	}
	return policy.weight(ExpectationID, Error, stated)
}

// otherwise is the way out where what the node has was meant.
func (s *statement) otherwise() fix.Command {
	file, line := s.At, ""
	if at := strings.LastIndex(s.At, ":"); at >= 0 {
		file, line = s.At[:at], s.At[at:]
	}
	return fix.Here("$EDITOR %s   # if this was meant: change what %s states", fix.Path(file), fix.Text(file+line))
}

// fix is the policy's own, else what installs such a package, else where a command would
// come from: what to do to a node is the team's to say, and only they know it.
func (s *statement) fix(view View) fix.Command {
	name, isPackage := strings.CutPrefix(s.Fact, packagePath(""))
	wanted := strings.ReplaceAll(s.Is[0], " ", "")
	switch {
	case s.Fix != "":
		return fix.Stated(s.Fix)
	case !isPackage || strings.Contains(name, "*"):
		return fix.Note("no command is known; a fix: at %s would stand here", fix.Text(s.At))
	case wanted == absentWord:
		return pip(view).Run("uninstall -y %s", fix.Package(name))
	case !operator.MatchString(wanted):
		wanted = "==" + wanted + s.allowed[0].bounds[0].further()
	}
	return pip(view).Run("install %s", fix.Package(name+wanted))
}
