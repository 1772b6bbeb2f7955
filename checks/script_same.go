package checks

import (
	"fmt"
	"path"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var scriptSame = Check{
	ID:        "script-same",
	Title:     "the script and the files that the launch names are on every node, and are the same",
	Severity:  Error,
	Needs:     []facts.Section{facts.SectionFiles},
	DependsOn: []string{"workdir-present"},
	Volatile:  true,
	Doc: "Every node opens the script and the DeepSpeed configuration by the same path, and its own copy. Where one is missing that node's ranks die and the " +
		"others wait; where one is another version its ranks call other collectives, which hangs or quietly trains something else. Compared are the script, the " +
		"configuration and other arguments that are files, by their contents; the python files beside the script, which it imports; and the commit of the git " +
		"repository around it. The launching machine's copy is the one that is meant, wherever any node has it too; otherwise it is what most nodes have.",
	WouldSee: "a hang at a collective that the other ranks do not call, or wrong results without a word",
	Run:      judgeScript,
}

func judgeScript(view View) []Finding {
	if view.Launch.Script == "" {
		return skip("no launch command was given (preflight -- deepspeed …)")
	}
	nodes := rankNodes(view)
	if len(nodes) == 1 && nodes[0].Files == nil { // the launching machine, which Evaluate did not ask for
		return []Finding{unknown(nodes[0], "files: "+shown(nodes[0].Missing[facts.SectionFiles]))}
	}
	findings := unqualified(view, nodes)
	explained := view.Found("workdir-present", Fail, Warn)
	for _, file := range view.Launch.Files {
		findings = append(findings, lackFile(view, nodes, file, explained)...)
		findings = append(findings, unreadable(view, nodes, file)...)
	}
	compared := comparisons(view, nodes)
	if len(view.Launch.Files) == 0 && len(compared) == 0 {
		return skip(fmt.Sprintf("%s is named by no path, and lies in no repository: what is installed is compared by packages-same", view.Launch.Script))
	}
	return append(findings, unlike(view, nodes, compared)...)
}

// at is what a machine has at a path that the launch names, nil where that was
// not looked at.
func at(machine *facts.Node, named facts.LaunchFile) *facts.File {
	if machine == nil || machine.Files == nil {
		return nil
	}
	for i := range machine.Files.Files {
		if file := &machine.Files.Files[i]; file.Path == named.Path {
			return file
		}
	}
	return nil
}

// isThere is whether a machine was seen to have a file.
func isThere(machine *facts.Node, named facts.LaunchFile) bool {
	file := at(machine, named)
	return file != nil && file.Exists
}

// shortName is a path as the command most likely spells it.
func shortName(p launch.Prediction, file string) string {
	if below, isBelow := strings.CutPrefix(file, path.Clean(p.WorkDir)+"/"); isBelow && p.WorkDir != "" {
		return below
	}
	return file
}
