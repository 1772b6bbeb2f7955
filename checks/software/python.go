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
	found, want := false, "the Python that the other nodes have in PATH"
	if view.Launch.Interpreter != "" {
		want = fmt.Sprintf("%s (from %s)", view.Launch.Interpreter, view.Launch.InterpreterFrom)
	}
	for _, node := range view.Nodes {
		python := node.Python
		found = found || python.Found
		switch {
		case !python.Found:
			summary, look := python.Path+" does not exist", fix.On("ls -l %s", fix.Path(path.Dir(python.Path)))
			if !path.IsAbs(python.Path) {
				summary, look = python.Path+" is not in PATH", fix.On("command -v %s", fix.Path(python.Path))
			}
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  summary,
				Got:      python.Problem,
				Want:     want,
				Covers:   []string{"python"},
				WouldSee: fmt.Sprintf("{node}: bash: line 1: %s: No such file or directory, then: {node}: ssh exited with exit code 127", python.Path),
				Remedy:   append([]fix.Command{look.As(fix.Look)}, copyFix(ranks.Answering(view), func(*facts.Node) bool { return true })...),
			})
		case python.Problem != "":
			f := checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  python.Path + " exists but does not work",
				Got:      python.Problem,
				Want:     "an interpreter that starts",
				Covers:   []string{"python"},
				WouldSee: "the launch ends on this node with the interpreter's own error",
				Remedy: []fix.Command{
					fix.On("%s -V", fix.Path(python.Path)).As(fix.Look),
					fix.Note("install the interpreter on {nodes} again"),
				},
			}
			if setting, _, isSet := strings.Cut(python.Problem, ": "); isSet && strings.HasPrefix(setting, "PYTHONHOME=") {
				f.Summary, f.Want = "PYTHONHOME names a directory without "+python.Path+"'s library", "PYTHONHOME is not set"
				f.Remedy = append(ranks.TakeOut(view, facts.Setting{Name: "PYTHONHOME"}), fix.Note("remove the line that sets PYTHONHOME"))
			}
			findings = append(findings, f)
		}
	}
	if !found && view.Launch.Interpreter == "" {
		return []checks.Finding{{
			Verdict: checks.Unknown, Nodes: checks.NamesOf(view.Nodes),
			Summary: "no node has Python in PATH: name the interpreter of the launch with --python PATH",
		}}
	}
	return append(findings, pythonVersions(view)...)
}

// pythonVersions compares the minor versions of Python, and the patch versions if the minor
// versions agree. The version of the launching machine is right if any node has it: the
// interpreter's path is the same, and DeepSpeed itself runs under it.
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
				f.Summary = fmt.Sprintf("python %s, the launching machine has %s", compare.Shown(d.Deviations[0].Got), wanted.Want)
				f.Want = "python " + wanted.Want + ", as on the launching machine"
			}
			findings = append(findings, f)
		}
		return findings
	}
	if findings := versions(checks.Fail, "ModuleNotFoundError or ImportError on the nodes that differ, because their packages were built for another Python", 2); findings != nil {
		return findings
	}
	findings := versions(checks.Warn, "usually nothing; pickles and compiled packages from one node may not load on another", 3)
	return append(findings, otherOnHead(view, nodes, meant)...)
}

// headPython returns the launching machine if it is known to have the launch's interpreter,
// otherwise nil.
func headPython(view checks.View) *facts.Node {
	head := view.Head
	if head == nil || head.Python == nil || !head.Python.Found || head.Python.Version == "" || head.Python.Path != view.Launch.Interpreter {
		return nil
	}
	return head
}

// otherOnHead warns if all nodes have the same minor version of Python, but the launching machine
// has another one. The ranks can connect, but packages of the launching machine are missing on the
// nodes.
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
		Summary:  fmt.Sprintf("the nodes have python %s, the launching machine has %s", got, want),
		Got:      "python " + got + " on the nodes",
		Want:     "python " + want + ", as on the launching machine",
		WouldSee: "usually nothing: ranks run only on the nodes, but they do not have the packages of the launching machine",
		Remedy: []fix.Command{
			fix.Here("deepspeed --version   # is this the environment that the nodes have?").As(fix.Look),
			fix.Note("launch from the environment that the nodes have"),
		},
	}}
}

// copyFix returns the command that copies the Python environment of a node that has the right
// version. It does so only if the interpreter belongs to an environment (conda, venv). The
// interpreter of a system cannot be copied: its packages must be installed, or the launch must name
// another interpreter.
func copyFix(nodes []*facts.Node, isRight func(*facts.Node) bool) []fix.Command {
	for _, node := range nodes {
		prefix := node.Python.Prefix
		isSystem := prefix == "" || prefix == "/usr" || prefix == "/usr/local"
		if !isRight(node) || isSystem || !text.IsPlain(prefix) || !strings.HasPrefix(node.Python.Path, prefix+"/") {
			continue
		}
		return []fix.Command{fix.CopyFrom(node.Name, prefix+"/")}
	}
	return []fix.Command{
		fix.Here("preflight -H {hostfile} --python PATH   # checks another interpreter").As(fix.Look),
		fix.Note("install the interpreter on {nodes}, or launch with one that all nodes have"),
	}
}
