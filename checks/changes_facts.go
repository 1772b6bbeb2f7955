package checks

import (
	"regexp"
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
		before, after := valuesOf(was, is, section), valuesOf(is, was, section)
		whole := whollyMoved(was, is, section, before, after)
		for path := range union(before, after) {
			asked := isLookup(path) && (before[path] == "" || after[path] == "")
			blank := unquoted(before[path]) == "" && unquoted(after[path]) == "" // it told nothing, and is gone with what it was part of
			if before[path] == after[path] || blank || asked || ofAnotherLaunch(path, was, is) || keptSilent(path, was) || keptSilent(path, is) {
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

// ownFacts are those that are rightly a node's own, and are compared with what the same
// node had.
var ownFacts = []string{machineID, "nvml.cards.*.uuid", "net.interfaces.*.addresses"}

// valuesOf are the facts of a section that may be compared with another look at the node.
func valuesOf(node, other *facts.Node, section facts.Section) map[string]string {
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
		compareInterfaces(node.Net, other.Net, values)
	case section == facts.SectionPython:
		delete(values, "python.sys_path")
		if paths := node.Python.InstalledPath(node.WorkDir(), other.WorkDir()); len(paths) > 0 {
			values["python.sys_path"] = string(quoted(paths))
		}
	}
	return values
}

// compareInterfaces adds the IPv4 addresses of interfaces to their values, and leaves out
// what follows the containers that run. One that is a container's in this look alone, and
// was an interface to call by in the other, has lost its address: that is a change.
func compareInterfaces(net, other *facts.Net, values map[string]string) {
	stays := func(name string) bool {
		return slices.ContainsFunc(other.Interfaces, func(i facts.Interface) bool { return i.Name == name && !i.Passing() })
	}
	for _, nic := range net.Interfaces {
		at := "net.interfaces." + nic.Name
		switch {
		case nic.Passing() && !stays(nic.Name):
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
// the two looks had not the same, or a normalized snapshot does not say.
func ofAnotherLaunch(path string, was, is *facts.Node) bool {
	ofIt := strings.HasPrefix(path, "disk.places."+facts.PlaceWorkDir+".") || strings.HasPrefix(path, "files.workdir.")
	return ofIt && was.WorkDir() != is.WorkDir()
}

// byMemory are the facts that follow the kernel's account of the memory, for want of a
// setting: the size of a tmpfs, and how many files and processes there may be. A GPU's
// memory follows what its driver keeps for itself.
//
// Source: Linux, mm/shmem.c, shmem_default_max_blocks; fs/file_table.c, files_maxfiles_init;
// kernel/fork.c, set_max_threads and fork_init.
var byMemory = regexp.MustCompile(`^(memory\.total|shm\.size|limits\.file_max|limits\.nproc\.(soft|hard)|nvml\.cards\.\d+\.memory)$`)

// negligible is a change of what follows the kernel's account of the memory: that changes
// by some pages with every new kernel, and from boot to boot.
func negligible(c Change) bool {
	now, then := sizeIn(c.After), sizeIn(c.Before)
	return byMemory.MatchString(c.Fact) && min(now, then) > 0 && max(now, then)-min(now, then) <= then/noise
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
