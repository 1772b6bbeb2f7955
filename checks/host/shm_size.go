package host

import (
	"cmp"
	"fmt"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

var SHMSize = checks.Check{
	ID:       "shm-size",
	Title:    "/dev/shm holds what NCCL will reserve for the ranks there, and head-room for DataLoader workers",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Doc: "The need is computed: what NCCL of the version found reserves for the ranks on the node, plus a head-room (policy shm_headroom) for the " +
		"batches DataLoader workers hand over. NCCL reserves its blocks up front, so a mount that is too small fails at the first collective. " +
		"With accelerator cpu NCCL is not used: the head-room alone counts, and its lack is warned of. A mount that is large enough but filled by others is warned of.",
	WouldSee: noRoomFor(34210180),
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		fleets := ranks.FleetNCCL(v)
		needs := map[load]need{} // large fleets are alike
		for _, node := range v.Nodes {
			on := load{cmp.Or(nccl.Version(node), fleets), node.Slots}
			if _, known := needs[on]; !known {
				needs[on] = on.need(v)
			}
			if finding, found := tooSmall(node, needs[on]); found {
				findings = append(findings, finding)
			}
		}
		return findings
	},
}

// tooSmall judges one /dev/shm by the bytes it must hold.
func tooSmall(node *facts.Node, need need) (checks.Finding, bool) {
	shm := node.SHM
	inMemory := shm.FSType == "tmpfs" || shm.FSType == ""
	if shm.Exists && min(shm.Size, shm.Free) >= need.bytes && inMemory {
		return checks.Finding{}, false
	}
	got, want := compare.Apart(shm.Size, need.bytes)
	finding := checks.Finding{
		Nodes:  []string{node.Name},
		Got:    got,
		Want:   fmt.Sprintf("at least %s: %s", want, need.arithmetic),
		Remedy: remedy.EnlargeSHM(node, need.bytes),
	}
	switch {
	case !shm.Exists:
		finding.Summary, finding.Got = noSHM, ""
		finding.WouldSee = "Call to stat failed: No such file or directory"
	case shm.Size < need.bytes:
		finding.Summary = "/dev/shm is too small"
		finding.WouldSee = noRoomFor(need.block)
		if shm.Size >= need.nccl {
			finding.WouldSee = dataLoaderDied // NCCL finds room, who comes after it does not
		}
		if need.nccl == 0 { // and not every script loads its data by workers
			finding.Verdict = checks.Warn
		}
	case shm.Free < need.bytes:
		finding.Verdict = checks.Warn
		finding.Summary = "/dev/shm is large enough but other programs fill it"
		free, want := compare.Apart(shm.Free, need.bytes)
		finding.Got = fmt.Sprintf("%s free of %s", free, got)
		finding.Want = fmt.Sprintf("at least %s: %s", want, need.arithmetic)
		if len(shm.Segments) > 0 {
			largest := shm.Segments[0]
			finding.Got += fmt.Sprintf("; the largest file is %s, %s of %s", largest.Name, humanize.IBytes(uint64(largest.Size)), largest.Owner)
		}
		finding.Remedy = []fix.Command{fix.On("ls -lSh /dev/shm | head; sudo fuser -v /dev/shm/*")}
	default:
		finding.Verdict = checks.Warn
		finding.Summary = "/dev/shm is not in memory, so what ranks share goes through a disk"
		finding.Got, finding.Want = shm.FSType, "tmpfs"
		finding.WouldSee = "nothing: training is slow, and slower on this node than on the others"
	}
	return finding, true
}

// noRoomFor is NCCL's message (misc/shmutils.cc, 2.23.4 and later): the size
// tells which kind of block found no room.
func noRoomFor(bytes int64) string {
	return fmt.Sprintf("Error: failed to extend /dev/shm/nccl-XXXXXX to %d bytes, error: No space left on device (28)", bytes)
}

// dataLoaderDied is torch's message (utils/data/_utils/signal_handling.py, 2.5).
const dataLoaderDied = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. " +
	"It is possible that dataloader's workers are out of shared memory."

const noSHM = "there is no /dev/shm"

// load is what decides how much a node's /dev/shm must hold.
type load struct {
	nccl  string // version
	ranks int
}

// need is the bytes /dev/shm must hold, those of NCCL among them, the block
// NCCL asks for at a time, and how all that comes about.
type need struct {
	bytes, nccl, block int64
	arithmetic         string
}

func (l load) need(v checks.View) need {
	headroom := fmt.Sprintf("%s head-room for DataLoader workers", humanize.IBytes(uint64(v.Policy.SHMHeadroom)))
	if v.Launch.Accelerator == "cpu" {
		return need{bytes: v.Policy.SHMHeadroom, arithmetic: headroom + ", and nothing for NCCL: it is not used with accelerator cpu"}
	}
	use := nccl.SHMNeed(l.nccl, l.ranks, len(v.Launch.Hosts), 1)
	arithmetic := use.Arithmetic + " + " + headroom
	if use.Segments > 0 {
		arithmetic += fmt.Sprintf("; %s more where its GPUs cannot reach each other directly", humanize.IBytes(uint64(use.Segments)))
	}
	return need{use.Bytes + v.Policy.SHMHeadroom, use.Bytes, use.Block, arithmetic}
}
