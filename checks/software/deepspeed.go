// SPDX-License-Identifier: Apache-2.0

// Package software checks the software that is installed for the ranks: Python, torch, NCCL,
// protobuf, DeepSpeed with the ops that it compiles, and other packages that matter.
//
// The package does not decide which version is good. All nodes must have the same version, or the
// version that a policy states.
package software

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

var DeepSpeedSame = checks.Check{
	ID:        "deepspeed-same",
	Severity:  checks.Error,
	Volatile:  true,
	Needs:     []facts.Section{facts.SectionPython},
	DependsOn: []string{"torch-same"},
	Run:       judgeDeepSpeed,
}

func judgeDeepSpeed(view checks.View) []checks.Finding {
	switch {
	case !isNowhere(view, "deepspeed"):
		findings := slices.Concat(damaged(view, ranks.Answering(view), "deepspeed"), deepspeedVersions(view), deepspeedOnHead(view), deepspeedImports(view))
		for i := range findings {
			if view.Launch.Torchrun() && !mayCallDeepSpeed(view) {
				findings[i].Verdict = checks.Warn
				findings[i].WouldSee = "nothing, unless a function of the script or another package imports deepspeed: the top level of the script does not"
			}
		}
		return findings
	case !launchesDeepSpeed(view):
		return ranks.Nowhere(view, "deepspeed")
	}
	findings := nowhere(view, "deepspeed")
	for i, f := range findings { // if torch is unknown too, torch-same reports the common reason
		findings[i].Explained = f.Verdict == checks.Unknown && len(view.Found("torch-same", checks.Unknown)) > 0
	}
	return findings
}

// mayCallDeepSpeed reports whether the script may use DeepSpeed: on at least one node, it imports
// deepspeed at its top level or was not read.
func mayCallDeepSpeed(view checks.View) bool {
	return slices.ContainsFunc(ranks.Answering(view), func(n *facts.Node) bool {
		script := ranks.ScriptAt(view.Launch, n)
		return script == nil || script.Imports == nil || callsDeepSpeed(view, n)
	})
}

// deepspeedVersions compares the DeepSpeed releases of the nodes. If DeepSpeed only starts gloo
// ranks of a script that does not import DeepSpeed, the releases differ only in how they start the
// ranks.
func deepspeedVersions(view checks.View) []checks.Finding {
	absent, unlike := judgePackage(view, "deepspeed")
	for i := range unlike {
		if !ranks.UsesNCCL(view) && !mayCallDeepSpeed(view) {
			unlike[i].Verdict = checks.Warn
			unlike[i].WouldSee = "usually nothing, because the script does not import deepspeed; or unrecognized arguments, if an older launch.py does not know one of them"
		}
	}
	return append(absent, unlike...)
}

// launchesDeepSpeed reports whether the launch uses DeepSpeed, or may use it. A hostfile proves
// nothing if no machine has DeepSpeed, because torchrun users also have hostfiles.
func launchesDeepSpeed(view checks.View) bool {
	p, head := view.Launch, view.Head
	switch {
	case p.Config != nil:
		return true
	case p.Torchrun():
		return scriptCallsDeepSpeed(view)
	}
	return p.Script != "" || onHead(view, "deepspeed") != "" || head != nil && head.Launcher != nil && head.Launcher.DeepSpeed != ""
}

