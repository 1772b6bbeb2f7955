// SPDX-License-Identifier: Apache-2.0

package software

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

var ProtobufSame = checks.Check{
	ID:       "protobuf-same",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run: func(view checks.View) []checks.Finding {
		if isNowhere(view, "protobuf") { // other packages install protobuf if they need it
			return ranks.Nowhere(view, "protobuf")
		}
		minor := func(n *facts.Node) string { return hostfile.Release(n.Python.Packages["protobuf"], 2) }
		absent, unlike := judgePackage(view, "protobuf")
		for i := range unlike {
			if len(compare.GroupBy(ranks.Answering(view), minor)) == 1 {
				unlike[i].Verdict = checks.Warn
				unlike[i].WouldSee = "usually nothing"
			}
		}
		return append(absent, unlike...)
	},
}

var PackagesSame = checks.Check{
	ID:       "packages-same",
	Volatile: true,
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgePackages,
}

func judgePackages(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	names := map[string]bool{}
	for _, node := range nodes {
		for name := range node.Python.Packages {
			names[name] = true
		}
	}
	var all []compare.Comparison
	var findings []checks.Finding
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if hasOwnCheck(name) || name == mpi4py && view.Launch.DiscoversMaster() {
			continue
		}
		among := nodes
		if slices.Contains(view.Launch.Imports, name) { // a node without the package cannot take part
			wanted := requiredPackage(view, name)
			have, lack := wanted.split(nodes)
			if lack != nil {
				f := wanted.absent(view, have, lack)
				f.Verdict = checks.Fail
				findings = append(findings, f)
			}
			among = have
		}
		version := recorded(view, compare.Among(among, name, func(n *facts.Node) string { return n.Python.Packages[name] }))
		all = append(all, compare.ByPolicy(view, version, compare.PackagePath(name))...)
	}
	for _, name := range view.Launch.Imports {
		if !hasOwnCheck(name) && len(nodes) > 0 && !names[name] && view.Launch.Interpreter != "" {
			f := nowhere(view, name)[0]
			f.Verdict = checks.Fail
			findings = append(findings, f)
		}
	}
	findings = slices.Concat(findings, damagedImports(view, nodes), brokenImports(view, nodes, false), lacksMPI4Py(view, nodes))
	for _, node := range nodes {
		if slices.Contains(view.Launch.Imports, "accelerate") {
			findings = append(findings, lacksRequirements(view, node, "accelerate")...)
		}
	}
	if len(all) == 0 && findings == nil {
		return ranks.Nowhere(view, "any of the other packages")
	}
	for _, d := range compare.Differences(all...) {
		f := d.Finding("packages")
		f.Remedy = pipFix(view, d)
		findings = append(findings, f)
	}
	return findings
}

// damagedImports returns findings for damaged packages that neither torch nor DeepSpeed needs. They
// fail only if the launch or the script imports the package.
func damagedImports(view checks.View, nodes []*facts.Node) (findings []checks.Finding) {
	var modules []string
	for _, node := range nodes {
		for _, d := range node.Python.Damaged {
			if d.Module != "torch" && d.Module != "deepspeed" {
				modules = append(modules, d.Module)
			}
		}
	}
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		for _, f := range damaged(view, nodes, module) {
			at := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == f.Nodes[0] })
			isImported := slices.Contains(view.Launch.Imports, module) || slices.Contains(importsOf(view, nodes[at]), module)
			switch {
			case f.Verdict == "" && isImported:
				f.Verdict = checks.Fail
			case !isImported:
				f.Verdict = checks.Warn
				f.WouldSee += ", unless the launch does not import " + module
			}
			findings = append(findings, f)
		}
	}
	return findings
}

func hasOwnCheck(name string) bool {
	return slices.Contains([]string{"torch", "deepspeed", "protobuf"}, name) || strings.HasPrefix(name, "nvidia-nccl")
}

const mpi4py = "mpi4py"

