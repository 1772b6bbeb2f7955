// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"path"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var PythonSame = checks.Check{
	ID:       "python-same",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgePython,
}

func judgePython(view checks.View) []checks.Finding {
	var findings []checks.Finding
	found, want := false, "the python the other nodes have in PATH"
	if view.Launch.Interpreter != "" {
		want = fmt.Sprintf("%s (from %s)", view.Launch.Interpreter, view.Launch.InterpreterFrom)
	}
	for _, node := range view.Nodes {
		python := node.Python
		found = found || python.Found
		switch {
		case !python.Found:
			look := fix.On("ls -l %s", fix.Path(path.Dir(python.Path)))
			if !path.IsAbs(python.Path) {
				look = fix.On("command -v %s", fix.Path(python.Path))
			}
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  "there is no " + python.Path,
				Got:      python.Problem,
				Want:     want,
				WouldSee: fmt.Sprintf("{node}: bash: line 1: %s: No such file or directory, then: {node}: ssh exited with exit code 127", python.Path),
				Remedy:   append([]fix.Command{look}, copyFix(ranks.Answering(view), func(*facts.Node) bool { return true })...),
			})
		case python.Problem != "":
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  python.Path + " is there and does not work",
				Got:      python.Problem,
				WouldSee: "the launch ends on this node with the interpreter's own error",
				Remedy:   []fix.Command{fix.On("%s -V", fix.Path(python.Path))},
			})
		}
	}
	if !found && view.Launch.Interpreter == "" {
		f := checks.Finding{Verdict: checks.Unknown, Summary: "no node has a python in PATH, and nothing says which interpreter the launch uses: --python PATH names it"}
		for _, node := range view.Nodes {
			f.Nodes = append(f.Nodes, node.Name)
		}
		return []checks.Finding{f}
	}
	return append(findings, pythonVersions(view)...)
}

// pythonVersions compares minor versions, and patch versions where those agree.
// The launching machine's is the one that is meant, if any node has it: it is
// the same path there, and DeepSpeed itself runs under it.
func pythonVersions(view checks.View) []checks.Finding {
	nodes, meant := compare.AsStated(view, ranks.Answering(view), "python.version"), headPython(view)
	versions := func(verdict checks.Verdict, wouldSee string, parts int) (findings []checks.Finding) {
		value := func(n *facts.Node) string { return hostfile.Release(n.Python.Version, parts) }
		wanted := compare.Among(nodes, "python", value)
		if meant != nil {
			wanted.Want = value(meant)
		}
		for _, d := range compare.Differences(wanted) {
			f := d.Finding("interpreter versions")
			f.Verdict, f.WouldSee = verdict, wouldSee
			f.Remedy = copyFix(nodes, func(n *facts.Node) bool { return value(n) == d.Deviations[0].Want })
			if !d.Split && d.Deviations[0].Want == wanted.Want {
				f.Summary = "interpreter versions differ from the launching machine's"
				f.Want = "python " + wanted.Want + ", as there"
			}
			findings = append(findings, f)
		}
		return findings
	}
	if findings := versions(checks.Fail, "ModuleNotFoundError or ImportError on the odd nodes, whose packages were built for another python", 2); findings != nil {
		return findings
	}
	findings := versions(checks.Warn, "nothing as a rule; pickles and compiled packages made on one node may not load on another", 3)
	return append(findings, otherOnHead(view, nodes, meant)...)
}

// headPython is the launching machine, where it was seen to have the launch's interpreter.
func headPython(view checks.View) *facts.Node {
	head := view.Head
	if head == nil || head.Python == nil || !head.Python.Found || head.Python.Version == "" || head.Python.Path != view.Launch.Interpreter {
		return nil
	}
	return head
}

// otherOnHead warns where the nodes agree on another minor version than the
// launching machine's: they meet, and what was installed there is not here.
func otherOnHead(view checks.View, nodes []*facts.Node, meant *facts.Node) []checks.Finding {
	if meant == nil || len(nodes) == 0 {
		return nil
	}
	want, got := hostfile.Release(meant.Python.Version, 2), hostfile.Release(nodes[0].Python.Version, 2)
	if want == got {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{meant.Name},
		Summary:  fmt.Sprintf("%s is another python on the nodes than on the machine it is launched from", meant.Python.Path),
		Got:      "python " + got + " on the nodes",
		Want:     "python " + want,
		WouldSee: "nothing as a rule: the ranks run on the nodes alone; packages that were installed here are not theirs",
		Remedy:   []fix.Command{fix.Here("deepspeed --version   # is this the environment that the nodes have?")},
	}}
}

// copyFix copies the environment from a node that is as it should be, where
// the interpreter belongs to one (conda, venv); a system's python is a matter
// of its packages, and of telling which python is meant.
func copyFix(nodes []*facts.Node, isRight func(*facts.Node) bool) []fix.Command {
	for _, node := range nodes {
		prefix := node.Python.Prefix
		isSystem := prefix == "" || prefix == "/usr" || prefix == "/usr/local"
		if !isRight(node) || isSystem || !text.IsPlain(prefix) || !strings.HasPrefix(node.Python.Path, prefix+"/") {
			continue
		}
		return []fix.Command{fix.CopyFrom(node.Name, prefix+"/")}
	}
	return []fix.Command{fix.Here("preflight -H {hostfile} --python PATH")}
}