// deepspeedOnHead compares the DeepSpeed release of the launching machine with that of the nodes,
// if all nodes have the same release. The launching machine matters because it writes the nodes'
// command lines.
func deepspeedOnHead(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if view.Head == nil || view.Head.Python == nil || view.Launch.Local || view.Launch.Torchrun() {
		return nil
	}
	here := onHead(view, "deepspeed")
	there := compare.GroupBy(nodes, func(n *facts.Node) string { return n.Python.Packages["deepspeed"] })
	if len(there) != 1 || here == "" || there[0].Value == "" || here == there[0].Value {
		return nil
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{view.Head.Name},
		Summary:  fmt.Sprintf("the launching machine has deepspeed %s, the nodes have %s", here, there[0].Value),
		Got:      "deepspeed " + here,
		Want:     "deepspeed " + there[0].Value + ", as on every node",
		WouldSee: "launch.py: error: unrecognized arguments, if the launching machine's release passes one that the nodes' release does not know",
		Remedy:   []fix.Command{fix.Here("%s -m pip install %s", fix.Path(view.Head.Python.Path), fix.Package("deepspeed=="+there[0].Value))},
	}}
}

// importBreak is a range of releases of another package, or of Python, with which some DeepSpeed
// releases cannot be imported.
type importBreak struct {
	since, before string // the first DeepSpeed release that fails, and the first that works again; "" for no bound
	beside        string // the other package: torch, pydantic or python
	from, until   string // the releases of the other package, "" for no bound
	message       string
	fix           string // the package that pip can install instead of a newer deepspeed, "" for none
}

// importBreaks lists the known cases. Every bound was tested with the releases on both sides of it,
// except the bound where torch 2.3 begins.
var importBreaks = []importBreak{
	{before: "0.8.2", beside: "torch", from: "2.0", message: "ModuleNotFoundError: No module named 'torch._six'"},
	{before: "0.14.1", since: "0.8.2", beside: "torch", from: "2.3", message: "ImportError: cannot import name 'log' from 'torch.distributed.elastic.agent.server.api'"},
	{before: "0.14.4", since: "0.14.1", beside: "torch", from: "2.4", message: "ImportError: cannot import name '_get_socket_with_port' from 'torch.distributed.elastic.agent.server.api'"},
	{before: "0.9.0", beside: "pydantic", from: "2", message: "pydantic.errors.PydanticUserError, as deepspeed's configuration classes are made", fix: "pydantic<2"},
	{before: "0.11.2", since: "0.9.0", beside: "pydantic", from: "2", message: "AttributeError: 'FieldInfo' object has no attribute 'required'. Did you mean: 'is_required'?", fix: "pydantic<2"},
	{since: "0.15.0", beside: "pydantic", until: "2", message: "ImportError: cannot import name 'field_serializer' from 'pydantic'", fix: "pydantic>=2"},
	{before: "0.19.8", beside: "python", from: "3.12", message: "ModuleNotFoundError: No module named 'distutils'", fix: "setuptools"},
}

func (b importBreak) strikes(deepspeed, other string) bool {
	return other != "" && hostfile.Within(deepspeed, b.since, b.before) && hostfile.Within(other, b.from, b.until)
}

// requirements lists the distributions that `import deepspeed` needs, with the DeepSpeed releases
// that need them.
//
// Source: requirements/requirements.txt, 0.7.0 to 0.19.8, and the imports of 0.7.7, 0.9.5, 0.12.6,
// 0.14.5, 0.15.1, 0.15.2, 0.19.5 and 0.19.8, each tried without each distribution.
var requirements = []struct{ name, since, until string }{
	{name: "hjson"}, {name: "numpy"}, {name: "packaging"}, {name: "psutil"}, {name: "py-cpuinfo", until: "0.19.8"}, {name: "pydantic"}, {name: "tqdm"},
	{name: "msgpack", since: "0.15.2"}, {name: "einops", since: "0.16.1"},
}

