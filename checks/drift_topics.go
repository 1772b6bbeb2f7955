package checks

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// topic is facts that change together because of one deed.
type topic struct {
	what  string // a plural or a singular that "changed" follows
	facts *regexp.Regexp
	// back is how the deed is undone on a node; nil where only a person can tell.
	back func(View, *facts.Node, []Change) []string
}

// topics are tried in this order, and together take every fact: what is left over is
// the last one's.
var topics = []topic{
	{"the NVIDIA driver", regexp.MustCompile(`^nvml\.(driver|library|cuda)$|^gpu\.(module|open_module|modules|libcuda|fabric_manager)\b`), driverBack},
	{"the GPUs", regexp.MustCompile(`^(gpu|nvml)\.`), nil},
	{"the python environment", regexp.MustCompile(`^python\.`), packagesBack},
	{"the MTU", mtuFact, mtuBack},
	{"the network interfaces", regexp.MustCompile(`^net\.interfaces\.`), nil},
	{"the network settings", regexp.MustCompile(`^net\.`), nil},
	{"/dev/shm", regexp.MustCompile(`^shm\.`), shmBack},
	{"InfiniBand", regexp.MustCompile(`^ib\.`), nil},
	{"the system", regexp.MustCompile(`^host\.`), nil},
	{"the resource limits", regexp.MustCompile(`^limits\.`), nil},
	{"the memory", regexp.MustCompile(`^memory\.`), nil},
	{"the file systems", regexp.MustCompile(`^disk\.`), nil},
	{"the environment", regexp.MustCompile(`^env\.`), nil},
	{"the compilers", regexp.MustCompile(`^toolchain\.`), nil},
	{"the way in by ssh", regexp.MustCompile(`^ssh\.`), nil},
	{"something else", regexp.MustCompile(``), nil},
}

// silent is the topic of all that a driver out of order no longer shows.
var silent = topic{"the NVIDIA driver", regexp.MustCompile(`^(gpu|nvml)\.`), func(View, *facts.Node, []Change) []string {
	return []string{"preflight checks " + gpuDriverLoads.ID + "   # what it takes to get it back"}
}}

// topicsOf are the topics of what changed on a node.
func topicsOf(node *facts.Node) []topic {
	if node.NVML != nil && node.NVML.Failure != nil {
		return append([]topic{silent}, topics...)
	}
	return topics
}

var (
	mtuFact = regexp.MustCompile(`^net\.interfaces\.(.+)\.mtu$`)
	nicFact = regexp.MustCompile(`^net\.interfaces\.(.+?)(\.addresses)?$`)
	gpuFact = regexp.MustCompile(`^nvml\.cards\.\d+$`)
	digits  = regexp.MustCompile(`\d+`)

	// breaking are facts of which no other value is harmless: one node with another one
	// cannot talk to its peers, or not start.
	breaking = regexp.MustCompile(`^nvml\.driver$|^gpu\.module$|^python\.(found$|torch\.|nccl\.|protobuf\.)|^python\.packages\.(torch|protobuf|nvidia-nccl-[a-z0-9-]+)$`)
	// failures are facts that are there when something is out of order.
	failures = regexp.MustCompile(`^nvml\.(cards\.\d+\.)?failure\.`)
	// able are those that say false when something is not usable any more.
	able = regexp.MustCompile(`^shm\.(exists|mounted|writable)$`)
)

// breaks is whether a change ends launches. A node that newly has a thing breaks none
// by that, but for a package that the others lack.
func breaks(node *facts.Node, c Change) bool {
	switch {
	case breaking.MatchString(c.Fact):
		return true
	case mtuFact.MatchString(c.Fact):
		return leadsAway(node, mtuFact.FindStringSubmatch(c.Fact)[1])
	case failures.MatchString(c.Fact):
		return c.came()
	case able.MatchString(c.Fact):
		return string(c.After) == "false"
	case c.Fact == "gpu.devices":
		return entriesIn(c.After) < entriesIn(c.Before)
	case c.Fact == "shm.size":
		return sizeIn(c.After) < sizeIn(c.Before)
	case gpuFact.MatchString(c.Fact):
		return c.gone()
	case nicFact.MatchString(c.Fact):
		// An interface that has gone, or that has no address any more.
		part := nicFact.FindStringSubmatch(c.Fact)
		whole := string(c.Before) == present || part[2] != ""
		return c.gone() && whole && !facts.Interface{Name: part[1]}.ForContainers()
	}
	return false
}

// leadsAway is whether ranks may talk by an interface: it leads to the other nodes, or
// could.
func leadsAway(node *facts.Node, name string) bool {
	if name == peerInterface(node) {
		return true
	}
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == name })
	return at < 0 || !node.Net.Interfaces[at].Internal()
}

