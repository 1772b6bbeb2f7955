// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/internal/text"
)

// Changes compares two runs over a fleet, node by node in the order of the later run. The launching
// machine comes last. Changes leaves out volatile facts and sections that only one of the runs saw;
// [Unseen] returns those sections.
//
// Some facts naturally differ between nodes. They are compared with the same node's earlier value,
// except for the facts of [NeverCompared].
func Changes(before, after facts.Fleet) []checks.Change {
	changes := []checks.Change{}
	was := earlier(before.Nodes, after.Nodes)
	for i := range after.Nodes {
		node := &after.Nodes[i]
		old := was[node.Name]
		if old == nil {
			changes = append(changes, newNode(node.Name))
			continue
		}
		if old.Name != node.Name {
			changes = append(changes, otherName(old.Name, node.Name))
		}
		if standing(old) != standing(node) {
			changes = append(changes, checks.Change{Node: node.Name, Before: quoted(standing(old)), After: quoted(standing(node))})
		}
		changes = append(changes, changesOf(old, node)...)
	}
	changes = append(changes, text.Map(gone(before.Nodes, was), goneNode)...)
	return append(changes, headChanges(before.Head, after.Head)...)
}

func newNode(name string) checks.Change {
	return checks.Change{Node: name, After: json.RawMessage(`"new node"`)}
}

func goneNode(name string) checks.Change {
	return checks.Change{Node: name, Before: json.RawMessage(`"node"`)}
}

func otherName(was, is string) checks.Change {
	return checks.Change{Node: is, Fact: "name", Before: quoted(was), After: quoted(is)}
}

// headChanges returns the changes of the launchers on the launching machine. It returns nothing if
// the two runs used different launching machines, as most CI runs do.
func headChanges(before, after *facts.Node) []checks.Change {
	if !sameMachine(before, after) {
		return nil
	}
	launches, _ := compare.Split(changesOf(before, after), func(c checks.Change) bool { return compare.SectionOf(c.Fact) == facts.SectionLauncher })
	return launches
}

func sameMachine(before, after *facts.Node) bool {
	return before != nil && after != nil && idOf(before) != "" && idOf(before) == idOf(after)
}

// earlier returns the node of the earlier run for every node of the later run, by its current name.
// That is the node with the same name. If there was none, it is the machine with the same ID whose
// old name is no longer used. A new node has no entry.
func earlier(before, after []facts.Node) map[string]*facts.Node {
	was, now := byName(before), byName(after)
	nameless := map[string][]*facts.Node{} // machines whose earlier name no node has now, by their ID
	for i := range before {
		if id := idOf(&before[i]); id != "" && now[before[i].Name] == nil {
			nameless[id] = append(nameless[id], &before[i])
		}
	}
	for i := range after {
		name := after[i].Name
		// Machines made from one image may share an ID. The ID then identifies none of them.
		if former := nameless[idOf(&after[i])]; was[name] == nil && len(former) == 1 {
			was[name] = former[0]
			delete(nameless, idOf(&after[i]))
		}
	}
	maps.DeleteFunc(was, func(name string, _ *facts.Node) bool { return now[name] == nil })
	return was
}

// gone returns the names of the earlier nodes that are no longer in the fleet. was is the result of
// [earlier].
func gone(before []facts.Node, was map[string]*facts.Node) (names []string) {
	kept := map[string]bool{}
	for _, node := range was {
		kept[node.Name] = true
	}
	for i := range before {
		if name := before[i].Name; !kept[name] {
			names = append(names, name)
		}
	}
	return names
}

// FormerNames maps the current name of each node to its name in the earlier run.
func FormerNames(before, after facts.Fleet) map[string]string {
	names := map[string]string{}
	for name, node := range earlier(before.Nodes, after.Nodes) {
		names[name] = node.Name
	}
	return names
}

func idOf(node *facts.Node) string {
	if node.Host == nil {
		return ""
	}
	return node.Host.MachineID
}

func byName(nodes []facts.Node) map[string]*facts.Node {
	named := make(map[string]*facts.Node, len(nodes))
	for i := range nodes {
		named[nodes[i].Name] = &nodes[i]
	}
	return named
}

// standing describes how far the login to a node progressed.
func standing(node *facts.Node) string {
	cause := ""
	if node.SSH != nil && node.SSH.Cause != "" {
		cause = ": " + node.SSH.Cause
	}
	switch {
	case !node.Reached:
		return "not reached" + cause
	case cause != "":
		return "reached, then lost" + cause
	}
	return "reached"
}

func quoted[Words string | []string](words Words) json.RawMessage {
	text, err := json.Marshal(words)
	if err != nil {
		panic("checks: " + err.Error()) // cannot happen: a string can always be encoded
	}
	return text
}

// machineID is the fact that distinguishes machines with the same name.
const machineID = "host.machine_id"