func deepspeedImports(view checks.View) []checks.Finding {
	var findings []checks.Finding
	pip := remedy.Pip(view)
	for _, node := range ranks.Answering(view) {
		python := node.Python
		deepspeed := python.Packages["deepspeed"]
		if deepspeed == "" {
			continue
		}
		for _, b := range importBreaks {
			other := python.Packages[b.beside]
			if b.beside == "python" {
				other = python.Version
			}
			if b.strikes(deepspeed, other) && (b.fix != "setuptools" || python.Packages["setuptools"] == "") {
				f := checks.Finding{
					Nodes:    []string{node.Name},
					Summary:  fmt.Sprintf("deepspeed %s cannot be imported with %s %s", deepspeed, b.beside, other),
					WouldSee: b.message,
					Remedy:   []fix.Command{pip.Run("install -U deepspeed   # on the launching machine too")},
				}
				if b.fix != "" {
					f.Remedy = fix.Alternatives(pip.Run("install %s", fix.Package(b.fix)), f.Remedy[0])
				}
				findings = append(findings, f)
			}
		}
		var missing []string
		for _, r := range requirements {
			if hostfile.Within(deepspeed, r.since, r.until) && python.Packages[r.name] == "" {
				missing = append(missing, r.name)
			}
		}
		findings = append(findings, lacksRequirements(view, node, "pydantic")...)
		findings = append(findings, lacksRequirements(view, node, "deepspeed")...)
		if missing != nil {
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  "deepspeed cannot be imported without " + strings.Join(missing, ", "),
				Got:      "deepspeed " + deepspeed,
				WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", strings.TrimPrefix(missing[0], "py-")), // Python stops at the first missing module
				Remedy:   []fix.Command{pip.Run("install %s", fix.List[fix.Name](" ", missing))},
			})
		}
	}
	return findings
}

var DeepSpeedConfig = checks.Check{
	ID:       "deepspeed-config",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Run:      judgeConfig,
}

func judgeConfig(view checks.View) []checks.Finding {
	config := view.Launch.Config
	if config == nil {
		if i := slices.IndexFunc(view.Launch.Files, func(f facts.LaunchFile) bool { return f.Role == facts.RoleConfig }); i >= 0 {
			named := view.Launch.Files[i]
			return []checks.Finding{checks.UnknownFor(view.Head, fmt.Sprintf("%s could not be read: %s", named.Path, whyUnread(view.Head, named)))}
		}
		if own := view.Launch.SwiftConfig(); own != "" {
			return checks.Skipped(fmt.Sprintf("%s is a DeepSpeed configuration inside ms-swift, which preflight does not read: use --deepspeed FILE.json to check one", own))
		}
		return checks.Skipped("the command names no DeepSpeed configuration")
	}
	var findings []checks.Finding
	for _, problem := range config.Problems {
		f := checks.Finding{
			Summary:  problem.Message,
			Got:      config.Path,
			WouldSee: problem.Original,
			Remedy:   []fix.Command{fix.Here("grep -n %s %s   # shows the line to change", fix.Operand(problem.Key[strings.LastIndex(problem.Key, ".")+1:]), fix.Path(config.Path)).As(fix.Look)},
		}
		if problem.Key == "" {
			f.Remedy = []fix.Command{fix.Here("python3 -m json.tool %s   # shows where the syntax is wrong", fix.Path(config.Path)).As(fix.Look)}
		}
		if !problem.Fatal {
			f.Verdict, f.WouldSee = checks.Warn, "nothing: training runs as if the setting were not there"
		}
		findings = append(findings, f)
	}
	return findings
}

// whyUnread returns the reason why the text of a configuration file is not available.
func whyUnread(head *facts.Node, named facts.LaunchFile) string {
	switch file := ranks.FileAt(head, named); {
	case file == nil && head.Missing[facts.SectionFiles] != "":
		return "files: " + compare.Shown(head.Missing[facts.SectionFiles])
	case file == nil:
		return "the file was not checked"
	case !file.Exists:
		return "no such file on the launching machine"
	case file.Problem != "":
		return file.Problem
	case file.Kind != "file":
		return "not a file but a " + file.Kind
	case file.Size == 0:
		return "the file is empty"
	case file.Hjson != nil:
		return "not JSON, and the launch's interpreter cannot read it as Hjson: " + compare.Shown(file.Hjson.Unknown)
	}
	return "the file is too large or not text"
}
