package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// required is something the launch cannot do without on any node.
type required struct {
	Name    string
	Version func(*facts.Node) string // "" where it is not installed
	// Install is the command that brings a node to a version, Look the one
	// that shows what is there, for when no version is known to be right.
	Install func(version string) fix.Command
	Look    fix.Command
	Remove  []fix.Command // what takes it away, nil for nothing
	Lacking string        // what a rank without it dies with
}

// findings compares the versions. A node that has none is wrong unless most
// have none, and then the few that have it are the odd ones; those that have it
// are compared among themselves. What ranks of unlike versions die with is left
// to the caller.
func (r required) findings(nodes []*facts.Node) []Finding {
	var have []*facts.Node
	var held, lack []string
	for _, node := range nodes {
		if r.Version(node) == "" {
			lack = append(lack, node.Name)
			continue
		}
		have, held = append(have, node), append(held, node.Name)
	}
	if len(have) == 0 {
		return nil
	}
	var findings []Finding
	most := groupBy(have, r.Version)[0]
	switch {
	case len(lack) > len(have):
		return []Finding{{
			Nodes:    held,
			Summary:  r.Name + " is installed here and not on most nodes",
			Got:      r.Name + " " + most.Value,
			Want:     "on every node, or on none",
			WouldSee: r.Lacking + ", on the others",
			Remedy:   r.evenOut(lack, most.Value),
		}}
	case lack != nil:
		findings = append(findings, Finding{
			Nodes:    lack,
			Summary:  r.Name + " is not installed",
			Want:     fmt.Sprintf("%s %s, as on %s", r.Name, most.Value, hostfile.Fold(most.Nodes)),
			WouldSee: r.Lacking,
			Remedy:   []fix.Command{r.Install(most.Value)},
		})
	}
	for _, d := range compare(among(have, r.Name, r.Version)) {
		f := d.finding(r.Name + " versions")
		f.Remedy = []fix.Command{r.Look}
		if !d.Split {
			f.Remedy = []fix.Command{r.Install(d.Deviations[0].Want)}
		}
		findings = append(findings, f)
	}
	return findings
}

// evenOut takes a thing away where it is alone, or brings it to those that lack it.
func (r required) evenOut(lack []string, version string) []fix.Command {
	if r.Remove == nil {
		return []fix.Command{r.Look}
	}
	return append(slices.Clone(r.Remove), r.Install(version).At(lack...).Remark("or: on every node"))
}

// requiredPackage is a python package with its name on the package index.
func requiredPackage(view View, name string) required {
	module := name
	if name == "protobuf" {
		module = "google"
	}
	return required{
		Name:    name,
		Version: func(n *facts.Node) string { return n.Python.Packages[name] },
		Install: func(version string) fix.Command {
			return pip(view).Install([]fix.Requirement{{Name: name, Version: version}})[0]
		},
		Look:    pip(view).List(),
		Remove:  []fix.Command{pip(view).Run("uninstall -y %s", fix.Package(name))},
		Lacking: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", module),
	}
}
