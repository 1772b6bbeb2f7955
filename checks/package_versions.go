package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// required is something the launch cannot do without on any node.
type required struct {
	Name    string
	Version func(*facts.Node) string // "" where it is not installed
	// Install is the command that brings a node to a version, Look the one
	// that shows what is there, for when no version is known to be right.
	Install func(version string) string
	Look    string
	Remove  string // the command that takes it away, "" for none
	Port    int    // --ssh_port, for commands to other nodes than a finding's
	Lacking string // what a rank without it dies with
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
			Fix:      r.evenOut(lack, most.Value),
		}}
	case lack != nil:
		findings = append(findings, Finding{
			Nodes:    lack,
			Summary:  r.Name + " is not installed",
			Want:     fmt.Sprintf("%s %s, as on %s", r.Name, most.Value, hostfile.Fold(most.Nodes)),
			WouldSee: r.Lacking,
			Fix:      []string{r.Install(most.Value)},
		})
	}
	for _, d := range compare(among(have, r.Name, r.Version)) {
		f := d.finding(r.Name + " versions")
		f.Fix = []string{r.Look}
		if !d.Split {
			f.Fix = []string{r.Install(d.Deviations[0].Want)}
		}
		findings = append(findings, f)
	}
	return findings
}

// evenOut takes a thing away where it is alone, or brings it to those that lack it.
func (r required) evenOut(lack []string, version string) []string {
	if r.Remove == "" {
		return []string{r.Look}
	}
	install := strings.Replace(r.Install(version), "{ssh}", remoteShell(lack, r.Port), 1)
	return []string{r.Remove, remarked(install, "or: on every node")}
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
		Install: func(version string) string { return pipInstall(view, []deviation{{Name: name, Want: version}})[0] },
		Look:    byPip(view, "list"),
		Remove:  byPip(view, "uninstall -y "+remoteWord(name)),
		Port:    view.Launch.SSHPort,
		Lacking: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", module),
	}
}