// lacksMPI4Py returns a finding for the nodes without mpi4py, which DeepSpeed needs to query MPI.
// If no node has mpi4py and the script does not name DeepSpeed, it is not known whether mpi4py is
// needed.
//
// Source: deepspeed/comm/comm.py, mpi_discovery, 0.6.0 to 0.19.8.
func lacksMPI4Py(view checks.View, nodes []*facts.Node) []checks.Finding {
	if !view.Launch.DiscoversMaster() {
		return nil
	}
	f := checks.Finding{
		Verdict: checks.Fail, Summary: mpi4py + " is not installed",
		Want:     fmt.Sprintf("mpi4py, with which DeepSpeed gets its ranks and the rendezvous address from MPI under --launcher %s", view.Launch.Launcher),
		WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", mpi4py),
		Remedy:   []fix.Command{remedy.Pip(view).Run("install mpi4py   # built with the MPI of the launch")},
	}
	asks := false
	for _, node := range nodes {
		if node.Python.Packages[mpi4py] == "" {
			f.Nodes = append(f.Nodes, node.Name)
		}
		asks = asks || view.Launch.Interpreter != "" && callsDeepSpeed(view, node)
	}
	switch {
	case f.Nodes == nil:
		return nil
	case len(f.Nodes) == len(nodes) && !asks:
		return []checks.Finding{{Verdict: checks.Pass, Summary: fmt.Sprintf("no node has %s; if the script uses DeepSpeed, it cannot get its ranks from MPI", mpi4py)}}
	}
	return []checks.Finding{f}
}

// judgePackage compares one package that at least one node has: see [required.findings].
func judgePackage(view checks.View, name string) (absent, unlike []checks.Finding) {
	return requiredPackage(view, name).findings(view, compare.AsStated(view, ranks.Answering(view), compare.PackagePath(name)))
}

// recorded adds the value of the baseline to a comparison of what Python has. It adds nothing if some
// node had no Python then.
func recorded(view checks.View, c compare.Comparison) compare.Comparison {
	found := c.Recorded(view, facts.SectionPython, func(n *facts.Node) string { return strconv.FormatBool(n.Python.Found) }).Baseline
	if found == nil || *found != "true" {
		return c
	}
	return c.Recorded(view, facts.SectionPython, c.Value)
}

// pipFix returns the commands that give nodes the package versions of most nodes. If there is no
// majority, it returns both choices.
func pipFix(view checks.View, d compare.Difference) []fix.Command {
	install := func(d compare.Difference) []fix.Command { return fix.Steps(remedy.PipFix(view, d)...) }
	if !d.Split {
		return install(d)
	}
	if either := remedy.EitherWay(d, install); either != nil {
		return either
	}
	return []fix.Command{listed(view)}
}

// listed returns the command that shows the installed packages.
func listed(view checks.View) fix.Command { return remedy.Pip(view).List().As(fix.Look) }

func isNowhere(view checks.View, name string) bool {
	return !slices.ContainsFunc(ranks.Answering(view), func(n *facts.Node) bool { return n.Python.Packages[name] != "" })
}

// nowhere returns the findings for a package that no node has although most launches need it. The
// check fails if the launch itself imports the package, and the nodes looked for it with the
// launch's interpreter. Otherwise the result is unknown.
func nowhere(view checks.View, name string) []checks.Finding {
	p, nodes := view.Launch, ranks.Answering(view)
	if len(nodes) == 0 {
		return ranks.Nowhere(view, name)
	}
	wanted := requiredPackage(view, name)
	f := checks.Finding{Summary: "no node has " + name, WouldSee: wanted.Lacking}
	f.Nodes = checks.NamesOf(nodes)
	python := compare.Shown(nodes[0].Python.Path)
	if p.InterpreterFrom != "" {
		python += fmt.Sprintf(" (from %s)", compare.Shown(p.InterpreterFrom))
	}
	f.Remedy = wanted.install(view, onHead(view, name), nodes)
	elsewhere := ""
	if name == "torch" {
		elsewhere = Elsewhere(nodes)
	}
	if elsewhere != "" {
		f.Remedy = []fix.Command{fix.Note("start the launch with %s, which has torch on every node", fix.Path(elsewhere))}
	}
	if wanted.Imported && p.Interpreter != "" {
		f.Got = cmp.Or(wanted.left(nodes), "no "+name) + " for " + python
		f.Want = name + ", which the launch imports on every node"
		return []checks.Finding{f}
	}
	f.Verdict, f.WouldSee = checks.Unknown, ""
	if elsewhere != "" {
		f.Summary = fmt.Sprintf("no node has torch for %s, but all nodes have torch for %s", python, compare.Shown(elsewhere))
		f.Remedy = []fix.Command{fix.Here("preflight -H {hostfile} --python %s   # checks the launch with this interpreter", fix.Path(elsewhere))}
		return []checks.Finding{f}
	}
	f.Summary = fmt.Sprintf("no node has %s for %s; ", name, python)
	switch {
	case p.Interpreter == "":
		f.Summary += "if the launch uses another interpreter, name it with --python PATH"
	case p.Imports == nil:
		f.Summary += "give the launch command after --, so that preflight knows whether the launch imports it"
	default:
		f.Summary += "the launch script may or may not import it"
	}
	f.Summary += fmt.Sprintf("; use --skip %s-same if the launch does not need it", name)
	return []checks.Finding{f}
}

