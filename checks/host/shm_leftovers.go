package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// staleAfter is the age in seconds from which an unmapped segment is a
// leftover: a live program makes its segments known to others within moments.
const staleAfter = 600

// segmentNames are the starts of names that programs of a training job give to
// what they share, and remove themselves when they end in order.
var segmentNames = []string{
	"nccl-",                               // NCCL
	"torch_",                              // torch.multiprocessing, DataLoader workers
	"psm_", "pym-", "sem.mp-", "sem.loky", // python's multiprocessing, joblib
	"cuda.shm.",                                                         // the CUDA driver
	"ucx_shm_posix_", "vader_segment.", "sm_segment.", "mpich_shar_tmp", // UCX, Open MPI, MPICH
	"__KMP_REGISTERED_LIB_", // OpenMP
}

var SHMLeftovers = checks.Check{
	ID:       "shm-leftovers",
	Title:    "/dev/shm is free of segments that ended programs left behind",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Doc: "A killed job leaves its segments in /dev/shm, where they count against its size until somebody removes them. Named here are those that " +
		"carry a name NCCL, torch, python or MPI gives, that no process maps, and that are older than ten minutes. Files of other names are " +
		"never named: somebody may have put them there on purpose.",
	WouldSee: "Error: failed to extend /dev/shm/nccl-XXXXXX to 33030532 bytes, error: No space left on device (28)",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, node := range v.Nodes {
			left, untold := leftovers(node)
			if len(left) > 0 {
				findings = append(findings, leftBehind(node, left))
			}
			if untold > v.Policy.SHMHeadroom {
				findings = append(findings, checks.UnknownFor(node, "segments of other users take "+humanize.IBytes(uint64(untold))+
					", and only root can see whether a process still maps them"))
			}
		}
		return findings
	},
}

// leftovers is what ended programs left on a node, and the bytes in segments of
// which that cannot be told. Nobody but root maps a segment of somebody else,
// so one of our own that none of our processes has is left over.
func leftovers(node *facts.Node) (left []facts.Segment, untold int64) {
	for _, segment := range node.SHM.Segments {
		named := slices.ContainsFunc(segmentNames, func(start string) bool { return strings.HasPrefix(segment.Name, start) })
		ours := node.Host != nil && segment.Owner == node.Host.User
		switch {
		case !named || segment.Age < staleAfter || segment.Mapped != nil && *segment.Mapped:
		case segment.Mapped != nil || ours:
			left = append(left, segment)
		default:
			untold += segment.Size
		}
	}
	return left, untold
}

func leftBehind(node *facts.Node, left []facts.Segment) checks.Finding {
	const atMost = 20 // names in one command
	var total int64
	var names []string
	sudo := fix.Code("")
	for _, segment := range left {
		total += segment.Size
		if len(names) == atMost || !fix.IsPlain(segment.Name) || strings.Contains(segment.Name, "/") {
			continue // a name that a shell would take apart, or that leads elsewhere, is not put into a command
		}
		names = append(names, "/dev/shm/"+segment.Name)
		if node.Host == nil || segment.Owner != node.Host.User {
			sudo = fix.Code("sudo ")
		}
	}
	finding := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: "ended programs left segments in /dev/shm",
		Got:     fmt.Sprintf("%s in %s that no process maps, of %s in all", humanize.IBytes(uint64(total)), english.Plural(len(left), "segment", ""), humanize.IBytes(uint64(node.SHM.Size))),
		Remedy:  []fix.Command{fix.On("ls -lSh /dev/shm")},
	}
	if len(names) > 0 {
		finding.Remedy = []fix.Command{fix.On("%srm -f %s", sudo, fix.List[fix.Name](" ", names))}
	}
	return finding
}
