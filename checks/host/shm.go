// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var SHMSize = checks.Check{
	ID:       "shm-size",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		usual := ranks.FleetNCCL(view)
		return checks.OnEach(func(view checks.View, node *facts.Node) []checks.Finding {
			of := load{cmp.Or(nccl.Version(node), usual), node.Slots}
			return tooSmall(view, node, checks.Remember(view, of, func() need { return of.need(view) })) // computed once for equal nodes, because most nodes of a large fleet are equal
		})(view)
	},
}

func tooSmall(view checks.View, node *facts.Node, need need) []checks.Finding {
	shm := node.SHM
	inMemory := shm.FSType == "tmpfs" || shm.FSType == ""
	if shm.Exists && min(shm.Size, shm.Free) >= need.bytes && inMemory {
		return nil
	}
	got, want := compare.Apart(shm.Size, need.bytes)
	f := checks.Finding{
		Got:    got,
		Want:   fmt.Sprintf("at least %s: %s", want, need.arithmetic),
		Remedy: enlarged(view, node, need.bytes),
	}
	switch {
	case !shm.Exists:
		f.Summary, f.Got = noSHM, ""
		f.WouldSee = "Call to stat failed: No such file or directory"
		if !need.ofNCCL {
			forWorkers(view, node, &f, "FileNotFoundError: [Errno 2] No such file or directory")
		}
	case shm.Size < need.bytes:
		f.Summary = fmt.Sprintf("/dev/shm has %s, needs %s", got, want)
		f.WouldSee = noRoomFor(need.block)
		if shm.Size >= need.nccl {
			f.WouldSee = dataLoaderKilled // NCCL finds enough space, but DataLoader workers do not
		}
		if need.nccl == 0 {
			f.Verdict = checks.Warn
		}
	case shm.Free < need.bytes:
		f.Verdict = checks.Warn
		free, want := compare.Apart(shm.Free, need.bytes)
		f.Summary = "other programs fill /dev/shm: " + free + " free"
		f.Got = fmt.Sprintf("%s free of %s", free, got)
		f.Want = fmt.Sprintf("at least %s free: %s", want, need.arithmetic)
		if len(shm.Segments) > 0 {
			largest := shm.Segments[0]
			f.Got += fmt.Sprintf("; the largest file is %s, %s of %s", largest.Name, humanize.IBytes(uint64(largest.Size)), largest.Owner)
		}
		f.Remedy = []fix.Command{
			fix.On("ls -lSh /dev/shm | head; sudo fuser -v /dev/shm/*").Inside().As(fix.Look),
			fix.Note("end programs that are no longer needed, and delete files that no program uses"),
		}
		if names := unusedFiles(node); names != nil {
			f.Remedy = append(f.Remedy, removal(fix.Code("sudo "), names)[0].Remark("no process has it open; delete it if you do not need its content").Inside().As(fix.Or))
		}
	default:
		f.Verdict = checks.Warn
		f.Summary = "/dev/shm is not in memory: data that ranks share goes through a disk"
		f.Got, f.Want = shm.FSType, "tmpfs"
		f.WouldSee = "no error: training on this node is slower than on the others"
	}
	return []checks.Finding{f}
}

// enlarged returns the commands for a size that the launch, the policy and the baseline accept. The
// size of the baseline is kept exactly.
func enlarged(view checks.View, node *facts.Node, need int64) []fix.Command {
	for _, stated := range compare.StatedOf(view, "shm.size") {
		if stated.Of(node.Name) {
			need = max(need, stated.Least)
		}
	}
	if was := compare.InBaseline(view, node, facts.SectionSHM); was != nil && was.SHM.Size >= need && was.SHM.Size > node.SHM.Size {
		return remedy.SizeSHM(node, was.SHM.Size, "")
	}
	return remedy.EnlargeSHM(node, need)
}

