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
	causes []string
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
	for _, id := range t.causes {
		if view.Reported(id)[node.Name] {
			ids = append(ids, id)
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
		[]string{"gpu-driver-loads", "gpu-driver-runs-cuda", "gpu-fabric"}},
	{"the GPUs", regexp.MustCompile(`^(gpu|nvml)\.`), gpusBack,
		[]string{"gpu-driver-loads", "slots-fit", "gpu-count", "gpu-model-same", "gpu-healthy", "gpu-mode", "gpu-throttle", "gpu-links", "gpu-peer-access", "gpu-fabric"}},
	{"the python environment", regexp.MustCompile(`^python\.`), packagesBack, []string{"python-same", "protobuf-works", "nccl-loaded"}},
	{"the MTU", mtuFact, mtuBack, []string{"path-mtu"}},
	{"the network interfaces", regexp.MustCompile(`^net\.interfaces`), nicBack, []string{"nic-choice", "node-mesh"}},
	{"the network settings", regexp.MustCompile(`^net\.`), nil, nil},
	{"/dev/shm", regexp.MustCompile(`^shm\.`), shmBack, []string{"shm-size", "shm-writable", "shm-limits"}},
	{"InfiniBand", regexp.MustCompile(`^ib\.`), nil, []string{"ib-links", "ib-same"}},
	{"the system", regexp.MustCompile(`^host\.`), nil, nil},
	{"the resource limits", regexp.MustCompile(`^limits\.`), nil, []string{"memlock-limit", "open-files-limit"}},
	{"the memory", regexp.MustCompile(`^memory\.`), nil, []string{"memory-available"}},
	{"the file systems", regexp.MustCompile(`^disk\.`), nil, []string{"disk-space"}},
	{"the environment", regexp.MustCompile(`^env\.`), nil, []string{"env-sane"}},
	{"the compilers", regexp.MustCompile(`^toolchain\.`), nil, []string{"deepspeed-ops"}},
	{"the way in by ssh", regexp.MustCompile(`^ssh\.`), nil, nil},
	{"something else", regexp.MustCompile(``), nil, nil},
}

// silent is the topic of all that a driver out of order no longer shows.
var silent = topic{"the NVIDIA driver", regexp.MustCompile(`^(gpu|nvml)\.`), func(deed) []fix.Command {
	return []fix.Command{fix.Here("preflight checks gpu-driver-loads   # what it takes to get it back")}
}, []string{"gpu-driver-loads"}}

// topicsOf are the topics of what changed on a node.
func topicsOf(node *facts.Node) []topic {
	if node.NVML != nil && node.NVML.Failure != nil {
		return append([]topic{silent}, topics...)
	}
	return topics
}