func changesOf(was, is *facts.Node) []checks.Change {
	var changes []checks.Change
	for _, section := range facts.Sections() {
		if !was.Has(section) || !is.Has(section) || was.Same(&is.Facts, section) {
			continue
		}
		before, after := valuesOf(was, is, section), valuesOf(is, was, section)
		paths := union(before, after)
		entries := whollyMoved(was, is, section, paths)
		for path := range paths {
			asked := compare.IsLookup(path) && (before[path] == "" || after[path] == "")
			blank := unquoted(before[path]) == "" && unquoted(after[path]) == "" // a value that was empty before and disappeared together with its entry
			if before[path] == after[path] || blank || asked || !was.Records(path) || !is.Records(path) || ofAnotherLaunch(path, was, is) || keptSilent(path, was) || keptSilent(path, is) {
				continue
			}
			if c, ok := entries.change(is.Name, path, before[path], after[path]); ok && !negligible(c) {
				changes = append(changes, c)
			}
		}
	}
	slices.SortFunc(changes, func(a, b checks.Change) int { return strings.Compare(a.Fact, b.Fact) })
	return slices.CompactFunc(changes, func(a, b checks.Change) bool { return a.Fact == b.Fact })
}

func valuesOf(node, other *facts.Node, section facts.Section) map[string]string {
	values := map[string]string{}
	node.EachComparable(section, func(path, value string) { values[path] = value })
	if !slices.Contains(facts.Momentary, section) {
		node.EachOwn(section, func(path, value string) {
			if value != `""` && !isLeftOut(path) {
				values[path] = value
			}
		})
	}
	switch section {
	case facts.SectionDisk:
		compareDisks(node.Disk, other.Disk, values)
	case facts.SectionGPU:
		if other.GPU.Redirecting == nil { // nil means that the fact could not be read, not that nothing is redirecting
			delete(values, "gpu.redirecting")
		}
	case facts.SectionNet:
		compareInterfaces(node.Net, other.Net, values)
	case facts.SectionSSH:
		if other.SSH.Banner == "" { // no SSH server answered
			delete(values, "ssh.banner")
		}
	case facts.SectionPython:
		delete(values, "python.sys_path")
		if paths := node.Python.InstalledPath(append(node.LaunchedFrom(), other.LaunchedFrom()...)...); len(paths) > 0 {
			values["python.sys_path"] = string(quoted(paths))
		}
	}
	return values
}

// byBoot matches devices that the kernel numbers in the order in which it discovers them.
var byBoot = regexp.MustCompile(`^/dev/(sd|vd|xvd|hd|nvme|dm-|md|loop)`)

// ownSize lists the file systems whose size is the size of their device. The size of other file
// systems depends on quotas and on other users of a pool.
var ownSize = []string{"ext2", "ext3", "ext4", "xfs", "f2fs"}

// compareDisks leaves out device names that another boot may change. It also leaves out sizes that
// depend on other users.
func compareDisks(disk, other *facts.Disk, values map[string]string) {
	for _, place := range disk.Places {
		at := "disk.places." + place.Role
		same := slices.IndexFunc(other.Places, func(p facts.Place) bool { return p.Role == place.Role })
		if same >= 0 && byBoot.MatchString(place.Source) && byBoot.MatchString(other.Places[same].Source) {
			delete(values, at+".source")
		}
		if !slices.Contains(ownSize, place.FSType) || same >= 0 && !slices.Contains(ownSize, other.Places[same].FSType) {
			delete(values, at+".total")
		}
	}
}