// Elsewhere returns the interpreter, other than the launch's, that has torch on all nodes. It
// returns "" if there is none, or more than one.
func Elsewhere(nodes []*facts.Node) string {
	var common []string
	for i, node := range nodes {
		if node.Python == nil {
			return ""
		}
		if i == 0 {
			common = slices.Clone(node.Python.Elsewhere)
		}
		common = slices.DeleteFunc(common, func(python string) bool { return !slices.Contains(node.Python.Elsewhere, python) })
	}
	if len(common) != 1 {
		return ""
	}
	return common[0]
}

// onHead returns the version of a package that the launch's interpreter has on the launching
// machine, or "" if none was found.
func onHead(view checks.View, name string) string {
	if view.Head == nil || view.Head.Python == nil {
		return ""
	}
	return view.Head.Python.Packages[name]
}

// required is a package or library that the launch needs on every node.
type required struct {
	Name    string
	Version func(*facts.Node) string // returns "" if it is not installed
	Install func(pip fix.Pip, version string) fix.Command
	// IsBare reports whether a node has only the metadata of the package. pip considers such a
	// package installed.
	IsBare  func(*facts.Node) bool
	Remove  []fix.Command // the commands that remove it, nil for none
	Lacking string        // the error of a rank on a node without it

	Imported bool // the launch imports it on every node, possibly in the launch's script
}

// findings compares the versions of the nodes. A node without the package is wrong, except if most
// nodes lack it and the launch itself does not need it. In that case findings reports the few nodes
// that have it. It compares the nodes that have the package with each other. The caller fills in
// the error with which ranks with different versions end.
func (r required) findings(view checks.View, nodes []*facts.Node) (absent, unlike []checks.Finding) {
	have, lack := r.split(nodes)
	if len(have) == 0 {
		return nil, nil
	}
	look := []fix.Command{listed(view)} // the remedy if no version is known to be right
	most := compare.GroupBy(have, r.Version)[0]
	before := recorded(view, compare.Among(nodes, r.Name, r.Version)).Baseline
	without := before == nil && len(lack) > len(have) || before != nil && *before == ""
	switch {
	case without && lack != nil && !r.Imported:
		evenOut := look
		if r.Remove != nil { // the alternative is only a remark, because people paste all commands one after the other
			evenOut = []fix.Command{r.Remove[0].Remark("or install %s on every node", fix.Text(r.Name+" "+most.Value))}
		}
		who := "most nodes do"
		if before != nil {
			who = "the baseline does"
		}
		return []checks.Finding{{
			Nodes:    checks.NamesOf(have),
			Summary:  r.Name + " is installed, but " + who + " not have it",
			Got:      r.Name + " " + most.Value,
			Want:     "installed on every node, or on none",
			WouldSee: r.Lacking + ", on the other nodes",
			Remedy:   evenOut,
		}}, nil
	case lack != nil:
		absent = []checks.Finding{r.absent(view, have, lack)}
	}
	compared := compare.Among(have, r.Name, r.Version)
	if before != nil && *before != "" {
		compared.Baseline = before
	}
	for _, d := range compare.Differences(compared) {
		f := d.Finding(r.Name + " versions")
		f.Remedy = look
		switch {
		case d.Split:
			either := remedy.EitherWay(d, func(d compare.Difference) []fix.Command {
				return []fix.Command{r.Install(remedy.Pip(view), d.Deviations[0].Want)}
			})
			if either != nil {
				f.Remedy = either
			}
		case r.Remove != nil && remedy.HidesWanted(view, d.Nodes, d.Deviations[0]):
			f.Remedy = r.Remove
		default:
			f.Remedy = []fix.Command{r.Install(remedy.Pip(view), d.Deviations[0].Want)}
		}
		unlike = append(unlike, f)
	}
	return absent, unlike
}

func (r required) split(nodes []*facts.Node) (have, lack []*facts.Node) {
	return compare.Split(nodes, func(n *facts.Node) bool { return r.Version(n) != "" })
}

