package checks

import (
	"regexp"

	"preflight/checks/fix"
	"preflight/facts"
)

// topic is facts that change together because of one deed.
type topic struct {
	what  string // a plural or a singular that "changed" follows
	facts *regexp.Regexp
	// back is how the deed is undone on a node; nil where only a person can tell.
	back func(deed) []fix.Command
	// causes are the checks whose findings may be what changed: then the node is to be
	// mended, and not the baseline.
	causes []Check
}

// deed is what changed on a node of one topic.
type deed struct {
	view         View
	before, node *facts.Node
	changes      []Change
}

// explained names the checks of this run that find on the node what a topic's changes may
// come from, none where nothing does.
func (t topic) explained(view View, node *facts.Node) []fix.Command {
	var ids []string
	for _, check := range t.causes {
		if view.found[check.ID][node.Name] {
			ids = append(ids, check.ID)
		}
	}
	if ids == nil {
		return nil
	}
	return []fix.Command{fix.Note("see %s in this report first: until that is mended, a new baseline takes the fault for what is good", fix.List[fix.Text](", ", ids))}
}

// topics are tried in this order, and together take every fact: what is left over is
// the last one's.
var topics = []topic{
	{"the NVIDIA driver", regexp.MustCompile(`^nvml\.(driver|library|cuda)$|^gpu\.(module|open_module|modules|libcuda|fabric_manager)\b`), driverBack,
		[]Check{gpuDriverLoads, gpuDriverRunsCUDA, gpuFabric}},
	{"the GPUs", regexp.MustCompile(`^(gpu|nvml)\.`), gpusBack,
		[]Check{gpuDriverLoads, slotsFit, gpuCount, gpuModelSame, gpuHealthy, gpuMode, gpuThrottle, gpuLinks, gpuPeerAccess, gpuFabric}},
	{"the python environment", regexp.MustCompile(`^python\.`), packagesBack, []Check{pythonSame, protobufWorks, ncclLoaded}},
	{"the MTU", mtuFact, mtuBack, []Check{pathMTU}},
	{"the network interfaces", regexp.MustCompile(`^net\.interfaces`), nicBack, []Check{nicChoice, nodeMesh}},
	{"the network settings", regexp.MustCompile(`^net\.`), nil, nil},
	{"/dev/shm", regexp.MustCompile(`^shm\.`), shmBack, []Check{shmSize, shmWritable, shmLimits}},
	{"InfiniBand", regexp.MustCompile(`^ib\.`), nil, []Check{ibLinks, ibSame}},
	{"the system", regexp.MustCompile(`^host\.`), nil, nil},
	{"the resource limits", regexp.MustCompile(`^limits\.`), nil, []Check{memlockLimit, openFilesLimit}},
	{"the memory", regexp.MustCompile(`^memory\.`), nil, []Check{memoryAvailable}},
	{"the file systems", regexp.MustCompile(`^disk\.`), nil, []Check{diskSpace}},
	{"the environment", regexp.MustCompile(`^env\.`), nil, []Check{envSane}},
	{"the compilers", regexp.MustCompile(`^toolchain\.`), nil, []Check{deepspeedOps}},
	{"the way in by ssh", regexp.MustCompile(`^ssh\.`), nil, nil},
	{"something else", regexp.MustCompile(``), nil, nil},
}

// silent is the topic of all that a driver out of order no longer shows.
var silent = topic{"the NVIDIA driver", regexp.MustCompile(`^(gpu|nvml)\.`), func(deed) []fix.Command {
	return []fix.Command{fix.Here("preflight checks %s   # what it takes to get it back", fix.Name(gpuDriverLoads.ID))}
}, []Check{gpuDriverLoads}}

// topicsOf are the topics of what changed on a node.
func topicsOf(node *facts.Node) []topic {
	if node.NVML != nil && node.NVML.Failure != nil {
		return append([]topic{silent}, topics...)
	}
	return topics
}
