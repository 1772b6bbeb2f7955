// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
)

var DiskSpace = checks.Check{
	ID:       "disk-space",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run: checks.OnEach(func(v checks.View, node *facts.Node) (findings []checks.Finding) {
		for _, group := range fileSystems(usedPlaces(v, node)) {
			found := judgePlaces(node, group, v.Policy.DiskFree)
			for i := range found {
				if wouldSee := lacksTemporary(v, node); found[i].Verdict == checks.Warn && wouldSee != "" && slices.ContainsFunc(group, isTemporary) {
					found[i].Verdict, found[i].WouldSee = checks.Fail, wouldSee
				}
			}
			findings = append(findings, found...)
		}
		return findings
	}),
}

// usedPlaces leaves out the places that the launch's exports move elsewhere:
// the probe looked where its own session's environment led it.
func usedPlaces(v checks.View, node *facts.Node) (used []*facts.Place) {
	isElsewhere := func(place *facts.Place) bool {
		if strings.HasPrefix(place.Role, "offload-") || place.Role == "var-tmp" {
			return true // offload-path's, and what is fallen back on
		}
		if place.Role != facts.RoleOutput && slices.ContainsFunc(v.Launch.Places, func(p facts.LaunchFile) bool { return p.Role == place.Role }) {
			return true // what is read, or written by rank 0 alone
		}
		if place.Role == "torch-extensions" && len(v.Launch.Ops()) > 0 && (!place.Writable || place.ReadOnly || place.NoExec) {
			return true // deepspeed-ops says it
		}
		return ranks.Moved(v, node, place)
	}
	for i := range node.Disk.Places {
		if place := &node.Disk.Places[i]; !isElsewhere(place) {
			used = append(used, place)
		}
	}
	return used
}

func isTemporary(place *facts.Place) bool { return place.Role == "tmp" }

// lacksTemporary is what a launch says that does not start on a node for want of a directory
// of temporary files, "" where it does: Open MPI takes the first and no other, torchrun's
// logs whichever takes a file of four bytes. One that was not seen is there.
//
// Source: Python 3.11, Lib/tempfile.py, _get_default_tempdir; torch 2.15,
// torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs.
func lacksTemporary(v checks.View, node *facts.Node) (wouldSee string) {
	var needed []string
	space := int64(4 << 10) // the page that the four bytes take
	switch session := v.Launch.StartedBy().SessionSpace; {
	case session > 0:
		space, needed, wouldSee = session, []string{"tmp"}, "A call to mkdir was unable to create the desired directory: …/ompi.{node}.0, or PMIX ERROR: OUT-OF-RESOURCE"
	case v.Launch.Torchrun():
		needed, wouldSee = []string{"tmp", "var-tmp", "workdir"}, "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', …]"
	default:
		return ""
	}
	places := slices.DeleteFunc(slices.Clone(node.Disk.Places), func(p facts.Place) bool { return !slices.Contains(needed, p.Role) })
	takes := func(place facts.Place) bool {
		hasInodes := place.FreeInodes > 0 || !slices.Contains(ranks.CountInodes, place.FSType)
		return place.Problem != "" || place.Writable && !place.ReadOnly && place.Free >= space && hasInodes
	}
	if len(places) < len(needed) || slices.ContainsFunc(places, takes) {
		return ""
	}
	return wouldSee
}

func fileSystems(places []*facts.Place) (groups [][]*facts.Place) {
	for _, place := range places {
		i := slices.IndexFunc(groups, func(g []*facts.Place) bool {
			return g[0].Source == place.Source && g[0].Free == place.Free && g[0].Problem == place.Problem &&
				g[0].Writable == place.Writable && g[0].ReadOnly == place.ReadOnly && g[0].NoExec == place.NoExec && g[0].InTheWay == place.InTheWay
		})
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], place)
	}
	return groups
}

func judgePlaces(node *facts.Node, places []*facts.Place, wanted int64) []checks.Finding {
	first := places[0]
	hasInodes := first.FreeInodes >= fewInodes || !slices.Contains(ranks.CountInodes, first.FSType)
	if first.Problem == "" && first.Writable && !first.ReadOnly && !first.NoExec && first.Free >= wanted && hasInodes {
		return nil
	}
	roles := text.Map(places, func(place *facts.Place) string { return place.Role })
	f := checks.Finding{Verdict: checks.Warn}
	on := fmt.Sprintf("%s, %s on %s", first.Path, first.FSType, first.Source)
	what := strings.Join(roles, ", ")
	dir := fix.Path(first.Path)
	if !text.IsPlain(first.Path) {
		dir = "." // a name that a shell would take apart is not put into a command
	}
	switch {
	case first.Problem != "":
		return []checks.Finding{checks.UnknownFor(node, fmt.Sprintf("disk: %s (%s): %s", what, first.Path, first.Problem))}
	case first.ReadOnly || !first.Writable:
		if slices.Equal(roles, []string{"hf-cache"}) {
			return nil // a cache of models is often shared and read-only on purpose
		}
		f.Summary = "cannot be written: " + what
		f.Got = on
		f.Want = "a directory the user who launches may write"
		if first.InTheWay != "" {
			f.Got += ": " + first.InTheWay + " is no directory"
		}
		f.Remedy = []fix.Command{fix.On("ls -ld %s; findmnt -T %[1]s", dir)}
		f.WouldSee = "PermissionError: [Errno 13] Permission denied, or FileNotFoundError: No usable temporary directory found"
	case first.NoExec && slices.ContainsFunc(roles, loadsCode):
		f.Summary = "mounted noexec, but compiled kernels are loaded from there: " + strings.Join(slices.DeleteFunc(roles, func(r string) bool { return !loadsCode(r) }), ", ")
		f.Got = on + ", noexec"
		f.Want = "a file system that lets code run, or TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR elsewhere"
		f.Remedy = []fix.Command{fix.On("findmnt -T %s", dir), fix.Here("echo TORCH_EXTENSIONS_DIR=/var/tmp/torch_extensions >> ~/.deepspeed_env"), fix.Here("echo TRITON_CACHE_DIR=/var/tmp/triton >> ~/.deepspeed_env")}
		f.WouldSee = "ImportError: fused_adam.so: failed to map segment from shared object"
	case first.Free < wanted:
		f.Summary = "hardly any space left: " + what
		free, least := compare.Apart(first.Free, wanted)
		f.Got = fmt.Sprintf("%s free of %s at %s (%s)", free, humanize.IBytes(uint64(first.Total)), first.Path, first.Source)
		f.Want = "at least " + least
		f.Remedy = []fix.Command{fix.On("df -h %s", dir), fix.On("du -xh -d 2 %s | sort -h | tail", dir)}
	case !hasInodes:
		f.Summary = "hardly any inode left: " + what
		f.Got = fmt.Sprintf("%d at %s (%s)", first.FreeInodes, first.Path, first.Source)
		f.Want = fmt.Sprintf("at least %d", fewInodes)
		f.Remedy = []fix.Command{fix.On("df -i %s", dir), fix.On("du -x --inodes -d 2 %s | sort -n | tail", dir)}
	default:
		return nil
	}
	return []checks.Finding{f}
}

func loadsCode(role string) bool {
	return role == "triton-cache" || role == "inductor-cache" || role == "torch-extensions"
}