// absent returns the finding for nodes that lack the package that other nodes have.
func (r required) absent(view checks.View, have, lack []*facts.Node) checks.Finding {
	most := compare.GroupBy(have, r.Version)[0]
	version, as := most.Value, "on "+hostfile.Fold(most.Nodes)
	if before := recorded(view, compare.Among(slices.Concat(have, lack), r.Name, r.Version)).Baseline; before != nil && *before != "" {
		version, as = *before, "in the baseline"
	}
	return checks.Finding{
		Nodes:    checks.NamesOf(lack),
		Summary:  r.Name + " is not installed",
		Got:      r.left(lack),
		Want:     fmt.Sprintf("%s %s, as %s", r.Name, version, as),
		WouldSee: r.Lacking,
		Remedy:   r.install(view, version, lack),
	}
}

// install returns the commands that install a version on nodes that have no version. The version ""
// means any version.
func (r required) install(view checks.View, version string, nodes []*facts.Node) []fix.Command {
	pip := remedy.Pip(view)
	again := pip
	again.Again = true
	bare, none := r.bare(nodes)
	switch {
	case bare == nil:
		return []fix.Command{r.Install(pip, version)}
	case none == nil:
		return []fix.Command{r.Install(again, version)}
	}
	return fix.Steps(r.Install(pip, version).At(none...), r.Install(again, version).At(bare...))
}

// left describes the remains of the package on nodes where it is not fully installed.
func (r required) left(nodes []*facts.Node) string {
	bare, none := r.bare(nodes)
	switch {
	case bare == nil:
		return ""
	case none == nil:
		return "only the metadata of " + r.Name
	}
	return fmt.Sprintf("only the metadata of %s on %s", r.Name, hostfile.Fold(bare))
}

func (r required) bare(nodes []*facts.Node) (bare, none []string) {
	left, gone := compare.Split(nodes, r.IsBare)
	return checks.NamesOf(left), checks.NamesOf(gone)
}

// requiredPackage returns the requirement for a Python package. name is its name on the package
// index.
func requiredPackage(view checks.View, name string) required {
	module := name
	if name == "protobuf" {
		module = "google"
	}
	return required{
		Name:    name,
		Version: func(n *facts.Node) string { return n.Python.Packages[name] },
		Install: func(pip fix.Pip, version string) fix.Command {
			return pip.Install([]fix.Requirement{{Name: name, Version: version}})[0]
		},
		IsBare:  func(n *facts.Node) bool { return slices.Contains(n.Python.MetadataOnly, name) },
		Remove:  []fix.Command{remedy.Pip(view).Run("uninstall -y %s", fix.Package(name))},
		Lacking: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", module),

		Imported: slices.Contains(view.Launch.Imports, name) || name == "deepspeed" && scriptCallsDeepSpeed(view),
	}
}

var ProtobufWorks = checks.Check{
	ID:       "protobuf-works",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeProtobuf,
}

func judgeProtobuf(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return n.Python.Protobuf != nil }) {
		return ranks.Nowhere(view, "protobuf")
	}
	var findings []checks.Finding
	for _, node := range nodes {
		protobuf := node.Python.Protobuf
		if protobuf == nil {
			continue
		}
		if len(protobuf.OldGenerated) > 0 && !hostfile.Before(protobuf.Runtime, "4") {
			f := checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "generated code is too old for protobuf " + protobuf.Runtime,
				Got:     strings.Join(protobuf.OldGenerated, ", ") + " under protobuf " + protobuf.Runtime,
				Want:    "protobuf 3.20 or older, or newer releases of these packages",
				Remedy:  fix.Alternatives(remedy.Pip(view).Run("install -U %s", fix.List[fix.Package](" ", protobuf.OldGenerated)), remedy.Pip(view).Run("install %s", fix.Package("protobuf<=3.20.3"))),
			}
			if protobuf.Implementation == "python" {
				f.Verdict = checks.Warn
				f.Summary = "generated code loads only with the slow pure-Python protobuf"
				f.WouldSee = "nothing, as long as PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python reaches the ranks"
			}
			findings = append(findings, f)
		}
		if len(protobuf.NewGenerated) > 0 {
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  "generated code is too new for protobuf " + protobuf.Runtime,
				Got:      strings.Join(protobuf.NewGenerated, ", ") + "; installed protobuf " + protobuf.Runtime,
				Want:     "a protobuf at least as new as the generated code",
				WouldSee: "VersionError: Detected incompatible Protobuf Gencode/Runtime versions, or ImportError: cannot import name 'builder'",
				Remedy:   []fix.Command{remedy.Pip(view).Run("install -U protobuf")},
			})
		}
	}
	return findings
}