// compareInterfaces leaves out everything that depends on running containers. It also leaves out
// the MAC addresses of virtual interfaces, which are random, and IPv6 addresses, which are random
// or derive from the MAC address.
//
// An interface may look like a container's only in this run although it had an address before. Such
// an interface has lost its address, and that is a change.
func compareInterfaces(net, other *facts.Net, values map[string]string) {
	stays := func(name string) bool {
		return slices.ContainsFunc(other.Interfaces, func(i facts.Interface) bool { return i.Name == name && !i.Passing() })
	}
	for _, nic := range net.Interfaces {
		at := "net.interfaces." + nic.Name
		delete(values, at+".addresses")
		if nic.Kind != "physical" {
			delete(values, at+".mac")
		}
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

// ofAnotherLaunch reports whether a fact concerns the working directory although the working
// directories cannot be compared. They cannot if the two launches had different ones, or if a
// normalized snapshot does not record its own.
func ofAnotherLaunch(path string, was, is *facts.Node) bool {
	ofIt := strings.HasPrefix(path, "disk.places."+facts.PlaceWorkDir+".") || strings.HasPrefix(path, "files.workdir.")
	return ofIt && was.WorkDir() != is.WorkDir()
}

// byMemory matches facts that the kernel derives from the memory size by default: the size of a
// tmpfs, and the limits on files and processes. It also matches the memory of a GPU, which depends
// on the amount that the driver reserves.
//
// Source: Linux, mm/shmem.c, shmem_default_max_blocks; fs/file_table.c, files_maxfiles_init;
// kernel/fork.c, set_max_threads and fork_init.
var byMemory = regexp.MustCompile(`^(memory\.total|disk\.places\.[^.]+\.total|shm\.size|limits\.file_max|limits\.nproc\.(soft|hard)|nvml\.cards\.\d+\.memory)$`)

// negligible reports whether a value changed only because the memory size changed. The memory size
// differs by some pages between kernels and boots.
func negligible(c checks.Change) bool {
	now, then := sizeIn(c.After), sizeIn(c.Before)
	return byMemory.MatchString(c.Fact) && min(now, then) > 0 && max(now, then)-min(now, then) <= then/noise
}

// keptSilent reports whether a fact is missing because of a broken driver or GPU. The failure
// itself is then the change.
func keptSilent(path string, node *facts.Node) bool {
	topology := path == "nvml.topology" || path == "nvml.peers"
	if node.NVML == nil || !topology && !strings.HasPrefix(path, "nvml.cards.") {
		return false
	}
	return node.NVML.Failure != nil || slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		rest, its := strings.CutPrefix(path, "nvml.cards."+strconv.Itoa(card.Index)+".")
		return card.Failure != nil && (topology || its && !strings.HasPrefix(rest, "failure."))
	})
}

// moved holds the list entries of two runs, to find the entries that only one run has.
type moved struct {
	known map[string]bool // entries that at least one run has
	facts map[string]int  // for each entry, the number of its facts that only one run has
}

func whollyMoved(was, is *facts.Node, section facts.Section, paths map[string]bool) moved {
	then, now := map[string]bool{}, map[string]bool{}
	was.EachEntry(section, func(path string) { then[path] = true })
	is.EachEntry(section, func(path string) { now[path] = true })
	m := moved{known: union(then, now), facts: map[string]int{}}
	for path := range paths {
		for _, entry := range m.entriesOf(path) {
			if then[entry] != now[entry] {
				m.facts[entry]++
			}
		}
	}
	return m
}

// entriesOf returns the list entries that contain a fact, the innermost entry first.
func (m moved) entriesOf(path string) (entries []string) {
	for at := len(path) - 1; at > 0; at-- {
		entry := path[:at]
		if path[at] == '.' && m.known[entry] && (entries == nil || isIn(entry, entries[0])) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// isIn reports whether an entry is inside an outer entry whose path is a prefix of the entry's
// path. There must be a list between the two, as in ib.devices.mlx5_0.ports.1. The VLAN eth0.100 is
// not inside eth0.
func isIn(outer, entry string) bool {
	list, _, more := strings.Cut(entry[len(outer)+1:], ".")
	return more && strings.Trim(list, "0123456789") != ""
}

// nameAndValue is the number of facts of an entry that consists of a name and one value, such as a
// variable. Only the value is worth reporting.
const nameAndValue = 2

// present is the value of a list entry that appeared or disappeared as a whole.
const present = `"present"`

// change returns the change of a fact, or the change of the outermost entry that appeared or
// disappeared together with the fact. ok is false for a name that only repeats its path.
func (m moved) change(node, path, before, after string) (c checks.Change, ok bool) {
	whole := ""
	for _, entry := range m.entriesOf(path) {
		if m.facts[entry] > 0 {
			whole = entry
		}
	}
	switch {
	case whole == "":
	case m.facts[whole] != nameAndValue:
		path = whole
		if before != "" {
			before = present
		}
		if after != "" {
			after = present
		}
	case strings.HasSuffix(whole, "."+strings.Trim(before+after, `"`)):
		return checks.Change{}, false
	}
	return checks.Change{Node: node, Fact: path, Before: compare.OrNull(before), After: compare.OrNull(after)}, true
}

func union[V any](a, b map[string]V) map[string]bool {
	paths := map[string]bool{}
	for _, side := range []map[string]V{a, b} {
		for path := range side {
			paths[path] = true
		}
	}
	return paths
}

// FoldChanges joins changes of a node. It joins the same changes that compare.FoldSiblings would
// join as differences between two nodes.
func FoldChanges(changes []checks.Change) []checks.Change {
	diffs := text.Map(changes, func(c checks.Change) checks.FactDiff {
		return checks.FactDiff{Fact: c.Fact, Groups: []checks.FactGroup{{Value: c.Before, Nodes: []string{"before"}}, {Value: c.After, Nodes: []string{"after"}}}}
	})
	return text.Map(compare.FoldSiblings(diffs), func(d checks.FactDiff) checks.Change {
		return checks.Change{Node: changes[0].Node, Fact: d.Fact, Before: d.Groups[0].Value, After: d.Groups[1].Value}
	})
}
