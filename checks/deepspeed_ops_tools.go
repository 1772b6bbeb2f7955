package checks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// opTools is what a node has to compile ops with.
type opTools struct {
	*facts.Toolchain
	view View
	node *facts.Node
	ops  []string // that will be compiled there
}

func newOpTools(view View, node *facts.Node, ops []string) opTools {
	return opTools{node.Toolchain, view, node, ops}
}

func (t opTools) lacks(summary, wouldSee string, commands ...fix.Command) Finding {
	return Finding{
		Nodes:    []string{t.node.Name},
		Summary:  summary,
		Want:     "what compiles " + strings.Join(t.ops, ", "),
		WouldSee: wouldSee,
		Remedy:   commands,
	}
}

// compiler is what every op takes.
func (t opTools) compiler() (findings []Finding) {
	failed := fmt.Sprintf("RuntimeError: Error building extension '%s'", t.ops[0])
	if t.CXX == "" {
		findings = append(findings, t.lacks("there is no C++ compiler", failed, fix.Install(fix.On, systemOf(t.node), "build-essential", "gcc-c++")...))
	}
	if t.Ninja == "" && !t.ninjaByExport() {
		f := t.lacks("ninja is not in PATH of a session without login",
			fmt.Sprintf("RuntimeError: Unable to JIT load the %s op due to ninja not being installed.", t.ops[0]), fix.Install(fix.On, systemOf(t.node), "ninja-build", "ninja-build")...)
		if dir := t.ninjaDir(); dir != "" {
			f.Got = "it is installed for the interpreter, beside which nobody looks"
			f.Remedy = []fix.Command{exportLine(t.view.Launch, "PATH", dir+":/usr/local/bin:/usr/bin:/bin")}
		}
		findings = append(findings, f)
	}
	if !t.PythonH {
		findings = append(findings, t.lacks("Python's headers are not installed", "fatal error: Python.h: No such file or directory", fix.Install(fix.On, systemOf(t.node), "python3-dev", "python3-devel")...))
	}
	if slices.Contains(t.ops, "async_io") && !t.LibAIO {
		findings = append(findings, t.lacks("libaio, which NVMe is read and written with, is not installed with its headers",
			"[WARNING] async_io requires the dev libaio .so object and headers but these were not found., then "+
				"RuntimeError: Unable to JIT load the async_io op due to it not being compatible due to hardware/software issue.",
			fix.Install(fix.On, systemOf(t.node), "libaio-dev", "libaio-devel")...))
	}
	return findings
}

// ninjaDir is where pip put ninja: beside the interpreter.
func (t opTools) ninjaDir() string {
	if t.node.Python == nil || t.node.Python.Packages["ninja"] == "" || !fix.IsPlain(t.node.Python.Path) {
		return ""
	}
	return path.Dir(t.node.Python.Path)
}

// ninjaByExport is whether the launch hands the ranks a PATH that leads to it.
func (t opTools) ninjaByExport() bool {
	export, isExported := exported(t.view, "PATH")
	return isExported && t.ninjaDir() != "" && slices.Contains(strings.Split(export.Value, ":"), t.ninjaDir())
}