// unusedFiles returns the names of the files in /dev/shm that fill a tenth of it or more and that no
// process has open.
func unusedFiles(node *facts.Node) (names []string) {
	for _, s := range node.SHM.Segments {
		if s.Mapped != nil && !*s.Mapped && s.Size >= node.SHM.Size/10 && canBeNamed(s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// noRoomFor returns the message of NCCL when /dev/shm is full (misc/shmutils.cc, 2.23.4 and later).
// The size in the message shows which kind of block did not fit.
func noRoomFor(bytes int64) string {
	return fmt.Sprintf("Error: failed to extend /dev/shm/nccl-XXXXXX to %d bytes, error: No space left on device (28)", bytes)
}

// forWorkers sets the verdict of a finding about what only DataLoader workers and multiprocessing
// use: fail if the script certainly starts workers, and otherwise warn. message is their error.
func forWorkers(view checks.View, node *facts.Node, f *checks.Finding, message string) {
	f.Verdict, f.WouldSee = checks.Fail, message
	if ranks.Workers(view, node) == 0 {
		f.Verdict, f.WouldSee = checks.Warn, ranks.OnlyWorkers+message
	}
}

// dataLoaderKilled is torch's message for a DataLoader worker that was killed
// (utils/data/_utils/signal_handling.py, 2.5).
const dataLoaderKilled = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. " +
	"It is possible that dataloader's workers are out of shared memory."

const noSHM = "/dev/shm does not exist"

type load struct {
	nccl  string // the version of NCCL
	ranks int
}

// need is the space that /dev/shm must have. It holds the total in bytes, NCCL's part of the total,
// the size of one NCCL block, and the calculation as text.
type need struct {
	bytes, nccl, block int64
	ofNCCL             bool // whether NCCL is used at all
	arithmetic         string
}

func (l load) need(v checks.View) need {
	headroom := fmt.Sprintf("%s for DataLoader workers", humanize.IBytes(uint64(v.Policy.SHMHeadroom)))
	if !ranks.UsesNCCL(v) {
		return need{bytes: v.Policy.SHMHeadroom, arithmetic: headroom + "; NCCL is not used with accelerator cpu"}
	}
	use := nccl.SHMNeed(l.nccl, l.ranks, len(v.Launch.Hosts), 1)
	arithmetic := use.Arithmetic + " + " + headroom
	if use.Segments > 0 {
		arithmetic += fmt.Sprintf("; %s more if its GPUs have no peer access", humanize.IBytes(uint64(use.Segments)))
	}
	return need{use.Bytes + v.Policy.SHMHeadroom, use.Bytes, use.Block, true, arithmetic}
}

var SHMLimits = checks.Check{
	ID:       "shm-limits",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Run:      checks.OnEach(limitsOfSHM),
}

const (
	fewInodes  = 1024     // segments that the ranks and DataLoader workers of a node create at the same time
	smallSysV  = 64 << 20 // in bytes; 32 MiB was the kernel's default before 3.16
	fewSysVIDs = 128
	// The semaphores of a DataLoader are files in /dev/shm: three for each queue and five for the
	// event. It has one queue for the results and one for each worker. Tensors need more files.
	// Source: torch/utils/data/dataloader.py, 2.15; multiprocessing/queues.py, Python 3.11.
	loaderFiles = 3 + 5
	workerFiles = 3
)

func limitsOfSHM(view checks.View, node *facts.Node) (findings []checks.Finding) {
	shm := node.SHM
	if shm.Exists && shm.FSType == "tmpfs" && shm.FreeInodes < fewInodes {
		f := checks.Finding{
			Summary: fmt.Sprintf("/dev/shm has too few free inodes: %d", shm.FreeInodes),
			Got:     fmt.Sprintf("%d free inodes", shm.FreeInodes),
			Want:    fmt.Sprintf("at least %d free inodes", fewInodes),
			Remedy:  []fix.Command{fix.On("sudo mount -o remount,nr_inodes=1M /dev/shm"), fix.On("ls /dev/shm | wc -l").As(fix.Look)},
		}
		const noSpace = "OSError: [Errno 28] No space left on device"
		ofRanks := int64(max(node.Slots, 1)) // one file per rank is the minimum for NCCL
		workers := int64(ranks.Workers(view, node))
		ofWorkers := ofRanks * (loaderFiles + workerFiles*workers)
		switch {
		case ranks.UsesNCCL(view) && shm.FreeInodes <= ofRanks:
		case workers > 0 && shm.FreeInodes < ofWorkers:
			f.Want += fmt.Sprintf("; the DataLoaders of the ranks create %d files at once", ofWorkers)
			f.WouldSee = noSpace
		case workers > 0:
			f.Verdict, f.WouldSee = checks.Warn, "nothing, unless the DataLoader workers need more; then "+noSpace
		case !ranks.UsesNCCL(view):
			f.Verdict, f.WouldSee = checks.Warn, ranks.OnlyWorkers+noSpace
		default:
			f.Verdict = checks.Warn
		}
		findings = append(findings, f)
	}
	if shm.ShmMax < smallSysV || shm.ShmMni < fewSysVIDs {
		findings = append(findings, checks.Finding{
			Verdict:  checks.Warn,
			Summary:  "the kernel's limits on System V shared memory are too small for MPI and UCX",
			Got:      fmt.Sprintf("kernel.shmmax %s, kernel.shmmni %d", humanize.IBytes(shm.ShmMax), shm.ShmMni),
			Want:     fmt.Sprintf("kernel.shmmax at least %s, kernel.shmmni at least %d", humanize.IBytes(smallSysV), fewSysVIDs),
			Remedy:   []fix.Command{fix.On("sudo sysctl -w kernel.shmmax=68719476736 kernel.shmmni=4096")},
			WouldSee: "shmget failed: Invalid argument (from MPI or UCX; NCCL itself uses /dev/shm)",
		})
	}
	if by := view.Launch.StartedBy(); strings.EqualFold(shm.RemoveIPC, "yes") && by.Name != "" && !by.InSession && (node.Host == nil || node.Host.User != "root") {
		findings = append(findings, checks.Finding{
			Verdict:  checks.Warn,
			Summary:  "logind deletes a user's segments when the user's last session ends",
			Got:      "RemoveIPC=yes",
			Want:     "RemoveIPC=no, because " + by.Name + " may leave ranks running without a session",
			Remedy:   []fix.Command{fix.On(`sudo mkdir -p /etc/systemd/logind.conf.d && printf "[Login]\nRemoveIPC=no\n" | sudo tee /etc/systemd/logind.conf.d/ipc.conf && sudo systemctl restart systemd-logind`)},
			WouldSee: "Error while attaching to shared memory segment /dev/shm/nccl-XXXXXX (size 9637888), error: No such file or directory (2)",
		})
	}
	return findings
}

var SHMWritable = checks.Check{
	ID:       "shm-writable",
	Volatile: true,
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSHM},
	Run: checks.OnEach(func(view checks.View, node *facts.Node) []checks.Finding {
		switch {
		case !node.SHM.Exists:
			return checks.Skipped(noSHM + ": see shm-size")
		case node.SHM.Writable:
			return nil
		}
		f := checks.Finding{
			Summary: "no file can be created in /dev/shm",
			Got:     fmt.Sprintf("%s (mode %s, %s)", node.SHM.WriteError, node.SHM.Mode, node.SHM.Options),
			Want:    "a writable mount with mode 1777",
			Remedy:  []fix.Command{fix.On("sudo mount -o remount,rw /dev/shm"), fix.On("sudo chmod 1777 /dev/shm").As(fix.Then)},
		}
		if !ranks.UsesNCCL(view) { // the first lock fails, multiprocessing.SemLock
			message := "PermissionError: [Errno 13] Permission denied"
			if strings.Contains(node.SHM.WriteError, "read-only") {
				message = "OSError: [Errno 30] Read-only file system"
			}
			forWorkers(view, node, &f, message)
		}
		return []checks.Finding{f}
	}),
}

// staleAfter is the age, in seconds, after which a segment that no process maps counts as left
// behind. A live program shares a new segment with other processes within moments.
const staleAfter = 600

// segmentNames lists the prefixes of the names that programs of a training job give to their
// segments. These programs delete their segments when they end normally.
var segmentNames = []string{
	"nccl-",                               // NCCL
	"torch_",                              // torch.multiprocessing, DataLoader workers
	"psm_", "pym-", "sem.mp-", "sem.loky", // Python's multiprocessing, joblib
	"cuda.shm.",                                                         // the CUDA driver
	"ucx_shm_posix_", "vader_segment.", "sm_segment.", "mpich_shar_tmp", // UCX, Open MPI, MPICH
	"__KMP_REGISTERED_LIB_", // OpenMP
}

var SHMLeftovers = checks.Check{
	ID:       "shm-leftovers",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionSHM},
	Volatile: true,
	Run: checks.OnEach(func(view checks.View, node *facts.Node) (findings []checks.Finding) {
		left, unclear := leftovers(node)
		if len(left) > 0 {
			findings = append(findings, leftBehind(node, left))
		}
		if node.Smoke != nil && len(node.Smoke.Left) > 0 {
			findings = append(findings, leftBySmoke(node.Smoke.Left))
		}
		if unclear > view.Policy.SHMHeadroom {
			findings = append(findings, checks.UnknownFor(node, "segments of other users take "+humanize.IBytes(uint64(unclear))+
				", and only root can see whether a process uses them"))
		}
		return findings
	}),
}

// leftovers returns the segments that ended programs left behind on a node. It also returns the
// number of bytes in segments that may still be in use. Only root can map another user's segment.
// Therefore a segment of the login user that no process of that user maps is left over.
func leftovers(node *facts.Node) (left []facts.Segment, unclear int64) {
	for _, segment := range node.SHM.Segments {
		named := slices.ContainsFunc(segmentNames, func(start string) bool { return strings.HasPrefix(segment.Name, start) })
		ours := node.Host != nil && segment.Owner == node.Host.User
		switch {
		case !named || segment.Age < staleAfter || segment.Mapped != nil && *segment.Mapped:
		case segment.Mapped != nil || ours:
			left = append(left, segment)
		default:
			unclear += segment.Size
		}
	}
	return left, unclear
}

func leftBehind(node *facts.Node, left []facts.Segment) checks.Finding {
	var total int64
	var names []string
	sudo := fix.Code("")
	for _, segment := range left {
		total += segment.Size
		names = append(names, segment.Name)
		if canBeNamed(segment.Name) && (node.Host == nil || segment.Owner != node.Host.User) {
			sudo = fix.Code("sudo ")
		}
	}
	return checks.Finding{
		Summary: fmt.Sprintf("programs that have exited left %s in /dev/shm", english.Plural(len(left), "segment", "")),
		Got:     fmt.Sprintf("%s in %s that no process maps; /dev/shm has %s", humanize.IBytes(uint64(total)), english.Plural(len(left), "segment", ""), humanize.IBytes(uint64(node.SHM.Size))),
		Remedy:  removal(sudo, names),
	}
}

// leftBySmoke returns the finding for files that the ranks of the smoke test left behind. The files
// belong to the login user, because the ranks ran as that user.
func leftBySmoke(paths []string) checks.Finding {
	names := text.Map(paths, func(path string) string { return strings.TrimPrefix(path, "/dev/shm/") })
	return checks.Finding{
		Summary: "ranks of the smoke test left files in /dev/shm that preflight could not delete",
		Got:     text.List(names),
		Remedy:  removal(fix.Code(""), names),
	}
}

// removal returns a command that deletes the segments. If no name is safe in a command, it returns
// a command that lists the segments.
func removal(sudo fix.Arg, names []string) []fix.Command {
	const atMost = 20 // names per command
	var paths []string
	for _, name := range names {
		if len(paths) < atMost && canBeNamed(name) {
			paths = append(paths, "/dev/shm/"+name)
		}
	}
	if paths == nil {
		return []fix.Command{fix.On("ls -lSh /dev/shm").As(fix.Look)}
	}
	return []fix.Command{fix.On("%srm -f %s", sudo, fix.List[fix.Name](" ", paths))}
}

// canBeNamed reports whether a name is safe in a command. No shell may split the name, and its path
// must stay in /dev/shm.
func canBeNamed(name string) bool { return text.IsPlain(name) && !strings.Contains(name, "/") }
