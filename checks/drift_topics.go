package checks

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

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
	{"the network interfaces", regexp.MustCompile(`^net\.interfaces`), nil},
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
