package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks/fix"
	"preflight/facts"
)

// judgePlaces judges the places of one file system by its fullness.
func judgePlaces(node *facts.Node, places []facts.Place, wanted int64) (Finding, bool) {
	first := places[0]
	var roles []string
	finding := Finding{Verdict: Warn, Nodes: []string{node.Name}}
	for _, place := range places {
		roles = append(roles, place.Role)
		if place.Role == "workdir" || place.Role == "tmp" {
			finding.Verdict = Fail
		}
	}
	what := strings.Join(roles, ", ")
	dir := fix.Path(first.Path)
	if !fix.IsPlain(first.Path) {
		dir = "." // a name that a shell would take apart is not put into a command
	}
	switch {
	case first.Problem != "":
		return unknown(node, fmt.Sprintf("disk: %s (%s): %s", what, first.Path, first.Problem)), true
	case first.ReadOnly || !first.Writable:
		if slices.Equal(roles, []string{"hf-cache"}) {
			return Finding{}, false // a cache of models is often shared and read-only on purpose
		}
		finding.Summary = "cannot be written: " + what
		finding.Got = fmt.Sprintf("%s, %s on %s", first.Path, first.FSType, first.Source)
		finding.Want = "a directory the user who launches may write"
		finding.Remedy = []fix.Command{fix.On("ls -ld %s; findmnt -T %[1]s", dir)}
		finding.WouldSee = "PermissionError: [Errno 13] Permission denied, or FileNotFoundError: No usable temporary directory found"
	case first.NoExec && slices.ContainsFunc(roles, loadsCode):
		finding.Verdict = Warn
		finding.Summary = "mounted noexec, but compiled kernels are loaded from there: " + strings.Join(slices.DeleteFunc(roles, func(r string) bool { return !loadsCode(r) }), ", ")
		finding.Got = fmt.Sprintf("%s, %s on %s, noexec", first.Path, first.FSType, first.Source)
		finding.Want = "a file system that lets code run, or TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR elsewhere"
		finding.Remedy = []fix.Command{fix.On("findmnt -T %s", dir), fix.Here("echo TORCH_EXTENSIONS_DIR=/var/tmp/torch_extensions >> ~/.deepspeed_env"), fix.Here("echo TRITON_CACHE_DIR=/var/tmp/triton >> ~/.deepspeed_env")}
		finding.WouldSee = "ImportError: fused_adam.so: failed to map segment from shared object"
	case first.Free < wanted:
		finding.Summary = "hardly any space left: " + what
		free, least := apart(first.Free, wanted)
		finding.Got = fmt.Sprintf("%s free of %s at %s (%s)", free, humanize.IBytes(uint64(first.Total)), first.Path, first.Source)
		finding.Want = "at least " + least
		finding.Remedy = []fix.Command{fix.On("df -h %s", dir), fix.On("du -xh -d 2 %s | sort -h | tail", dir)}
	case countsInodes(first.FSType) && first.FreeInodes < fewInodes:
		finding.Summary = "hardly any inode left: " + what
		finding.Got = fmt.Sprintf("%d at %s (%s)", first.FreeInodes, first.Path, first.Source)
		finding.Want = fmt.Sprintf("at least %d", fewInodes)
		finding.Remedy = []fix.Command{fix.On("df -i %s", dir), fix.On("du -x --inodes -d 2 %s | sort -n | tail", dir)}
	default:
		return Finding{}, false
	}
	return finding, true
}

// loadsCode reports whether a launch runs code it compiled into that place.
func loadsCode(role string) bool { return role == "triton-cache" || role == "torch-extensions" }

// countsInodes reports whether a file system has a fixed number of inodes.
// The others (btrfs, NFS servers of all kinds) may truthfully report 0.
func countsInodes(fstype string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "tmpfs"}, fstype)
}