// entriesIn is how many entries a list has, 0 for one that is not there.
func entriesIn(list json.RawMessage) int {
	var entries []any
	if json.Unmarshal(list, &entries) != nil {
		return 0
	}
	return len(entries)
}

// sizeIn is a number of bytes, 0 for one that is not there.
func sizeIn(size json.RawMessage) int64 {
	bytes, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

// inWords is a change's value now and before: sizes in the unit that tells them apart, of
// lists what the other one lacks.
func inWords(c Change) (now, then string) {
	var is, was []string
	if json.Unmarshal(c.After, &is) == nil && json.Unmarshal(c.Before, &was) == nil && len(is)*len(was) > 0 {
		return beyond(is, was), beyond(was, is)
	}
	after, errAfter := strconv.ParseInt(string(c.After), 10, 64)
	before, errBefore := strconv.ParseInt(string(c.Before), 10, 64)
	if facts.Unit(c.Fact) == "bytes" && errAfter == nil && errBefore == nil && after >= 0 && before >= 0 {
		return apart(after, before)
	}
	return plainValue(c.After), plainValue(c.Before)
}

// beyond is what a list has that another has not.
func beyond(list, other []string) string {
	extra := slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return slices.Contains(other, entry) })
	switch {
	case len(extra) > 0:
		return "with " + strings.Join(extra, ", ")
	case len(list) < len(other):
		return "without it"
	}
	return "in the order " + strings.Join(list, ", ")
}

// byMemory are the facts that follow the kernel's account of the memory, for want of a
// setting: the size of a tmpfs, and how many files and processes there may be.
//
// Source: Linux, mm/shmem.c, shmem_default_max_blocks; fs/file_table.c, files_maxfiles_init;
// kernel/fork.c, set_max_threads and fork_init.
var byMemory = []string{"memory.total", "shm.size", "limits.file_max", "limits.nproc.soft", "limits.nproc.hard"}

// negligible is a change of what follows the kernel's account of the memory: that changes
// by some pages with every new kernel, and from boot to boot.
func negligible(c Change) bool {
	const share = 100 // of which one part may go or come
	now, then := sizeIn(c.After), sizeIn(c.Before)
	return slices.Contains(byMemory, c.Fact) && min(now, then) > 0 && max(now, then)-min(now, then) <= then/share
}

// plainValue is JSON as a person reads it: text without its quotation marks, a list of
// texts without its brackets.
func plainValue(raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case len(raw) == 0:
		return "absent"
	case json.Unmarshal(raw, &list) == nil && len(list) > 0:
		return strings.Join(list, ", ")
	case json.Unmarshal(raw, &text) == nil && text != "":
		return text
	}
	return string(raw)
}

// driverBack installs the version that was there.
func driverBack(_ View, node *facts.Node, changes []Change) []string {
	at := slices.IndexFunc(changes, func(c Change) bool {
		return (c.Fact == "nvml.driver" || c.Fact == "gpu.module") && plainValue(c.Before) != `""`
	})
	if at < 0 || changes[at].came() || node.NVML == nil {
		return nil
	}
	kind := ""
	if node.GPU != nil && node.GPU.OpenModule {
		kind = "open"
	}
	return []string{exactDriver(node, plainValue(changes[at].Before), kind)}
}

// packagesBack has pip install what was there, and remove what was not.
func packagesBack(view View, node *facts.Node, changes []Change) []string {
	var d difference
	for _, c := range changes {
		if name, is := strings.CutPrefix(c.Fact, "python.packages."); is && node.Python.Found {
			was := ""
			if !c.came() {
				was = plainValue(c.Before)
			}
			d.Deviations = append(d.Deviations, deviation{Name: name, Want: was})
		}
	}
	if d.Deviations == nil {
		return nil
	}
	return pipFix(view, d)
}

func mtuBack(_ View, _ *facts.Node, changes []Change) (fix []string) {
	for _, c := range changes {
		name := mtuFact.FindStringSubmatch(c.Fact)[1]
		fix = append(fix, fmt.Sprintf("{ssh} sudo ip link set dev %s mtu %s   # until the next boot", remoteWord(name), plainValue(c.Before)))
	}
	return fix
}

// shmBack makes it as large as it was.
func shmBack(_ View, node *facts.Node, changes []Change) []string {
	at := slices.IndexFunc(changes, func(c Change) bool { return c.Fact == "shm.size" })
	if at < 0 || !breaks(node, changes[at]) {
		return nil
	}
	return enlargeSHM(node, sizeIn(changes[at].Before))
}
