package checks

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// expectationID is the check's, whose findings ask for their own weight.
const expectationID = "expectation"

// noPolicy is why the checks of a policy skip where it has nothing for them.
const noPolicy = "no policy file asks for it"

var expectation = Check{
	ID:         expectationID,
	Title:      "every node is as the policy states",
	Severity:   Error,
	FromPolicy: true,
	Doc: "Holds the facts of every node against the expect: list of preflight.yaml: versions (\">=570.86\"), sizes (\">=16GiB\"), plain values, lists of allowed ones, or \"absent\". " +
		"A node that does not have the fact misses the expectation; one whose section was not seen is unknown. A stated expectation beats the majority: the checks that compare nodes leave " +
		"out those whose miss counts, and keep nodes apart that the policy has unlike. Each expectation says itself what it weighs and how to meet it.",
	WouldSee: "nothing for certain: what the team has ruled out takes part in the launch",
	Run:      judgeExpectations,
}

func judgeExpectations(view View) []Finding {
	var findings []Finding
	judged := false
	view.Nodes = slices.DeleteFunc(view.Nodes, func(n *facts.Node) bool { return n.Python == nil }) // for the words of a fix alone
	for i := range view.stated {
		s := &view.stated[i]
		findings = append(findings, s.findings(view)...)
		judged = judged || s.met || s.missed != nil
	}
	switch {
	case view.stated == nil:
		return skip(noPolicy)
	case !judged && findings == nil:
		return skip("the policy states nothing of what was looked at on these nodes")
	}
	return findings
}

// verdict is what missing it comes to under a policy, which may weigh all of them anew.
func (s *statement) verdict(policy Policy) Verdict {
	f := Finding{Check: expectationID, Verdict: Fail}
	if s.Severity == Warning {
		f.Verdict = Warn
	}
	policy.reweigh(&f)
	return f.Verdict
}

func (s *statement) findings(view View) []Finding {
	findings := slices.Concat(s.blind.findings, s.unclear)
	if len(s.blind.unreached) > 0 {
		findings = append(findings, Finding{Verdict: Unknown, Explained: true, Summary: hostfile.Fold(s.blind.unreached) + " not reached"})
	}
	for _, m := range s.missed {
		findings = append(findings, Finding{
			Verdict: s.verdict(view.Policy),
			Nodes:   []string{m.node},
			Fact:    m.fact,
			At:      s.At,
			Summary: s.Fact + " is not what the policy states",
			Got:     m.got,
			Want:    s.wanted(),
			Fix:     []string{s.fix(view)},
		})
	}
	return findings
}

// fix is the policy's own, else what installs such a package, else where to look.
func (s *statement) fix(view View) string {
	name, isPackage := strings.CutPrefix(s.Fact, packagePath(""))
	wanted := strings.ReplaceAll(s.Is[0], " ", "")
	switch {
	case s.Fix != "":
		return s.Fix
	case !isPackage || strings.Contains(name, "*"):
		return "make it so on {nodes}; a fix: at " + s.At + " would name the command here"
	case wanted == absentWord:
		return byPip(view, "uninstall -y "+remoteWord(name))
	case !operator.MatchString(wanted):
		wanted = "==" + wanted
	}
	return byPip(view, "install "+remoteWord(name+wanted))
}

// readable is a fact's value as a person reads it.
func readable(value string, about facts.Description) string {
	switch text := unquoted(value); {
	case text == "":
		return absentWord
	case about.Kind != facts.Number || about.Unit != "bytes":
		return text
	case strings.HasPrefix(text, "-") && canBeUnlimited(about.Path):
		return unlimitedWord
	default:
		if size, err := strconv.ParseInt(text, 10, 64); err == nil {
			return exactly(size)
		}
		return text
	}
}
