package checks

import (
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// machineID is the fact that tells one machine from another under the same name.
const machineID = "host.machine_id"

// changesOf are the changes of one node that both looks have, by the name of the fact.
func changesOf(was, is *facts.Node) []Change {
	var changes []Change
	for _, section := range facts.Sections() {
		if !was.Has(section) || !is.Has(section) {
			continue
		}
		launched := []string{workDir(was), workDir(is)}
		before, after := valuesOf(was, section, launched), valuesOf(is, section, launched)
		whole := whollyMoved(was, is, section, before, after)
		for path := range union(before, after) {
			asked := isLookup(path) && (before[path] == "" || after[path] == "")
			if before[path] == after[path] || asked || ofAnotherLaunch(path, was, is) || keptSilent(path, was) || keptSilent(path, is) {
				continue
			}
			if c, ok := whole.change(is.Name, path, before[path], after[path]); ok && !negligible(c) {
				changes = append(changes, c)
			}
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Fact, b.Fact) })
	return slices.CompactFunc(changes, func(a, b Change) bool { return a.Fact == b.Fact })
}

// valuesOf are the facts of a section that may be compared over time, and between launches
// from these directories.
func valuesOf(node *facts.Node, section facts.Section, launched []string) map[string]string {
	values := map[string]string{}
	node.EachComparable(section, func(path, value string) { values[path] = value })
	switch {
	case section == facts.SectionHost && node.Host.MachineID != "":
		values[machineID] = string(quoted(node.Host.MachineID))
	case section == facts.SectionNVML:
		for _, card := range node.NVML.Cards {
			if card.UUID != "" {
				values["nvml.cards."+strconv.Itoa(card.Index)+".uuid"] = string(quoted(card.UUID))
			}
		}
	case section == facts.SectionNet:
		compareInterfaces(node.Net, values)
	case section == facts.SectionPython:
		// A launch puts its own directory first, and launches come from many.
		own := func(directory string) bool { return slices.Contains(launched, directory) }
		if paths := slices.DeleteFunc(slices.Clone(node.Python.SysPath), own); len(paths) > 0 {
			values["python.sys_path"] = string(quoted(paths))
		}
	}
	return values
}

// compareInterfaces adds the IPv4 addresses of interfaces to their values, and leaves out
// what follows the containers that run.
func compareInterfaces(net *facts.Net, values map[string]string) {
	for _, nic := range net.Interfaces {
		at := "net.interfaces." + nic.Name
		switch {
		case nic.Passing():
			for path := range values {
				if rest, of := strings.CutPrefix(path, at+"."); of && !strings.Contains(rest, ".") {
					delete(values, path)
				}
			}
		case nic.ForContainers():
			delete(values, at+".running")
			delete(values, at+".speed")
		case len(nic.IPv4()) > 0 && !nic.Loopback:
			values[at+".addresses"] = string(quoted(nic.IPv4()))
		}
	}
}

// ofAnotherLaunch is whether a fact tells of the working directory, and the launches of
// the two looks had not the same.
func ofAnotherLaunch(path string, was, is *facts.Node) bool {
	return (strings.HasPrefix(path, "disk.places.workdir.") || strings.HasPrefix(path, "files.workdir.")) && workDir(was) != workDir(is)
}

// keptSilent is whether a fact is one of those that a driver or a GPU out of order does not
// tell: that it is out of order is the change.
func keptSilent(path string, node *facts.Node) bool {
	topology := path == "nvml.topology"
	if node.NVML == nil || !topology && !strings.HasPrefix(path, "nvml.cards.") {
		return false
	}
	return node.NVML.Failure != nil || slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		rest, its := strings.CutPrefix(path, "nvml.cards."+strconv.Itoa(card.Index)+".")
		return card.Failure != nil && (topology || its && !strings.HasPrefix(rest, "failure."))
	})
}

// workDir is where the launch works on a node, "" for not seen.
func workDir(node *facts.Node) string {
	if node.Files == nil {
		return ""
	}
	return node.Files.WorkDir.Path
}
